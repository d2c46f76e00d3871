"""Runs within runs: what the handlers of sub-pipelines and manager loops are given by the runner they work for."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from attractor.dot import parse_dot
from attractor.engine.execution import Ties
from attractor.errors import CheckpointError, PipelineConfigurationError
from attractor.graph import Graph
from attractor.handlers.child_run import ChildPlan, ChildRunner
from attractor.state.run_directory import read_manifest, read_source

MAX_DEPTH = 8
"""Runs within runs; one that is its own child would go on without end."""


@dataclass(frozen=True, slots=True)
class Children:
    """The protocol ChildPipelines, for one run. `make` makes a runner like the parent's, of the given ties."""

    make: Callable[[ChildPlan, Ties], ChildRunner]
    parent_dir: Path
    ties: Ties

    def read(self, path: Path) -> Graph:
        """See ChildPipelines."""
        try:
            return parse_dot(path.read_bytes().decode("utf-8"), str(path))
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise PipelineConfigurationError(f"the child pipeline {path} can't be read: {why}") from error

    def restore(self, run_dir: Path) -> Graph:
        """See ChildPipelines."""
        source = read_source(run_dir)
        if not source:
            raise CheckpointError(f"{run_dir} holds no pipeline.dot; remove that directory to begin the child anew")
        return parse_dot(source, str(read_manifest(run_dir).get("file_name", "")))

    def find(self, path: str, graph: Graph) -> Path:
        """See ChildPipelines."""
        places = find_places(path, graph, self.parent_dir)
        found = next((place for place in places if place.is_file()), None)
        if found is None:
            looked = " or ".join(str(place) for place in places)
            raise PipelineConfigurationError(f"the child pipeline {path} does not exist; looked for {looked}")
        return found

    def working_dir(self, path: str) -> Path | None:
        """See ChildPipelines."""
        if not path:
            return None
        folder = self.parent_dir / path
        if not folder.is_dir():
            raise PipelineConfigurationError(f"stack.child_workdir {path} is no directory (looked for {folder})")
        return folder

    def resolve(self, path: str) -> Path:
        """See ChildPipelines."""
        return self.parent_dir / path

    def open(self, plan: ChildPlan) -> ChildRunner:
        """See ChildPipelines."""
        depth = deepen(self.ties.depth)
        inherited = plan.working_dir or self.ties.working_dir
        ties = Ties(
            depth=depth,
            refuse_usage=plan.refuse_usage,
            working_dir=inherited,
            questions_root=plan.questions_root,
        )
        return self.make(plan, ties)


def deepen(depth: int) -> int:
    """The depth of a run within one of this depth; raises PipelineConfigurationError if that is too deep."""
    if depth >= MAX_DEPTH:
        raise PipelineConfigurationError(
            f"pipelines lie within pipelines more than {MAX_DEPTH} deep; does one of them run itself?"
        )
    return depth + 1


def find_places(path: str, graph: Graph, working_dir: Path) -> list[Path]:
    """Where a file that a pipeline names may lie: beside the pipeline's own file, else in the working directory."""
    beside = [Path(graph.file_name).absolute().parent / path] if graph.file_name else []
    return list(dict.fromkeys([*beside, working_dir / path]))
