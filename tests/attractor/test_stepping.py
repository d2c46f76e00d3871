"""A run whose loop somebody else owns: state in, state and effects out."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from attractor import CheckpointError, Outcome, parse_dot
from attractor.engine.stepping import Advance, Checkpoint, RunStatus, Stepper, decode_state, encode_state
from attractor.pipeline import PipelineRunner
from attractor.suspension import Suspend

DOT = """digraph g { goal="go"; start [shape=Mdiamond]; exit [shape=Msquare]; fork [shape=component]
    join [shape=tripleoctagon]; check [shape=diamond]; build [goal_gate=true, retry_target=plan]
    start -> plan -> build -> check; check -> fork [condition="outcome=success"]; check -> plan
    fork -> left -> join; fork -> right -> join; join -> exit }"""


class Work:
    """Fails the first build of a run; knows by the context alone, since it keeps nothing between steps."""

    async def execute(self, node: Any, context: Any, graph: Any, logs_root: Path) -> Outcome:
        tries = int(context.get("tries", 0)) + 1
        if node.id == "build" and tries == 1:
            return Outcome.fail("not yet", context_updates={"tries": tries})
        return Outcome.success(context_updates={f"by.{node.id}": tries})


async def walk(folder: Path, text: str, handlers: dict[str, Any], **options: Any) -> list[Advance]:
    """All steps, each by a stepper of its own that knows nothing but the text of the state."""
    folder.mkdir()
    graph = parse_dot(text)
    kept = encode_state(Stepper(graph, folder, handlers=handlers).begin("r", {"given": 1}))
    taken: list[Advance] = []
    while not taken or taken[-1].state.status in (RunStatus.RUNNING, RunStatus.RESTARTED):
        stepper = Stepper(graph, folder, handlers=handlers, **options)
        taken.append(await stepper.advance(decode_state(kept), {"given": 1}))
        await stepper.close()
        kept = encode_state(taken[-1].state)
    return taken


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_a_run_driven_from_outside_is_the_run(tmp_path: Path) -> None:
    taken = await walk(tmp_path / "steps", DOT, {"codergen": Work()})
    runner = PipelineRunner(logs_root=tmp_path / "run", handlers={"codergen": Work()}, context={"given": 1})
    whole = await runner.run(DOT)
    state = taken[-1].state
    assert (state.status, whole.status) == ("completed", "success")
    assert tuple(state.completed_nodes) == whole.completed_nodes
    assert state.context_values == whole.context
    assert state.node_outcomes == whole.node_outcomes
    assert [event.type for advance in taken for event in advance.events] == [
        event.type for event in await recorded(runner, tmp_path / "run")
    ]


async def recorded(runner: PipelineRunner, folder: Path) -> list[Any]:
    return [event async for event in runner.events() if not event.type.startswith("Pipeline")]


async def test_a_step_leaves_the_state_it_was_given_and_tells_what_changed(tmp_path: Path) -> None:
    stepper = Stepper(parse_dot(DOT), tmp_path, handlers={"codergen": Work()})
    state = stepper.begin("r")
    while state.status is RunStatus.RUNNING:
        before = deepcopy(state)
        taken = await stepper.advance(state)
        assert state == before
        again = deepcopy(state)
        for entry in taken.entries:
            again.apply(entry)
        for branch in again.branches.values():
            branch.run_id = "r"  # Known to whoever walks the branch; no entry repeats it.
        assert again == taken.state, "the state is the one before with the entries applied"
        assert [event.sequence for event in taken.events] == list(range(1, len(taken.events) + 1))
        state = taken.state
    assert not list(tmp_path.rglob("journal.jsonl"))


async def test_a_step_that_is_taken_twice_does_the_same(tmp_path: Path) -> None:
    stepper = Stepper(parse_dot(DOT), tmp_path, handlers={"codergen": Work()}, clock=lambda: 7.0)
    state = (await stepper.advance(stepper.begin("r"))).state
    first, second = await stepper.advance(state), await stepper.advance(state)
    assert (first.state, first.entries) == (second.state, second.entries)


async def test_an_end_stays_an_end(tmp_path: Path) -> None:
    taken = await walk(tmp_path / "steps", DOT, {"codergen": Work()})
    again = await Stepper(parse_dot(DOT), tmp_path / "steps").advance(taken[-1].state)
    assert (again.state, again.entries, again.events) == (taken[-1].state, (), ())


async def test_a_restart_goes_on_in_a_fresh_state(tmp_path: Path) -> None:
    text = """digraph g { start [shape=Mdiamond]; exit [shape=Msquare]
        start -> a; a -> exit [condition="outcome=success"]; a -> a [condition="outcome=fail", loop_restart=true] }"""
    replies = [Outcome.fail("again", context_updates={"left": 1}), Outcome.success()]

    class Once:
        async def execute(self, node: Any, context: Any, graph: Any, logs_root: Path) -> Outcome:
            (logs_root / "was_here").touch()
            return replies.pop(0)

    taken = await walk(tmp_path / "steps", text, {"codergen": Once()})
    assert [advance.state.status for advance in taken] == ["running", "restarted", "running", "completed"]
    assert taken[-1].state.restarts == 1
    assert "left" not in taken[-1].state.context_values
    assert taken[-1].state.context_values["given"] == 1
    assert (tmp_path / "steps/restart-1/was_here").exists()


async def test_a_state_that_waits_goes_on_when_it_can(tmp_path: Path) -> None:
    text = "digraph g { start [shape=Mdiamond]; exit [shape=Msquare]; start -> a -> exit }"

    class Asks:
        async def execute(self, node: Any, context: Any, graph: Any, logs_root: Path) -> Outcome:
            raise Suspend(nested=True)

    taken = await walk(tmp_path / "steps", text, {"codergen": Asks()})
    assert taken[-1].state.status == "waiting"
    graph = parse_dot(text)
    after = await Stepper(graph, tmp_path / "steps", handlers={"codergen": Work()}).advance(taken[-1].state)
    assert (after.state.status, after.state.completed_nodes) == ("running", ["start", "a"])


async def test_a_state_of_another_pipeline_is_refused(tmp_path: Path) -> None:
    other = Stepper(parse_dot("digraph o { start [shape=Mdiamond]; exit [shape=Msquare]; start -> exit }"), tmp_path)
    with pytest.raises(CheckpointError, match="belongs to another pipeline"):
        await Stepper(parse_dot(DOT), tmp_path).advance(other.begin("r"))
    with pytest.raises(CheckpointError, match="not valid JSON"):
        decode_state("{")
    assert decode_state(encode_state(Checkpoint(run_id="x"))) == Checkpoint(run_id="x")
