"""A quality gate: work goes on if it is good enough, back if it is not, and to a person if that doesn't help."""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any

from unified_llm import Client, generate_object

from attractor.backends.usage import report_usage
from attractor.events import GateEvaluated
from attractor.handlers.gates import (
    ESCALATE,
    FAIL,
    GATE_ATTEMPTS,
    PASS,
    VERDICT_SCHEMA,
    GateResult,
    check_max_attempts,
    read_verdict,
    record_verdict,
)
from attractor.prebuilt.builder import Graph
from attractor.prebuilt.channels import State, merge
from attractor.prebuilt.errors import GraphError
from attractor.prebuilt.node_context import NodeContext, S, call_node, takes_context

Evaluator = Callable[..., GateResult | Awaitable[GateResult]]
"""`(state)` or `(state, ctx)`, async or not."""
GATES = "gates"


class GateState(State):
    """Base of the states of graphs with quality gates.

    `gates` has for each gate that was reached `passed`, `score`, `reasons` and `feedback` of its last evaluation, how
    many `attempts` that took since it last passed, and the `route` that it took.
    """

    gates: Annotated[dict[str, Any], merge]


def add_quality_gate(
    graph: Graph[S],
    name: str,
    evaluator: Evaluator,
    *,
    on_pass: str,
    on_fail: str,
    on_escalate: str,
    max_attempts: int = GATE_ATTEMPTS,
) -> None:
    """Add a gate as node `name`; the caller adds the edge that leads to it, and the nodes it leads to.

    `evaluator` judges the state. Work that passes goes on to `on_pass`. Work that doesn't goes to `on_fail`, but the
    evaluation that fails for the `max_attempts`-th time since the gate last passed goes to `on_escalate`, as does
    each after it that fails. Every gate has a budget of its own. Each evaluation is told as a GateEvaluated event.

    An evaluator that raises fails the node: a gate that can't be evaluated lets nothing through. Raises ValueError for
    a budget below 1, GraphError if the graph's state has no channel `gates` (see GateState).
    """
    check_max_attempts(max_attempts)
    takes_context(evaluator)
    if GATES not in graph.channels:
        raise GraphError(f"the state of gate {name!r} needs the channel {GATES!r}: derive it from GateState")

    async def evaluate(state: S, ctx: NodeContext) -> Mapping[str, Any]:
        result = await call_node(evaluator, state, ctx)
        if not isinstance(result, GateResult):
            raise TypeError(f"the evaluator of gate {name!r} must return a GateResult, not {type(result).__name__}")
        record = record_verdict(state.get(GATES, {}).get(name), result, max_attempts)
        ctx.emit(GateEvaluated, gate=name, max_attempts=max_attempts, **to_event(record))
        return {GATES: {name: record}}

    graph.add_node(name, evaluate)
    targets = {PASS: on_pass, FAIL: on_fail, ESCALATE: on_escalate}
    graph.add_conditional_edges(name, lambda state: state[GATES][name]["route"], targets)


def judge_by_model(
    model: str,
    criteria: str,
    *,
    show: Callable[[Any], Any] | None = None,
    client: Client | None = None,
    provider: str | None = None,
    pass_score: float | None = None,
) -> Evaluator:
    """An evaluator that asks a model whether the work meets the criteria.

    `show` makes of the state what the model sees, text or JSON; by default all but the gates. With `pass_score` the
    work passes when the model gives at least that many of 100 points, whatever it says besides. The evaluator raises
    what the client raises.
    """

    async def evaluate(state: Any, ctx: NodeContext) -> GateResult:
        shown = show(state) if show else {key: value for key, value in state.items() if key != GATES}
        work = shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False, indent=1)
        prompt = f"Judge a piece of work by these criteria:\n\n{criteria}\n\nThe work:\n\n{work}"
        answer = await generate_object(model, prompt, schema=dict(VERDICT_SCHEMA), client=client, provider=provider)
        report_usage(ctx.stage.context, answer.total_usage, model)
        verdict = read_verdict(answer.output)
        if pass_score is None:
            return verdict
        passed = verdict.score is not None and verdict.score >= pass_score
        return GateResult(passed, verdict.score, verdict.reasons, verdict.feedback)

    return evaluate


def to_event(record: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a GateEvaluated that the gate's record has."""
    return {
        "passed": record["passed"],
        "route": record["route"],
        "attempt": record["attempts"],
        "score": record["score"],
        "reasons": record["reasons"],
    }
