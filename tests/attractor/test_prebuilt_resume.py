"""Python graphs survive the death of their process: no completed node runs again, and nothing is lost."""

import fcntl
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import anyio
import pytest
from attractor.errors import CheckpointError, RunDirectoryError
from attractor.prebuilt import START, Graph, NodeContext, NodeError, RunStore, State, append

PROGRAM = """
import os, sys
from pathlib import Path
from typing import Annotated
import anyio
from attractor.prebuilt import END, START, Graph, State, add, append

class Work(State):
    items: Annotated[list[str], append]
    rounds: Annotated[int, add]

async def work(state, ctx):
    await anyio.sleep(0.02)
    fd = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, ctx.node.encode() + b" ")
    os.close(fd)
    return {"items": ctx.node, "rounds": 1 if ctx.node == "join" else 0}

graph = Graph(Work)
for name in ("a", "left", "left2", "right", "right2", "join"):
    graph.add_node(name, work)
graph.add_edge(START, "a").add_edge("a", "left").add_edge("a", "right")
graph.add_edge("left", "left2").add_edge("right", "right2").add_edge("left2", "join").add_edge("right2", "join")
graph.add_conditional_edges("join", lambda state: state["rounds"] < 6, {True: "a", False: END})
compiled = graph.compile(checkpointer=sys.argv[1])

async def main():
    begun = (Path(sys.argv[1]) / "r" / "checkpoint.json").exists()
    result = await (compiled.resume(run_id="r") if begun else compiled.invoke({}, run_id="r"))
    print(result)

anyio.run(main)
"""
ROUND = ["a", "left", "left2", "right", "right2", "join"]


