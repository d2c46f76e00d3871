"""Shell commands around the tool calls of an agent (section 9.7)."""

import json
from pathlib import Path
from typing import Any

import pytest
from attractor.backends.agent import AgentBackend
from attractor.pipeline import PipelineRunner, RunResult
from unified_llm import Client
from unified_llm.testing import ScriptedAdapter, respond


def shell(command: str) -> Any:
    return respond(tool_calls=[("shell", {"command": command})])


async def run(folder: Path, *steps: Any, graph: str = "", node: str = "") -> tuple[RunResult, ScriptedAdapter]:
    text = f"""digraph g {{ goal="tidy"; {graph}
        start [shape=Mdiamond]; exit [shape=Msquare]; a [prompt="Do it.", {node}]; start -> a -> exit }}"""
    with ScriptedAdapter(*steps) as adapter:
        backend = AgentBackend(Client({"s": adapter}, "s"), model="m", working_dir=folder)
        return await PipelineRunner(backend=backend, logs_root=folder / "run").run(text), adapter


def records(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "run/a/tool_hooks.jsonl").read_bytes().splitlines()]


def results_shown(adapter: ScriptedAdapter, request: int = 1) -> str:
    return str(adapter.requests[request].messages[-1])


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_hooks_are_told_of_each_call(tmp_path: Path) -> None:
    graph = 'tool_hooks.pre="cat >> pre.jsonl"; tool_hooks.post="cat >> post.jsonl";'
    result, _ = await run(tmp_path, shell("echo first"), shell("echo second; exit 3"), "Done.", graph=graph)
    assert result.status == "success"
    before = [json.loads(line) for line in (tmp_path / "pre.jsonl").read_text().splitlines()]
    after = [json.loads(line) for line in (tmp_path / "post.jsonl").read_text().splitlines()]
    assert [call["arguments"]["command"] for call in before] == ["echo first", "echo second; exit 3"]
    assert {(call["hook"], call["node"], call["tool"], call["run_id"]) for call in before} == {
        ("pre", "a", "shell", result.run_id)
    }
    assert "first" in after[0]["output"]
    assert [call["call_id"] for call in after] == [call["call_id"] for call in before]
    assert all(call["session_id"] for call in [*before, *after])
    kept = sorted((record["hook"], record["exit_code"], record["failure"]) for record in records(tmp_path))
    assert kept == [("post", 0, ""), ("post", 0, ""), ("pre", 0, ""), ("pre", 0, "")]


async def test_the_environment_names_tool_and_node(tmp_path: Path) -> None:
    pre = "echo $ATTRACTOR_HOOK $ATTRACTOR_NODE_ID $ATTRACTOR_TOOL_NAME $goal $ATTRACTOR_STAGE_DIR > seen # why"
    await run(tmp_path, shell("true"), "Done.", graph=f'tool_hooks.pre="{pre}";')
    assert (tmp_path / "seen").read_text().split() == ["pre", "a", "shell", "tidy", str(tmp_path / "run/a")]


async def test_a_pre_hook_skips_a_call_and_the_model_reads_why(tmp_path: Path) -> None:
    graph = (
        'tool_hooks.pre="grep -q forbidden && { echo not that >&2; exit 1; }; exit 0"; tool_hooks.post="cat >> post";'
    )
    result, adapter = await run(tmp_path, shell("touch forbidden"), shell("touch fine"), "Done.", graph=graph)
    assert result.status == "success"
    assert (tmp_path / "fine").exists()
    assert not (tmp_path / "forbidden").exists()
    assert "Denied: the pre-hook exited with code 1: not that" in results_shown(adapter)
    assert "touch forbidden" not in (tmp_path / "post").read_text(), "what was not executed has no hook after it"
    assert [record["exit_code"] for record in records(tmp_path)] == [1, 0, 0]
    assert "not that" in records(tmp_path)[0]["failure"]


