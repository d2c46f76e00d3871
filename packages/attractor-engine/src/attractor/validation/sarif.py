"""Findings as SARIF 2.1.0, the interchange format of static analysis, which code hosts show beside changed lines."""

import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import quote

from attractor.diagnostics import Diagnostic, Severity, Span
from attractor.validation.explanations import EXPLANATIONS

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_ADVICE = re.compile(r"did you mean (?P<name>[\w.]+)\?|write (?P<word>\S+)")
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def to_sarif(findings: Iterable[Diagnostic], *, root: Path, sources: Mapping[str, str]) -> dict[str, Any]:
    """One run of lint as a SARIF log.

    Files below `root`, which is the repository's, get URIs relative to it; `sources` are the texts of files by the
    name that findings have for them, from which the ends of regions are told. Rules of the user's own are listed too.
    """
    found = list(findings)
    rules = list(dict.fromkeys([*EXPLANATIONS, *(item.rule for item in found)]))
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "attractor",
                        "version": version("attractor-engine"),
                        "rules": [_describe(rule) for rule in rules],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "results": [_result(item, rules.index(item.rule), root, sources) for item in found],
            }
        ],
    }


def _describe(rule: str) -> dict[str, Any]:
    known = EXPLANATIONS.get(rule)
    summary = known.summary if known else f"The rule {rule}."
    why = known.why if known else "It is a rule of this project's own."
    return {
        "id": rule,
        "shortDescription": {"text": summary},
        "fullDescription": {"text": f"{summary} {why}"},
        "help": {"text": f"{summary} {why}", "markdown": f"**{summary}** {why}"},
        "defaultConfiguration": {"level": _LEVELS[known.severity if known else Severity.WARNING]},
    }


def _result(item: Diagnostic, index: int, root: Path, sources: Mapping[str, str]) -> dict[str, Any]:
    location: dict[str, Any] = {
        "physicalLocation": {
            "artifactLocation": _locate(item.file_name, root),
            "region": _region(item.span, sources.get(item.file_name, "")),
        }
    }
    about = item.node_id or (" -> ".join(item.edge) if item.edge else "")
    if about:
        location["logicalLocations"] = [{"name": about, "kind": "object"}]
    identity = "\0".join((item.rule, about, item.message))
    fix = _fix(item, root, sources.get(item.file_name, ""))
    return {
        "ruleId": item.rule,
        "ruleIndex": index,
        "level": _LEVELS[item.severity],
        "message": {"text": f"{item.message}. Fix: {item.fix}" if item.fix else item.message},
        "locations": [location],
        "partialFingerprints": {"finding/v1": hashlib.sha256(identity.encode("utf-8", "replace")).hexdigest()},
        "properties": {"fix": item.fix},
        **({"fixes": [fix]} if fix else {}),
    }


def _fix(item: Diagnostic, root: Path, source: str) -> dict[str, Any] | None:
    """The change that a program can make, where there is but one: another name for an attribute, or its unit."""
    covered = source[item.span.start : item.span.end] if item.span else ""
    key, equals, _ = covered.partition("=")
    advised = _ADVICE.fullmatch(item.fix)
    if item.span is None or advised is None or not equals:
        return None
    new = advised["name"] or advised["word"]
    if item.rule == "duration_unit":
        old = covered
    elif item.rule in ("unknown_attribute", "dialect_name"):
        old, new = key.rstrip(), f'"{new}"' if "." in new else new
    else:
        return None
    region = _region(replace(item.span, end=item.span.start + len(old)), source)
    return {
        "description": {"text": item.fix},
        "artifactChanges": [
            {
                "artifactLocation": _locate(item.file_name, root),
                "replacements": [{"deletedRegion": region, "insertedContent": {"text": new}}],
            }
        ],
    }


def _locate(name: str, root: Path) -> dict[str, str]:
    """A file's place: relative to the root if it lies below, so that it is the same on every machine."""
    if not name or name.startswith("<"):
        return {"uri": quote(name.strip("<>") or "graph")}
    path = Path(os.path.abspath(name))
    if path.is_relative_to(root.absolute()):
        return {"uri": quote(path.relative_to(root.absolute()).as_posix()), "uriBaseId": "%SRCROOT%"}
    return {"uri": path.as_uri()}


def _region(span: Span | None, source: str) -> dict[str, int]:
    """Lines and columns from 1 on; the end is behind the last character."""
    if span is None:
        return {"startLine": 1}
    region = {"startLine": span.line, "startColumn": span.column}
    covered = source[span.start : span.end]
    if covered:
        *before, last = covered.split("\n")
        region["endLine"] = span.line + len(before)
        region["endColumn"] = len(last) + (1 if before else span.column)
    return region
