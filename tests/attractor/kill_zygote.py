"""A process that has everything imported, and forks a run for each line on stdin: `kind folder log spot`.

`spot` is where the run kills itself: `before:3` or `after:3` the third step is synced, or `never`. To stdout go
each run's process id and its exit status.
"""

import os
import signal
import sys
from pathlib import Path

import anyio
from attractor.dot import parse_dot
from attractor.graph import Graph, Node
from attractor.interviewers import DeferringInterviewer
from attractor.outcome import Outcome
from attractor.pipeline import PipelineRunner
from attractor.state import journal
from attractor.state.context import Context
from attractor.validation import validate

ENDS = "start [shape=Mdiamond]; exit [shape=Msquare]"
PIPELINES = {
    "linear": f"digraph g {{ {ENDS}; start -> a -> b -> c -> d -> exit }}",
    "branching": f"""digraph g {{ {ENDS}; d [shape=diamond]; fails [max_retries=0]; start -> a -> fails -> d
        d -> b [condition="outcome=success"]; d -> c [condition="outcome=fail"]; b -> exit; c -> e -> exit }}""",
    "parallel": f"""digraph g {{ {ENDS}; fork [shape=component]; join [shape=tripleoctagon]; start -> fork
        fork -> {{a b c}}; a -> a2 -> join; b -> b2 -> join; c -> join; join -> after -> exit }}""",
    "gate": f"""digraph g {{ {ENDS}; gate [shape=hexagon]; start -> a -> gate; gate -> b [label="[Y] Yes"]
        gate -> c [label="[N] No"]; b -> exit; c -> exit }}""",
    "gates": f"""digraph g {{ {ENDS}; fork [shape=component]; join [shape=tripleoctagon]; l [shape=hexagon]
        r [shape=hexagon]; start -> fork -> {{l r work}}; l -> a [label="[Y] Yes"]; r -> b [label="[Y] Yes"]
        {{a b work}} -> join -> exit }}""",
    "retries": f"digraph g {{ {ENDS}; flaky [max_retries=2]; start -> a -> flaky -> b -> exit }}",
    "loop": f"""digraph g {{ {ENDS}; start -> a -> count; count -> a [condition="context.rounds!=3"]
        count -> exit [condition="context.rounds=3"] }}""",
    "restart": f"""digraph g {{ {ENDS}; start -> a -> once; once [max_retries=0]
        once -> a [condition="outcome=fail", loop_restart=true]
        once -> b [condition="outcome=success"]; b -> exit }}""",
}
NEVER, WAITING = "never", 3


class Work:
    """Notes what it executes, durably enough for SIGKILL, and does what the node's name says."""

    def __init__(self, log: Path) -> None:
        self._log = log

    async def execute(self, node: Node, context: Context, graph: Graph, logs_root: Path) -> Outcome:
        descriptor = os.open(self._log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.write(descriptor, node.id.encode() + b"\n")
        os.close(descriptor)
        await anyio.sleep(0.002)
        updates: dict[str, object] = {f"by.{node.id}": len(context.snapshot()), "last": node.id}
        match node.id:
            case "fails":
                return Outcome.fail("it fails")
            case "flaky" if context.run.attempt < 2:
                return Outcome(status="retry", notes="not yet")  # type: ignore[arg-type]
            case "count":
                updates["rounds"] = int(context.get("rounds", 0)) + 1
            case "once" if logs_root == context.run.run_root:
                return Outcome.fail("once more")
        return Outcome.success(context_updates=updates)


def kill_at(spot: str) -> None:
    """Let this process kill itself at a step."""
    when, number = spot.split(":")
    sync, steps = journal._sync, iter(range(1, 1_000_000))

    def counted(descriptor: int) -> None:
        due = next(steps) == int(number)
        if due and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        sync(descriptor)
        if due:
            os.kill(os.getpid(), signal.SIGKILL)

    journal._sync = counted


async def execute(kind: str, folder: Path, log: Path) -> int:
    runner = PipelineRunner(logs_root=folder, handlers={"codergen": Work(log)}, interviewer=DeferringInterviewer())
    begun = folder / "journal.jsonl"
    # Before the first record is whole there is nothing to go on from: whoever started it starts it again.
    if begun.exists() and b"\n" in begun.read_bytes():
        result = await runner.resume(folder)
    else:
        for path in folder.glob("*"):
            path.unlink()
        result = await runner.run(PIPELINES[kind])
    return WAITING if result.waiting else 0 if result.status.is_success else 1


def main() -> None:
    # What is loaded and made on first use, once for all.
    validate(parse_dot(PIPELINES["linear"]))
    anyio.run(anyio.sleep, 0)
    for line in sys.stdin:
        kind, folder, log, spot = line.split()
        pid = os.fork()
        if pid == 0:
            if spot != NEVER:
                kill_at(spot)
            os._exit(anyio.run(execute, kind, Path(folder), Path(log)))
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
