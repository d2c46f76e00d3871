"""What the model is asked: the same texts in the same roles whichever engine carries them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from agent_loop.personalization.state import (
    MAX_DELTA,
    MAX_LABEL,
    Basin,
    PersonalState,
    unique_texts,
)
from agent_loop.personalization.update import Remarks, find_object, read_texts

MAX_SUMMARY = 4_000
MAX_VIBES = 10
_SHORT = 32
CONSOLIDATED = 6
"""How many keywords a consolidated basin has at most, which leaves room for new ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One question to a model. `schema` is the shape of the answer, for engines that can hold a model to it."""

    system: str
    user: str
    max_tokens: int
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A conversation in a few sentences, and its vibes: words for its mood and pace."""

    text: str
    vibes: list[str]
    remarks: list[str]


def build_update_prompt(state: PersonalState, summary: str, vibes: Sequence[str] = ()) -> Prompt:
    """How should this conversation change the memory?"""
    conversation = {
        "summary": summary.strip()[:MAX_SUMMARY],
        "vibes": unique_texts(vibes, MAX_LABEL)[:MAX_VIBES],
    }
    return Prompt(
        system=_instructions("update"),
        user=f"The memory:\n{_to_json(_describe(state))}\n\nThe conversation:\n{_to_json(conversation)}",
        max_tokens=800,
        schema=_update_schema([basin.id for basin in state.basins]),
    )


def build_consolidation_prompt(basin: Basin) -> Prompt:
    """Which keywords say what this basin is, in place of those that it has?

    This is a question of its own, as it is one about the whole basin. Updates are about one conversation, and add
    keywords but hardly ever take one away: without this, a basin would describe the last few conversations.
    """
    shown = {"label": basin.label, "description": basin.description, "keywords": basin.keywords}
    return Prompt(
        system=_instructions("consolidation"),
        user=f"The basin:\n{_to_json(shown)}",
        max_tokens=300,
        schema=_object(keywords=_texts(CONSOLIDATED, _SHORT, at_least=1)),
    )


def build_summary_prompt(conversation: str) -> Prompt:
    """What happened in this conversation, and how did it feel?"""
    return Prompt(
        system=_instructions("summary"),
        user=f"The conversation:\n{conversation}",
        max_tokens=500,
        schema=_object(summary=_text(600), vibes=_texts(6, 20, at_least=1)),
    )


def parse_summary(answer: str) -> Summary:
    """The summary in a model's answer. Never raises; what can't be used is in `remarks`, and `text` may be empty."""
    remarks = Remarks()
    record = find_object(answer, ("summary",), remarks) or {}
    text = record.get("summary", "")
    if not isinstance(text, str):
        remarks.add("summary must be a text")
        text = ""
    vibes = read_texts(record, "vibes", "", remarks, limit=MAX_LABEL)[:MAX_VIBES]
    return Summary(text=text.strip()[:MAX_SUMMARY], vibes=vibes, remarks=remarks.to_list())


def parse_consolidation(answer: str) -> tuple[list[str], list[str]]:
    """The keywords in a model's answer, and remarks on what can't be used. Never raises."""
    remarks = Remarks()
    record = find_object(answer, ("keywords",), remarks) or {}
    return read_texts(record, "keywords", "", remarks), remarks.to_list()


@cache
def _instructions(name: str) -> str:
    place = files("agent_loop.personalization").joinpath("instructions", f"{name}.md")
    return place.read_text(encoding="utf-8").strip()


def _describe(state: PersonalState) -> dict[str, Any]:
    return {
        "phase": state.phase,
        "conversations": state.meta.total_conversations,
        "emerging_patterns": state.emerging,
        "basins": [
            {
                "id": basin.id,
                "label": basin.label,
                "description": basin.description,
                "weight": round(basin.weight, 2),
                "keywords": basin.keywords,
                "connections": basin.connections,
            }
            for basin in state.basins
        ],
    }


def _to_json(value: Any) -> str:
    """An object a line where it has lists of objects: readable, and few tokens."""
    if isinstance(value, dict) and isinstance(value.get("basins"), list):
        rows = ",\n".join(json.dumps(item, ensure_ascii=False) for item in value["basins"])
        rest = json.dumps({**value, "basins": []}, ensure_ascii=False)
        return f"{rest[:-3]}[\n{rows}\n]}}" if rows else rest
    return json.dumps(value, ensure_ascii=False)


def _update_schema(ids: Sequence[str]) -> dict[str, Any]:
    """Tighter than what is accepted: a small model fills whatever room it is given, and is cut off in the end."""
    one_of = {"type": "string", "enum": list(ids)} if ids else _text(_SHORT)
    touched = _object(
        id=one_of,
        weight_delta={"type": "number", "minimum": -MAX_DELTA, "maximum": MAX_DELTA},
        new_keywords=_texts(2, _SHORT),
        remove_keywords=_texts(2, _SHORT),
    )
    connection = _object(**{"from": one_of, "to": one_of, "reason": _text(_SHORT)})
    basin = _object(label=_text(_SHORT), description=_text(2 * _SHORT), keywords=_texts(2, _SHORT))
    return _object(
        basin_updates={"type": "array", "maxItems": min(3, len(ids)), "items": touched},
        new_connections={"type": "array", "maxItems": 1, "items": connection},
        emerging_patterns=_texts(2, _SHORT),
        new_basin={"anyOf": [{"type": "null"}, basin]},
        phase_shift={"type": "boolean"},
    )


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _text(limit: int) -> dict[str, Any]:
    return {"type": "string", "maxLength": limit}


def _texts(limit: int, length: int, *, at_least: int = 0) -> dict[str, Any]:
    return {"type": "array", "minItems": at_least, "maxItems": limit, "items": _text(length)}
