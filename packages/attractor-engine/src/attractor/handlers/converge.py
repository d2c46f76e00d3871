"""The converge handler: one turn of a loop that goes on until its work gets no better."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attractor.graph import Graph, Node, to_int
from attractor.handlers.convergence import Candidate, Convergence
from attractor.handlers.tool import keep_ends
from attractor.handlers.work import Toolkit, find_object, read_output
from attractor.outcome import Outcome
from attractor.state.context import Context

AGAIN, STOP = "again", "stop"
PREFIX = "converge."
_WANTED = 'End with a JSON object that says how good the result is: {"score": 0 to 100, "done": true or false}'


class ConvergeHandler:
    """One turn: work, a score for it, and the choice between the edges labelled `again` and `stop`.

    The work is a `function` that returns a Candidate or a number, or a `prompt`, or lies in stages before this one.
    The score of a prompt's work, or of theirs, is what `converge.score_command` prints, a number or a JSON object with
    `score` and perhaps `done` and `payload`; without a command it is in the model's answer, or a context update
    `score`. A command that fails, or prints no score, fails the stage.

    How the loop stands is in the context as `converge.<node id>`, and of the loop that had the last turn as
    `converge.score`, `converge.best_score`, `converge.iterations` and `converge.stop_reason`. A loop that stopped
    begins anew when the run comes back to it.
    """

    is_external = True

    def __init__(self, toolkit: Toolkit) -> None:
        self._toolkit = toolkit

    async def execute(self, node: Node, context: Context, graph: Graph, logs_root: Path) -> Outcome:
        try:
            convergence = read_convergence(node)
        except ValueError as error:
            return Outcome.fail(f"converge node {node.id!r}: {error}", terminal=True)
        try:
            candidate = await self._take_turn(node, context, graph, logs_root)
        except ValueError as error:
            return Outcome.fail(f"converge node {node.id!r}: {error}")
        if isinstance(candidate, Outcome):
            return candidate
        before = context.get(f"{PREFIX}{node.id}") or {}
        if before.get("stop_reason"):
            before = {}
        turn = convergence.judge(before, candidate)
        record = before | turn | {"history": [*before.get("history", ()), *turn["history"]]}
        return _route(node, record)

    async def _take_turn(self, node: Node, context: Context, graph: Graph, logs_root: Path) -> Candidate | Outcome:
        if node.text("function"):
            result = await self._toolkit.call(node, context)
            return result if isinstance(result, Candidate) else Candidate(_to_score(result))
        command = node.text("converge.score_command")
        payload: Any = None
        score = Candidate(math.nan)
        if node.prompt:
            more = "" if command else _WANTED
            answer = await self._toolkit.ask(node, context, graph, logs_root, more)
            if answer.outcome is not None and not answer.outcome.status.is_success:
                return answer.outcome
            payload = keep_ends(answer.text)
            score = _read_answer(answer.text, answer.outcome.context_updates if answer.outcome else {})
        elif not command:
            return Outcome.fail(
                f"converge node {node.id!r} needs a function, a prompt or a converge.score_command", terminal=True
            )
        if command:
            judged = await self._toolkit.run(node, context, graph, logs_root, command)
            if not judged.status.is_success:
                return judged
            if not self._toolkit.dry_run:
                score = _read_score(read_output(node, logs_root))
        return Candidate(score.score, payload if score.payload is None else score.payload, score.done)


def read_convergence(node: Node) -> Convergence:
    """When the node's loop stops; raises ValueError."""
    values = Convergence()
    text = node.text("converge.perfect_score")
    patience = to_int(node.attrs.get("converge.patience"))
    iterations = to_int(node.attrs.get("converge.max_iterations"))
    return Convergence(
        perfect_score=_to_score(text) if text else values.perfect_score,
        patience=values.patience if patience is None else patience,
        max_iterations=values.max_iterations if iterations is None else iterations,
    )


def _route(node: Node, record: Mapping[str, Any]) -> Outcome:
    reason = record["stop_reason"]
    notes = f"Turn {record['iterations']}: score {record['last_score']}, best {record.get('best_score')}"
    updates = {
        f"{PREFIX}{node.id}": dict(record),
        f"{PREFIX}score": record["last_score"],
        f"{PREFIX}best_score": record.get("best_score"),
        f"{PREFIX}iterations": record["iterations"],
        f"{PREFIX}stop_reason": reason,
        "last_stage": node.id,
    }
    return Outcome.success(
        f"{notes}; {reason}" if reason else notes, preferred_label=STOP if reason else AGAIN, context_updates=updates
    )


def _read_answer(text: str, updates: Mapping[str, Any]) -> Candidate:
    """A model's own score; none is NaN."""
    found = find_object(text, "score") or ({"score": updates["score"]} if "score" in updates else None)
    return Candidate(math.nan) if found is None else _to_candidate(found)


def _read_score(output: str) -> Candidate:
    found = find_object(output, "score")
    if found is not None:
        return _to_candidate(found)
    lines = output.split()
    if not lines:
        raise ValueError("its converge.score_command printed nothing; a number is expected")
    return Candidate(_to_score(lines[-1]))


def _to_candidate(found: Mapping[str, Any]) -> Candidate:
    return Candidate(_to_score(found["score"]), found.get("payload"), found.get("done") is True)


def _to_score(value: Any) -> float:
    try:
        if isinstance(value, bool):
            raise TypeError
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(f"a score must be a number, not {str(value)[:80]!r}") from None