def start(folder: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", PROGRAM, str(folder / "runs"), str(folder / "ran")]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def read(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


def test_killed_graph_goes_on_in_another_process(tmp_path: Path) -> None:
    kills = 0
    while True:
        with start(tmp_path) as process:
            assert process.stdout is not None
            before = len(read(tmp_path / "ran"))
            # Killed behind some of its steps; some moment within them is as good as another.
            while process.poll() is None and kills < 5:
                if len(read(tmp_path / "ran")) >= before + 4:
                    process.send_signal(signal.SIGKILL)
                    kills += 1
                    break
            said = process.stdout.read()
            if process.wait(60) == 0:
                break
    assert kills > 0
    assert said.strip() == str({"items": ROUND * 6, "rounds": 6})
    ran = Counter(read(tmp_path / "ran"))
    # Each of the two nodes at work when it was killed may have done its work without having recorded it.
    assert all(ran[name] >= 6 for name in ROUND)
    assert ran.total() - 6 * len(ROUND) <= 2 * kills


class Work(State):
    items: Annotated[list[str], append]


async def step(state: Work, ctx: NodeContext) -> dict[str, Any]:
    return {"items": ctx.node}


def chain(*names: str) -> Graph[Work]:
    graph = Graph(Work)
    for source, name in zip((START, *names), names, strict=False):
        graph.add_node(name, step).add_edge(source, name)
    return graph


async def test_failed_node_is_tried_again_and_those_before_are_not(tmp_path: Path) -> None:
    ran: list[str] = []
    broken = True

    def work(state: Work, ctx: NodeContext) -> dict[str, Any]:
        ran.append(ctx.node)
        if broken and ctx.node == "b":
            raise ConnectionError
        return {"items": ctx.node}

    graph = Graph(Work)
    for source, name in ((START, "a"), ("a", "b"), ("b", "c")):
        graph.add_node(name, work).add_edge(source, name)
    compiled = graph.compile(checkpointer=tmp_path)
    with pytest.raises(NodeError):
        await compiled.invoke({})
    broken = False
    assert (await compiled.resume())["items"] == ["a", "b", "c"]
    assert ran == ["a", "b", "b", "c"]
    assert [step.node for step in compiled.history()] == ["a", "b", "c"]


async def test_cancelled_run_goes_on_where_it_was(tmp_path: Path) -> None:
    ready = anyio.Event()
    patient = True

    async def wait(state: Work) -> dict[str, Any]:
        if patient:
            ready.set()
            await anyio.sleep_forever()
        return {"items": "waited"}

    graph = chain("a").add_node(wait).add_edge("a", "wait")
    compiled = graph.compile(checkpointer=tmp_path)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(compiled.invoke, {})
        await ready.wait()
        tasks.cancel_scope.cancel()
    assert compiled.state() == {"items": ["a"]}
    patient = False
    assert await compiled.resume() == {"items": ["a", "waited"]}


async def test_run_that_ended_gives_its_result_again(tmp_path: Path) -> None:
    compiled = chain("a").compile(checkpointer=tmp_path)
    result = await compiled.invoke({}, run_id="r")
    assert await compiled.resume(run_id="r") == result


async def test_another_graph_object_finds_the_last_run_of_the_store(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    assert store.run_ids() == []
    compiled = chain("a").compile(checkpointer=store)
    with pytest.raises(RunDirectoryError, match="holds no run yet"):
        compiled.state()
    await compiled.invoke({"items": ["1"]}, run_id="z-first")
    await compiled.invoke({"items": ["2"]}, run_id="a-second")
    assert store.run_ids() == ["z-first", "a-second"]
    again = chain("a").compile(checkpointer=str(tmp_path))
    assert again.state() == {"items": ["2", "a"]}
    assert again.state("z-first") == {"items": ["1", "a"]}
    assert await again.resume() == {"items": ["2", "a"]}


async def test_changed_graph_does_not_go_on_with_a_run_of_another(tmp_path: Path) -> None:
    await chain("a").compile(checkpointer=tmp_path).invoke({}, run_id="r")
    with pytest.raises(CheckpointError, match="belongs to another pipeline"):
        await chain("a", "b").compile(checkpointer=tmp_path).resume(run_id="r")


async def test_run_directory_is_that_of_a_pipeline(tmp_path: Path) -> None:
    await chain("a").compile(checkpointer=tmp_path).invoke({}, run_id="r")
    names = {path.name for path in (tmp_path / "r").iterdir()}
    assert {"manifest.json", "pipeline.dot", "journal.jsonl", "checkpoint.json", "events.jsonl", "a"} <= names
    assert (tmp_path / "r" / "a" / "status.json").exists()


async def test_custom_reducers_are_not_asked_again_when_a_run_is_resumed(tmp_path: Path) -> None:
    asked = []

    def keep(old: list[int], new: int) -> list[int]:
        asked.append(new)
        return [*old, new]

    class Odd(State):
        seen: Annotated[list[int], keep]

    fails = True

    def second(state: Odd) -> dict[str, int]:
        if fails:
            raise ConnectionError
        return {"seen": 2}

    graph = Graph(Odd).add_node("first", lambda state: {"seen": 1}).add_node(second)
    compiled = graph.add_edge(START, "first").add_edge("first", "second").compile(checkpointer=tmp_path)
    with pytest.raises(NodeError):
        await compiled.invoke({})
    fails = False
    assert await compiled.resume() == {"seen": [1, 2]}
    assert asked == [1, 2]


async def test_run_that_was_killed_before_its_first_state_begins_with_its_input(tmp_path: Path) -> None:
    compiled = chain("a").compile(checkpointer=tmp_path)
    await compiled.invoke({"items": ["given"]}, run_id="r")
    for path in (tmp_path / "r").iterdir():
        if path.name in ("journal.jsonl", "checkpoint.json", "events.jsonl"):
            path.unlink()
    assert await compiled.resume(run_id="r") == {"items": ["given", "a"]}


async def test_run_that_another_process_just_begins_is_left_alone(tmp_path: Path) -> None:
    """It has its manifest, and no state yet: as one that was killed, but for its lock."""
    compiled = chain("a").compile(checkpointer=tmp_path)
    await compiled.invoke({"items": ["given"]}, run_id="r")
    for name in ("journal.jsonl", "checkpoint.json"):
        (tmp_path / "r" / name).unlink()
    with (tmp_path / "r" / ".lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(RunDirectoryError, match="in use by another process"):
            await compiled.resume(run_id="r")
    assert (tmp_path / "r" / "manifest.json").exists()
    assert await compiled.resume(run_id="r") == {"items": ["given", "a"]}


async def test_error_tells_where_to_resume_if_there_is_such_a_place(tmp_path: Path) -> None:
    def fail(state: Work) -> None:
        raise ConnectionError

    graph = Graph(Work).add_node(fail).add_edge(START, "fail")
    for place, told in ((tmp_path, tmp_path / "r"), (None, None)):
        with pytest.raises(NodeError) as caught:
            await graph.compile(checkpointer=place).invoke({}, run_id="r")
        assert (caught.value.run_id, caught.value.run_dir) == ("r", told)


async def test_second_process_is_kept_off_a_run(tmp_path: Path) -> None:
    ready, go = anyio.Event(), anyio.Event()

    async def wait(state: Work) -> dict[str, Any]:
        ready.set()
        await go.wait()
        return {"items": "waited"}

    compiled = Graph(Work).add_node(wait).add_edge(START, "wait").compile()
    results = []

    async def run() -> None:
        results.append(await compiled.invoke({}))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await ready.wait()
        with pytest.raises(RunDirectoryError, match="in use by another process"):
            await compiled.resume()
        go.set()
    assert results == [{"items": ["waited"]}]
