"""Findings as SARIF 2.1.0: the parts of the format that code hosts need, checked against a schema of them."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attractor as attractor_package
import jsonschema
import pytest
from attractor.diagnostics import Diagnostic, Severity
from attractor.validation.explanations import EXPLANATIONS
from attractor.validation.sarif import to_sarif

TEXT = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "minLength": 1}}}
LEVEL = {"enum": ["none", "note", "warning", "error"]}
LINE = {"type": "integer", "minimum": 1}
# What the standard requires of these objects, and what code hosts require beyond it; other fields they have none.
SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["$schema", "version", "runs"],
    "properties": {
        "version": {"const": "2.1.0"},
        "runs": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/run"}},
        "$schema": {"type": "string", "format": "uri", "pattern": "sarif-2.1.0.json$"},
    },
    "additionalProperties": False,
    "$defs": {
        "run": {
            "type": "object",
            "required": ["tool", "results"],
            "properties": {
                "tool": {
                    "type": "object",
                    "required": ["driver"],
                    "properties": {"driver": {"$ref": "#/$defs/driver"}},
                    "additionalProperties": False,
                },
                "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                "results": {"type": "array", "items": {"$ref": "#/$defs/result"}},
            },
            "additionalProperties": False,
        },
        "driver": {
            "type": "object",
            "required": ["name", "version", "rules"],
            "properties": {
                "name": {"const": "attractor"},
                "version": {"type": "string"},
                "rules": {"type": "array", "uniqueItems": True, "items": {"$ref": "#/$defs/rule"}},
            },
            "additionalProperties": False,
        },
        "rule": {
            "type": "object",
            "required": ["id", "shortDescription", "fullDescription", "help", "defaultConfiguration"],
            "properties": {
                "id": {"type": "string", "pattern": "^[a-z_]+$"},
                "shortDescription": TEXT,
                "fullDescription": TEXT,
                "help": {**TEXT, "properties": {**TEXT["properties"], "markdown": {"type": "string"}}},
                "defaultConfiguration": {"type": "object", "required": ["level"], "properties": {"level": LEVEL}},
            },
            "additionalProperties": False,
        },
        "result": {
            "type": "object",
            "required": ["ruleId", "ruleIndex", "level", "message", "locations", "partialFingerprints"],
            "properties": {
                "ruleId": {"type": "string"},
                "ruleIndex": {"type": "integer", "minimum": 0},
                "level": LEVEL,
                "message": TEXT,
                "locations": {"type": "array", "minItems": 1, "maxItems": 1, "items": {"$ref": "#/$defs/location"}},
                "partialFingerprints": {"type": "object", "additionalProperties": {"type": "string"}},
                "properties": {"type": "object"},
                "fixes": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/fix"}},
            },
            "additionalProperties": False,
        },
        "artifact": {
            "type": "object",
            "required": ["uri"],
            "properties": {
                "uri": {"type": "string", "pattern": r"^[A-Za-z0-9._~:/%-]+$"},
                "uriBaseId": {"const": "%SRCROOT%"},
            },
            "additionalProperties": False,
        },
        "region": {
            "type": "object",
            "required": ["startLine"],
            "properties": dict.fromkeys(["startLine", "startColumn", "endLine", "endColumn"], LINE),
            "additionalProperties": False,
        },
        "fix": {
            "type": "object",
            "required": ["artifactChanges"],
            "properties": {
                "description": TEXT,
                "artifactChanges": {
                    "type": "array",
                    "minItems": 1,
                    "items": {
                        "type": "object",
                        "required": ["artifactLocation", "replacements"],
                        "properties": {
                            "artifactLocation": {"$ref": "#/$defs/artifact"},
                            "replacements": {
                                "type": "array",
                                "minItems": 1,
                                "items": {
                                    "type": "object",
                                    "required": ["deletedRegion"],
                                    "properties": {
                                        "deletedRegion": {"$ref": "#/$defs/region"},
                                        "insertedContent": TEXT,
                                    },
                                    "additionalProperties": False,
                                },
                            },
                        },
                        "additionalProperties": False,
                    },
                },
            },
            "additionalProperties": False,
        },
        "location": {
            "type": "object",
            "required": ["physicalLocation"],
            "properties": {
                "physicalLocation": {
                    "type": "object",
                    "required": ["artifactLocation", "region"],
                    "properties": {
                        "artifactLocation": {"$ref": "#/$defs/artifact"},
                        "region": {"$ref": "#/$defs/region"},
                    },
                    "additionalProperties": False,
                },
                "logicalLocations": {"type": "array", "items": {"type": "object", "required": ["name", "kind"]}},
            },
            "additionalProperties": False,
        },
    },
}
SOURCE = """\ufeffdigraph g {
    start [shape=Mdiamond]
    a [prompt="Say\n  é $x", max_retrys=2]
    start -> a
}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "my project"
    (folder / "pipelines").mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


def results(log: dict[str, Any], rule: str) -> list[dict[str, Any]]:
    return [result for result in log["runs"][0]["results"] if result["ruleId"] == rule]


