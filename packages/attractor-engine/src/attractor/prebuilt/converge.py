"""A loop that goes on until its work gets no better."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

from attractor.handlers.convergence import Candidate, Convergence
from attractor.prebuilt.assembly import END, START
from attractor.prebuilt.builder import Graph
from attractor.prebuilt.channels import State, append, last
from attractor.prebuilt.compiled import CompiledGraph
from attractor.prebuilt.node_context import NodeContext, call_node, takes_context
from attractor.prebuilt.run_store import RunStore


class ConvergeState(State):
    """How a loop stands. `input` is the caller's; the rest is the loop's.

    `history` has each turn's score, None for a turn without one, `streak` how many turns in a row were no better.
    `stop_reason` is "done", "optimal", "converged" or "exhausted", and empty while the loop goes on.
    """

    input: Any
    iterations: Annotated[int, last]
    history: Annotated[list[float | None], append]
    last_score: float | None
    best_score: float | None
    best_payload: Any
    streak: int
    stop_reason: str


Worker = (
    Callable[[ConvergeState], Candidate | Awaitable[Candidate]]
    | Callable[[ConvergeState, NodeContext], Candidate | Awaitable[Candidate]]
)
"""One turn: an async or plain function of the state so far, and of the NodeContext if it takes two arguments."""


def iterate_until_converged(
    work: Worker,
    *,
    perfect_score: float = 100.0,
    patience: int = 4,
    max_iterations: int = 20,
    checkpointer: RunStore | str | Path | None = None,
) -> CompiledGraph[ConvergeState]:
    """A compiled graph that calls `work` until one of these holds; the first that does is the `stop_reason`.

    * "done": the candidate says so.
    * "optimal": the best score so far is at least `perfect_score`.
    * "converged": `patience` turns in a row were no better than the best before them.
    * "exhausted": `work` was called `max_iterations` times.

    Every turn is a step of its own, so a resumed run goes on behind the last turn that ended. What `work` raises is a
    NodeError, and resuming tries that turn again. A candidate's score must be finite, or NaN for none; its payload
    JSON. Raises ValueError for a negative patience, or no iterations.
    """
    convergence = Convergence(perfect_score=perfect_score, patience=patience, max_iterations=max_iterations)
    takes_context(work)

    async def step(state: ConvergeState, ctx: NodeContext) -> Mapping[str, Any]:
        candidate = await call_node(work, state, ctx)
        if not isinstance(candidate, Candidate):
            raise TypeError(f"the work of a loop must return a Candidate, not {type(candidate).__name__}")
        return convergence.judge(state, candidate)

    graph = Graph(ConvergeState, name="converge")
    graph.add_node("step", step)
    graph.add_edge(START, "step")
    graph.add_conditional_edges("step", _route, {"again": "step", "stop": END})
    return graph.compile(checkpointer=checkpointer, step_limit=max_iterations + 5)


def _route(state: ConvergeState) -> str:
    return "stop" if state.get("stop_reason") else "again"
