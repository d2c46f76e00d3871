"""The sub-pipeline: a whole pipeline as one stage (section 9.4)."""

import time
from pathlib import Path

from attractor.events import ChildCompleted, ChildStarted, Emit
from attractor.graph import Graph, Node
from attractor.handlers.child_run import ChildPipelines, ChildRun
from attractor.outcome import Outcome
from attractor.state.context import Context


class SubPipelineHandler:
    """Runs the pipeline in `stack.child_dotfile` to its end, in `child-N` of the stage's directory.

    It begins with the parent's context; what it changed comes back as `<node id>.<key>`. Its success or failure is the
    stage's. Retries of the stage, and resumptions, go on with the child where it stopped.
    """

    is_external = True

    def __init__(self, pipelines: ChildPipelines, emit: Emit) -> None:
        self._pipelines = pipelines
        self._emit = emit

    async def execute(self, node: Node, context: Context, graph: Graph, logs_root: Path) -> Outcome:
        child = ChildRun(self._pipelines, node, context, graph, logs_root)
        if not child.run_dir.exists():
            child.read()
        begun = time.monotonic()
        self._emit(ChildStarted, name=node.id, run_dir=str(child.run_dir))
        result = await child.run()
        outcome = child.judge(result)
        duration = round(time.monotonic() - begun, 6)
        self._emit(ChildCompleted, name=node.id, status=outcome.status.value, duration=duration)
        return outcome
