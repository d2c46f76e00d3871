"""The fan-in: choosing among the results of branches (section 4.9)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from attractor.backends.base import CodergenBackend
from attractor.backends.simulated import SimulatedBackend
from attractor.graph import Graph, Node
from attractor.handlers.codergen import RESPONSE_NAME, ask, begin_stage, build_prompt, shorten, write_text
from attractor.handlers.parallel import BEST_ID_KEY, FAILURE_KEY, RESULTS_KEY
from attractor.outcome import Outcome, StageStatus
from attractor.state.context import Context
from attractor.state.run_directory import stage_path

_RANK = {StageStatus.SUCCESS: 0, StageStatus.PARTIAL_SUCCESS: 1, StageStatus.RETRY: 2}
Result = Mapping[str, Any]


class FanInHandler:
    """Chooses the best of the branches that didn't fail, and fails if all did or the fan-out's policy isn't met.

    A node with a prompt asks `backend`, which names the best by JSON (`{"best_id": "a"}`), or, if it reports an
    Outcome, as the preferred label or the context update `parallel.fan_in.best_id`. Without a prompt the best is the
    one with the best outcome, then with the highest score, then with the first id. The choice goes to the context as
    `parallel.fan_in.best_id`, `best_outcome` and `best_response`.
    """

    def __init__(self, backend: CodergenBackend | None = None) -> None:
        self._backend: CodergenBackend = backend or SimulatedBackend()
        self.is_external = not isinstance(self._backend, SimulatedBackend)

    async def execute(self, node: Node, context: Context, graph: Graph, logs_root: Path) -> Outcome:
        results = context.get(RESULTS_KEY)
        if not results:
            return Outcome.fail(f"fan-in {node.id!r}: no parallel results to evaluate", terminal=True)
        if failure := context.get_string(FAILURE_KEY):
            return Outcome.fail(failure, terminal=True)
        candidates = [result for result in results if result["outcome"] in _RANK]
        if not candidates:
            failures = "; ".join(f"{result['id']} ({result['failure_reason']})" for result in results)
            return Outcome.fail(f"fan-in {node.id!r}: all branches failed: {failures}", terminal=True)
        if node.prompt:
            return await self._ask(node, context, graph, stage_path(logs_root, node.id), results, candidates)
        return _choose(node, select_best(candidates))

    async def _ask(
        self,
        node: Node,
        context: Context,
        graph: Graph,
        stage_dir: Path,
        results: Sequence[Result],
        candidates: Sequence[Result],
    ) -> Outcome:
        prompt = f"{build_prompt(node, context, graph)}\n\n{_describe(results, candidates)}"
        begin_stage(stage_dir, prompt)
        answer = await ask(self._backend, node, prompt, context)
        text = answer.notes if isinstance(answer, Outcome) else str(answer)
        if not (stage_dir / RESPONSE_NAME).exists():
            write_text(stage_dir / RESPONSE_NAME, text)
        if isinstance(answer, Outcome) and not answer.status.is_success:
            return answer
        named = _find_named(answer)
        best = next((result for result in candidates if result["id"] == named), None)
        if best is None and isinstance(self._backend, SimulatedBackend):
            best = select_best(candidates)
        if best is None:
            ids = ", ".join(result["id"] for result in candidates)
            said = f"named {named!r}" if named else "named none"
            return Outcome.fail(f"fan-in {node.id!r}: of the candidates {ids} the model {said}", notes=text)
        chosen = _choose(node, best, text)
        if isinstance(answer, Outcome):
            return replace(answer, context_updates={**answer.context_updates, **chosen.context_updates})
        return chosen


def select_best(candidates: Sequence[Result]) -> Result:
    """By outcome, then score, then id."""
    return min(candidates, key=lambda result: (_RANK[result["outcome"]], -result["score"], result["id"]))


def _choose(node: Node, best: Result, said: str = "") -> Outcome:
    updates = {
        BEST_ID_KEY: best["id"],
        "parallel.fan_in.best_outcome": best["outcome"],
        "parallel.fan_in.best_response": best["response"],
        "last_stage": node.id,
        "last_response": shorten(said or best["response"]),
    }
    return Outcome.success(f"Selected best candidate: {best['id']}", context_updates=updates)


def _describe(results: Sequence[Result], candidates: Sequence[Result]) -> str:
    parts = ["The candidates:"]
    for result in results:
        lines = [f"## {result['id']}", f"Outcome: {result['outcome']}"]
        lines += [f"Notes: {result['notes']}"] if result["notes"] else []
        lines += [f"Failure: {result['failure_reason']}"] if result["failure_reason"] else []
        lines += ["", result["response"]] if result["response"] else []
        parts.append("\n".join(lines))
    ids = " or ".join(json.dumps(result["id"]) for result in candidates)
    parts.append(f'Answer with a JSON object alone: {{"best_id": {ids}, "reason": "why"}}')
    return "\n\n".join(parts)


def _find_named(answer: str | Outcome) -> str:
    """The id that the answer names; empty if it names none."""
    if isinstance(answer, Outcome):
        named = answer.context_updates.get(BEST_ID_KEY) or answer.preferred_label
        return str(named) if named else _read_id(answer.notes)
    return _read_id(str(answer))


def _read_id(text: str) -> str:
    """`best_id` of the first JSON object in the text that has one."""
    decoder = json.JSONDecoder()
    at = text.find("{")
    while at >= 0:
        try:
            found, _ = decoder.raw_decode(text, at)
        except ValueError:
            found = None
        if isinstance(found, dict) and isinstance(found.get("best_id"), str):
            return str(found["best_id"])
        at = text.find("{", at + 1)
    return ""
