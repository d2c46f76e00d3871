"""The pipelines of docs/cookbook.md run to their ends: no model, but real commands where they have any."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from attractor import give_value, list_suspensions
from attractor.cli.failure import WAITING
from attractor.dot import parse_dot

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = ROOT / "docs/examples"
PAGE = ROOT / "docs/cookbook.md"
RELEASE = {"VERSION": "1.2\n", "publish.sh": "echo x >> published\n"}
# Fails as often as the number says, and then succeeds.
FLAKY = 'n=$(cat tries 2>/dev/null || echo 0); echo $((n + 1)) > tries; echo "try $n"; test "$n" -ge {}\n'


@dataclass(frozen=True)
class Recipe:
    """How an example is run, and which stages it comes through; those of branches and of children aside."""

    name: str
    path: str
    script: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    code: int = 0


RECIPES = [
    Recipe(
        "plan-implement-review",
        "start plan implement plan implement review implement review exit",
        {"implement": ["fail", "success"], "review": ["fail", "success"]},
    ),
    Recipe(
        "goal-gate",
        "start fix test report fix test report exit",
        files={"run-tests.sh": FLAKY.format(1)},
    ),
    Recipe("parallel-research", "start ask collect answer exit", {"risks": ["retry", "success"]}),
    Recipe("human-approval", "start draft approve publish exit"),
    Recipe("test-loop", "start write test mend test mend test exit", files={"run-tests.sh": FLAKY.format(2)}),
    Recipe(
        "retries",
        "start fetch enrich exit",
        {"enrich": "retry"},
        {"fetch.sh": FLAKY.format(1)},
    ),
    Recipe("stylesheet", "start list upgrade verify upgrade verify summary exit", {"verify": ["fail", "success"]}),
    Recipe(
        "multi-provider",
        "start drafts choose polish exit",
        {"choose": {"status": "success", "notes": '{"best_id": "gemini"}'}},
    ),
    Recipe(
        "triage",
        "start read fix urgent release exit",
        {
            "read": {"outcome": "bug", "status": "success", "context_updates": {"severity": 9}},
        },
    ),
    Recipe(
        "restart",
        "start next work next work next exit",
        files={
            "next-item.sh": 'n=$(cat tries 2>/dev/null || echo 0); echo $((n + 1)) > tries; echo "item $n"\n'
            'cd "$ATTRACTOR_STAGE_DIR"\n'
            'test "$n" -lt 2 || echo \'{"outcome": "empty", "status": "success"}\' > status.json\n'
        },
    ),
    Recipe(
        "review-board",
        "start prepare board verdict rework board verdict exit",
        {"security": ["fail", "success"], "tests": ["fail", "success"], "design": "success"},
    ),
    Recipe("budget", "start cover measure cover measure exit", files={"coverage.sh": FLAKY.format(1)}),
    Recipe("sub-pipeline", "start tidy version exit"),
    Recipe("supervisor", "start manage exit"),
    Recipe("conversation", "start read port check critic port check critic exit", {"critic": ["fail", "success"]}),
    Recipe("demo", "start ask check good publish exit"),
    Recipe(
        "converge",
        "start improve improve improve improve report exit",
        files={"score.sh": FLAKY.format(0) + 'test "$n" -eq 0 && echo \'{"score": 60}\' || echo \'{"score": 75}\'\n'},
    ),
    Recipe(
        "quality-gate",
        "start draft links draft links review draft links review publish exit",
        {"review": ["fail", "success"]},
        {"check-links.sh": FLAKY.format(1)},
    ),
    Recipe("once", "start version notes publish exit", files=RELEASE),
    Recipe("interrupt", "start amount", code=WAITING),
    Recipe(
        "flaky",
        "start fetch check unchecked exit",
        files={"fetch.sh": FLAKY.format(3), "check.sh": "sleep 600\n"},
    ),
    Recipe("tool-loop", "start look report exit"),
]
BY_NAME = {recipe.name: recipe for recipe in RECIPES}


def run(attractor: Callable, recipe: Recipe, tmp_path: Path) -> tuple[int, Path]:
    work, logs = tmp_path / "work", tmp_path / "run"
    work.mkdir()
    for name, text in recipe.files.items():
        (work / name).write_text(text)
    script = tmp_path / "script.json"
    script.write_text(json.dumps(recipe.script))
    how = ("--script", script) if recipe.script else ("--simulate",)
    options = ("--auto-approve", "--workdir", work, "--logs", logs, "--quiet")
    ended = attractor("run", EXAMPLES / f"{recipe.name}.dot", *how, *options)
    return ended.code, logs


def stages(logs: Path) -> list[str]:
    """The stages in the order in which they completed, or failed for good."""
    found = []
    for line in (logs / "events.jsonl").read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        if event["type"] == "StageCompleted" or (event["type"] == "StageFailed" and not event["will_retry"]):
            found.append(event["name"])
    return found


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_it_runs_to_its_end(recipe: Recipe, attractor: Callable, tmp_path: Path) -> None:
    code, logs = run(attractor, recipe, tmp_path)
    graph = parse_dot((EXAMPLES / f"{recipe.name}.dot").read_bytes())
    aside = {
        edge.target
        for node in graph.nodes.values()
        if node.shape == "component"
        for edge in graph.outgoing_edges(node.id)
    }
    assert [name for name in stages(logs) if name not in aside] == recipe.path.split()
    assert code == recipe.code


def test_every_example_is_run_and_told_of() -> None:
    names = sorted(path.stem for path in EXAMPLES.glob("*.dot"))
    assert names == sorted(BY_NAME)
    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in names if f"(examples/{name}.dot)" not in text] == []


def test_branches_run_and_are_judged(attractor: Callable, tmp_path: Path) -> None:
    _, logs = run(attractor, BY_NAME["multi-provider"], tmp_path)
    checkpoint = json.loads((logs / "checkpoint.json").read_text())
    assert checkpoint["context"]["parallel.fan_in.best_id"] == "gemini"
    assert {"openai", "anthropic", "gemini"} <= set(stages(logs))


def test_a_budget_ends_the_run(attractor: Callable, tmp_path: Path) -> None:
    recipe = Recipe("budget", "", files={"coverage.sh": "exit 1\n"})
    code, logs = run(attractor, recipe, tmp_path)
    assert code == 1
    assert stages(logs).count("cover") <= 10


def test_a_person_who_gives_up_and_one_who_wants_more(terminal: Callable, tmp_path: Path) -> None:
    at = terminal(
        "run", EXAMPLES / "human-approval.dot", "--simulate", "--workdir", tmp_path, "--logs", tmp_path / "run"
    )
    at.wait_for("Ship these notes?")
    at.press("r\n")
    at.wait_for("Ship these notes?")
    at.press("d\n")
    assert at.wait() == 0
    assert stages(tmp_path / "run") == ["start", "draft", "approve", "draft", "approve", "drop", "exit"]


@pytest.mark.parametrize(
    ("outcome", "path"),
    [
        ("feature", "start read design exit"),
        ("question", "start read reply exit"),
        ("fail", "start read escalate exit"),
    ],
)
def test_triage_has_a_way_for_every_word(outcome: str, path: str, attractor: Callable, tmp_path: Path) -> None:
    script = {"read": {"outcome": outcome, **({"status": "success"} if outcome != "fail" else {})}}
    _, logs = run(attractor, Recipe("triage", path, script), tmp_path)
    assert stages(logs) == path.split()


def test_a_gate_that_never_passes_asks_a_person(attractor: Callable, tmp_path: Path) -> None:
    recipe = Recipe("quality-gate", "", {"review": "fail"}, {"check-links.sh": "true\n"})
    code, logs = run(attractor, recipe, tmp_path)
    assert code == 0
    assert stages(logs)[1:] == ["draft", "links", "review"] * 3 + ["decide", "publish", "exit"]


def test_a_release_that_is_run_again_publishes_once(attractor: Callable, tmp_path: Path) -> None:
    _, first = run(attractor, BY_NAME["once"], tmp_path)
    options = ("--simulate", "--workdir", tmp_path / "work", "--logs", tmp_path / "again", "--quiet")
    assert attractor("run", EXAMPLES / "once.dot", *options).code == 0
    assert (tmp_path / "work/published").read_text() == "x\n"
    said = [json.loads((logs / "checkpoint.json").read_text())["context"] for logs in (first, tmp_path / "again")]
    assert [context["effect.status"] for context in said] == ["done", "known"]


@pytest.mark.parametrize(("value", "stage"), [("paid", "thank"), ("refused", "remind")])
def test_a_value_from_another_system(value: str, stage: str, attractor: Callable, tmp_path: Path) -> None:
    _, logs = run(attractor, BY_NAME["interrupt"], tmp_path)
    (wanted,) = list_suspensions(logs)
    assert wanted.payload == {"prompt": "Pay the invoice", "values": {"tool.output": "120\n"}}
    give_value(logs, wanted.id, value)
    assert attractor("resume", logs, "--quiet").code == 0
    assert stages(logs) == ["start", "amount", "pay", stage, "exit"]


def test_a_tool_loop_calls_the_commands_of_its_node(
    attractor: Callable, tmp_path: Path, chat_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_COMPATIBLE_BASE_URL", chat_server.url)
    (tmp_path / "orders.csv").write_text("7,A1\n8,A2\n7,A3\n")
    chat_server.calls = [("find_orders", {"week": "7"}), ("find_orders", {"week": '"; touch hit; echo "'})]
    logs = tmp_path / "run"
    options = ("--provider", "openai_compatible", "--model", "m", "--backend", "llm", "--workdir", tmp_path)
    ended = attractor("run", EXAMPLES / "tool-loop.dot", *options, "--logs", logs, "--quiet")
    assert ended.code == 0, ended.err
    assert stages(logs) == ["start", "look", "report", "exit"]
    first, second, third = chat_server.requests[:3]
    (orders, _) = first["tools"]
    assert orders["function"]["description"] == "Orders of a calendar week: week,order"
    assert orders["function"]["parameters"]["required"] == ["week"]
    assert second["messages"][-1]["content"] == "7,A1\n7,A3"
    assert "exited with code 1" in third["messages"][-1]["content"]
    assert not (tmp_path / "hit").exists(), "an argument is data, whatever it holds"
