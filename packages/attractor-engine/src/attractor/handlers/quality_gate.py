"""The quality gate handler: an evaluation, and one of three ways on."""

from pathlib import Path
from typing import Any

from attractor.events import GateEvaluated
from attractor.graph import Graph, Node, to_int
from attractor.handlers.gates import GATE_ATTEMPTS, GateResult, check_max_attempts, read_verdict, record_verdict
from attractor.handlers.work import Answer, Toolkit, find_object, read_output
from attractor.outcome import Outcome
from attractor.state.context import Context

PREFIX = "gate."
_WANTED = (
    'End with a JSON object that is your verdict: {"passed": true or false, "score": 0 to 100, '
    '"reasons": ["why"], "feedback": "what to do differently"}'
)


class QualityGateHandler:
    """Judges, and takes the edge labelled `pass`, `fail`, or, when `gate.max_attempts` are used up, `escalate`.

    A `function` returns a GateResult. A `tool_command` passes by its exit code; a JSON object in its output may give
    score, reasons and feedback, and may say that it did not pass. A `prompt` asks a model, whose answer holds such an
    object, or which reports an outcome; an answer without a verdict is a failure of the stage, never a pass.

    The verdict is in the context as `gate.<node id>`, and that of the last gate as `gate.route`, `gate.score` and
    `gate.feedback`. A gate that judged is a success as a stage, whichever way it leads.
    """

    is_external = True

    def __init__(self, toolkit: Toolkit) -> None:
        self._toolkit = toolkit

    async def execute(self, node: Node, context: Context, graph: Graph, logs_root: Path) -> Outcome:
        given = to_int(node.attrs.get("gate.max_attempts"))
        max_attempts = GATE_ATTEMPTS if given is None else given
        try:
            check_max_attempts(max_attempts)
        except ValueError as error:
            return Outcome.fail(f"quality gate {node.id!r}: {error}", terminal=True)
        try:
            result = await self._evaluate(node, context, graph, logs_root)
        except ValueError as error:
            return Outcome.fail(f"quality gate {node.id!r}: {error}")
        if isinstance(result, Outcome):
            return result
        key = f"{PREFIX}{node.id}"
        record = record_verdict(context.get(key), result, max_attempts)
        route = record["route"]
        context.run.emit(
            GateEvaluated,
            gate=node.id,
            passed=record["passed"],
            route=route,
            attempt=record["attempts"],
            max_attempts=max_attempts,
            score=record["score"],
            reasons=record["reasons"],
        )
        updates: dict[str, Any] = {
            key: record,
            f"{PREFIX}route": route,
            f"{PREFIX}score": record["score"],
            f"{PREFIX}feedback": record["feedback"] or "; ".join(record["reasons"]),
            "last_stage": node.id,
        }
        notes = f"Gate {node.id}: {route} (attempt {record['attempts']} of {max_attempts})"
        return Outcome.success(notes, preferred_label=route, context_updates=updates)

    async def _evaluate(self, node: Node, context: Context, graph: Graph, logs_root: Path) -> GateResult | Outcome:
        if node.text("function"):
            result = await self._toolkit.call(node, context)
            if not isinstance(result, GateResult):
                raise ValueError(f"its function must return a GateResult, not {type(result).__name__}")
            return result
        if node.text("tool_command"):
            judged = await self._toolkit.run(node, context, graph, logs_root)
            if "tool.exit_code" not in judged.context_updates:
                # It never ran: a dry run, or a shell that could not be started.
                return GateResult(True) if judged.status.is_success else judged
            return _read_command(judged, read_output(node, logs_root))
        if not node.prompt:
            return Outcome.fail(f"quality gate {node.id!r} needs a function, a tool_command or a prompt", terminal=True)
        return self._read_answer(await self._toolkit.ask(node, context, graph, logs_root, _WANTED))

    def _read_answer(self, answer: Answer) -> GateResult:
        found = find_object(answer.text, "passed")
        if answer.outcome is not None and not answer.outcome.status.is_success:
            verdict = read_verdict({**(found or {}), "passed": False})
            reason = answer.outcome.failure_reason or answer.text
            return verdict if verdict.reasons else GateResult(False, verdict.score, (reason,), verdict.feedback)
        if found is not None:
            return read_verdict(found)
        if answer.outcome is not None or self._toolkit.is_simulated:
            return GateResult(True)
        raise ValueError('the model gave no verdict, a JSON object with "passed"')


def _read_command(judged: Outcome, output: str) -> GateResult:
    found = find_object(output, "passed") or {}
    if judged.status.is_success:
        return read_verdict({"passed": True, **found})
    verdict = read_verdict({**found, "passed": False})
    return verdict if verdict.reasons else GateResult(False, verdict.score, (judged.failure_reason,), verdict.feedback)