def check(log: dict[str, Any]) -> None:
    """Valid, and in itself consistent."""
    jsonschema.Draft202012Validator(SCHEMA).validate(log)
    rules = log["runs"][0]["tool"]["driver"]["rules"]
    for result in log["runs"][0]["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]


def test_a_log_of_findings(attractor: Callable, project: Path) -> None:
    Path("pipelines/a b.dot").write_text(SOURCE)
    Path("broken.dot").write_text("digraph g {\n  a -- b\n}\n")
    ended = attractor("lint", "pipelines/a b.dot", project / "broken.dot", "--sarif")
    assert ended.code == 1
    log = json.loads(ended.out)
    check(log)
    (unknown,) = results(log, "unknown_attribute")
    assert unknown["level"] == "warning"
    assert unknown["message"]["text"].endswith("Fix: did you mean max_retries?")
    place = unknown["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "pipelines/a%20b.dot", "uriBaseId": "%SRCROOT%"}
    assert place["region"] == {"startLine": 4, "startColumn": 10, "endLine": 4, "endColumn": 22}
    (variable,) = results(log, "unknown_variable")
    region = variable["locations"][0]["physicalLocation"]["region"]
    assert (region["startLine"], region["endLine"], region["endColumn"]) == (3, 4, 8)
    (syntax,) = results(log, "syntax")
    assert syntax["level"] == "error"
    assert syntax["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "broken.dot", "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 2, "startColumn": 5},
    }


@pytest.mark.parametrize(
    ("attribute", "mended"),
    [
        ("max_retrys = 2", "max_retries = 2"),
        ('"max_retrys"=2', "max_retries=2"),
        ('humn.timeout="5s"', '"human.timeout"="5s"'),
        ("timeout=30", 'timeout="30s"'),
        ('script="true"', 'tool_command="true"'),
    ],
)
def test_what_a_program_can_mend(attribute: str, mended: str, attractor: Callable, project: Path) -> None:
    """Applying the fix to the text makes the finding go away."""
    text = "digraph g {{\n  start [shape=Mdiamond]; exit [shape=Msquare]\n  a [prompt=x, {}]; start -> a -> exit\n}}\n"
    Path("a.dot").write_text(text.format(attribute))
    log = json.loads(attractor("lint", "a.dot", "--sarif").out)
    check(log)
    ((fix,),) = [item["fixes"] for item in log["runs"][0]["results"] if "fixes" in item]
    ((change,),) = [part["replacements"] for part in fix["artifactChanges"]]
    region, new = change["deletedRegion"], change["insertedContent"]["text"]
    lines = text.format(attribute).split("\n")
    line = lines[region["startLine"] - 1]
    lines[region["startLine"] - 1] = line[: region["startColumn"] - 1] + new + line[region["endColumn"] - 1 :]
    assert "\n".join(lines) == text.format(mended)
    Path("a.dot").write_text("\n".join(lines))
    again = json.loads(attractor("lint", "a.dot", "--sarif").out)
    assert not [item for item in again["runs"][0]["results"] if "fixes" in item]


def test_what_has_no_place(attractor: Callable, project: Path) -> None:
    Path("none.dot").write_text("digraph g { }")
    (finding, *_) = results(json.loads(attractor("lint", "none.dot", "--sarif").out), "start_node")
    assert finding["locations"][0]["physicalLocation"]["region"] == {"startLine": 1}
    made = Diagnostic(rule="house_style", severity=Severity.INFO, message="no owner", edge=("a", "b"))
    log = to_sarif([made], root=project, sources={})
    check(log)
    (result,) = results(log, "house_style")
    assert result["level"] == "note"
    assert result["locations"][0]["logicalLocations"] == [{"name": "a -> b", "kind": "object"}]


def test_files_elsewhere_and_stdin(project: Path, tmp_path: Path) -> None:
    found = [
        Diagnostic(rule="start_node", severity=Severity.ERROR, message="x", file_name=name)
        for name in (str(tmp_path / "else.dot"), "<stdin>", "../else.dot")
    ]
    log = to_sarif(found, root=project, sources={})
    check(log)
    uris = [item["locations"][0]["physicalLocation"]["artifactLocation"] for item in log["runs"][0]["results"]]
    assert uris[0] == {"uri": (tmp_path / "else.dot").as_uri()}
    assert uris[1] == {"uri": "stdin"}
    assert uris[2] == {"uri": (project.parent / "else.dot").as_uri()}


def test_a_finding_keeps_its_fingerprint_when_lines_move(attractor: Callable, project: Path) -> None:
    prints = []
    for name, source in (("a.dot", SOURCE), ("b.dot", SOURCE.replace("digraph", "// moved\n\ndigraph"))):
        Path(name).write_text(source)
        log = json.loads(attractor("lint", name, "--sarif").out)
        prints.append([item["partialFingerprints"] for item in log["runs"][0]["results"]])
    assert prints[0] == prints[1]


def test_json_and_sarif_are_one_too_many(attractor: Callable, project: Path) -> None:
    Path("a.dot").write_text(SOURCE)
    assert attractor("lint", "a.dot", "--json", "--sarif").code == 2


def test_every_rule_is_explained() -> None:
    """Whatever the sources name as a rule, in any of the ways in which they do."""
    source = Path(attractor_package.__file__).parent
    named: set[str] = set()
    for path in sorted(source.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        named |= set(re.findall(r'\brule="(\w+)"', text))
        named |= set(re.findall(r'(?:about_(?:node|edge|graph)|finding|warn|_about)\(\s*(?:\w+,\s*)*"(\w+)"', text))
    assert named == EXPLANATIONS.keys()


def test_the_schema_sees_what_is_wrong() -> None:
    log = to_sarif([Diagnostic(rule="start_node", severity=Severity.ERROR, message="x")], root=Path("/"), sources={})
    check(log)
    log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"]["startLine"] = 0
    with pytest.raises(jsonschema.ValidationError):
        check(log)
