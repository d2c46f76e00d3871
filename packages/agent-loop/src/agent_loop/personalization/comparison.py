"""Two engines on one conversation, and where they differ."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_loop.errors import EngineError
from agent_loop.personalization.engines import Engine, ask
from agent_loop.personalization.prompts import build_update_prompt
from agent_loop.personalization.safeguards import apply_update
from agent_loop.personalization.state import PersonalState
from agent_loop.personalization.update import Update, parse_update


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What one engine answered. `error` is set, and the update empty, if it failed."""

    engine: str
    model: str
    update: Update
    weights: Mapping[str, float]
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A field in which the engines differ, such as "planning.weight", with a value for each engine."""

    field: str
    values: Sequence[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Proposals in the order of the engines, and what is not the same in all of them. Nothing is stored."""

    proposals: Sequence[Proposal]
    differences: Sequence[Difference]

    def to_record(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {
            "proposals": [
                {
                    "engine": one.engine,
                    "model": one.model,
                    "update": one.update.to_record(),
                    "weights": dict(one.weights),
                    "remarks": one.update.remarks,
                    "error": one.error,
                }
                for one in self.proposals
            ],
            "differences": [{"field": item.field, "values": list(item.values)} for item in self.differences],
        }


async def compare_engines(
    engines: Sequence[tuple[Engine, str]], state: PersonalState, summary: str, vibes: Sequence[str] = ()
) -> Comparison:
    """Ask each engine, given with its model, the very same question. One that fails is part of the result."""
    prompt = build_update_prompt(state, summary, vibes)
    proposals = []
    for engine, model in engines:
        error = ""
        try:
            update = parse_update(await ask(engine, prompt, model))
        except EngineError as raised:
            update, error = Update(), str(raised)
        after = apply_update(state, update)
        weights = {basin.id: basin.weight for basin in after.basins}
        proposals.append(Proposal(engine=engine.name, model=model, update=update, weights=weights, error=error))
    return Comparison(proposals=proposals, differences=find_differences(proposals))


def find_differences(proposals: Sequence[Proposal]) -> list[Difference]:
    """The fields in which proposals differ: resulting weights, and what else they ask for."""
    facts = [_list_facts(proposal) for proposal in proposals]
    names = dict.fromkeys(name for one in facts for name in one)
    found = [Difference(field=name, values=[one.get(name) for one in facts]) for name in names]
    return [item for item in found if any(value != item.values[0] for value in item.values)]


def _list_facts(proposal: Proposal) -> dict[str, Any]:
    """Field and value, in a form that doesn't depend on the order in which a model lists things."""
    update = proposal.update
    facts: dict[str, Any] = {f"{name}.weight": round(weight, 4) for name, weight in proposal.weights.items()}
    for item in update.basin_updates:
        for kind, keywords in (("new_keywords", item.new_keywords), ("remove_keywords", item.remove_keywords)):
            if keywords:
                facts[f"{item.id}.{kind}"] = sorted(keywords)
    pairs = sorted({tuple(sorted((item.source, item.target))) for item in update.new_connections})
    facts["connections"] = [" - ".join(pair) for pair in pairs]
    facts["emerging_patterns"] = sorted(update.emerging_patterns or [])
    facts["new_basin"] = update.new_basin.label if update.new_basin else None
    facts["phase_shift"] = update.phase_shift
    if proposal.error:
        facts["error"] = proposal.error
    return facts
