"""The sub-pipeline: a whole pipeline as one stage (section 9.4)."""

from pathlib import Path

from attractor.events import Emit
from attractor.graph import Graph, Node
from attractor.handlers.child_run import ChildPipelines, ChildRun, tell_of_child
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
        with tell_of_child(self._emit, node.id, child.run_dir) as tell_end:
            outcome = child.judge(await child.run())
            tell_end(outcome)
        return outcome