async def test_the_hook_of_the_node_wins(tmp_path: Path) -> None:
    await run(
        tmp_path, shell("true"), "Done.", graph='tool_hooks.pre="touch outer";', node='"tool_hooks.pre"="touch inner"'
    )
    assert (tmp_path / "inner").exists()
    assert not (tmp_path / "outer").exists()


async def test_a_failing_post_hook_blocks_nothing(tmp_path: Path) -> None:
    result, adapter = await run(tmp_path, shell("echo out"), "Done.", graph='tool_hooks.post="echo broken; exit 9";')
    assert result.status == "success"
    assert "out" in results_shown(adapter)
    [record] = records(tmp_path)
    assert (record["exit_code"], record["stdout"].strip()) == (9, "broken")
    assert "exited with code 9" in record["failure"]


async def test_a_hook_that_hangs_skips_the_call(tmp_path: Path) -> None:
    graph = 'tool_hooks.pre="sleep 60"; tool_hooks.timeout=100ms;'
    result, adapter = await run(tmp_path, shell("touch made"), "Done.", graph=graph)
    assert result.status == "success"
    assert "Denied: the pre-hook took longer than 0.1 s" in results_shown(adapter)
    assert not (tmp_path / "made").exists()


async def test_calls_of_subagents_have_hooks_too(tmp_path: Path) -> None:
    def answer(request: Any) -> Any:
        text = str(request.messages)
        if "subagent for another agent" not in text:
            if "spawn_agent" not in text.split("Do it.")[-1]:
                return respond(tool_calls=[("spawn_agent", {"task": "Look around."})])
            if "wait" not in text.split("spawn_agent")[-1]:
                return respond(tool_calls=[("wait", {"agent_id": "agent-1"})])
            return "Done."
        return "Looked." if "inner-call" in text else shell("echo inner-call")

    graph = 'tool_hooks.pre="cat >> pre.jsonl"; tool_hooks.post="cat >> post.jsonl";'
    result, _ = await run(tmp_path, *[answer] * 5, graph=graph)
    assert result.status == "success"
    for name in ("pre.jsonl", "post.jsonl"):
        calls = [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]
        assert "echo inner-call" in [call["arguments"].get("command") for call in calls], name
        assert len({call["session_id"] for call in calls}) == 2


async def test_a_limit_that_can_not_be_read_is_that_of_the_graph(tmp_path: Path) -> None:
    graph, node = 'tool_hooks.pre="sleep 60"; tool_hooks.timeout=100ms;', '"tool_hooks.timeout"=soon'
    result, _ = await run(tmp_path, shell("touch made"), "Done.", graph=graph, node=node)
    assert result.status == "success"
    assert "took longer than 0.1 s" in records(tmp_path)[0]["failure"]


@pytest.mark.parametrize(
    "command",
    [
        "head -c 300000 /dev/urandom; exit 1",
        "cat > /dev/null; cat; exit 1",
        "kill -9 $$",
        "no_such_program",
        "unfinished '",
        "exec <&- >&- 2>&-; exit 1",
        "rm -r $ATTRACTOR_STAGE_DIR/tool_hooks $ATTRACTOR_STAGE_DIR/tool_hooks.jsonl; exit 1",
        "ln -sf $PWD/treasure $ATTRACTOR_STAGE_DIR/tool_hooks.jsonl; exit 1",
    ],
)
async def test_a_hook_in_bad_shape_skips_the_call_and_no_more(tmp_path: Path, command: str) -> None:
    (tmp_path / "treasure").write_text("gold")
    graph = f'tool_hooks.pre="{command}"; tool_hooks.post="{command}"; tool_hooks.timeout=5s;'
    result, adapter = await run(tmp_path, shell("touch made"), shell("touch made"), "Done.", graph=graph)
    assert (result.status, (tmp_path / "made").exists()) == ("success", False)
    assert "Denied: the pre-hook" in results_shown(adapter)
    assert (tmp_path / "treasure").read_text() == "gold"
    assert records(tmp_path)[-1]["failure"]
