"""What a model proposes after a conversation, read from whatever it answered."""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent_loop.personalization.state import (
    MAX_DESCRIPTION,
    MAX_EMERGING,
    MAX_KEYWORD,
    MAX_KEYWORDS,
    MAX_LABEL,
    MAX_PATTERN,
    clean_text,
    to_basin_id,
    to_float,
    unique_texts,
)

MAX_REMARKS = 20
MAX_ANSWER = 200_000
"""In characters. What a model writes after these isn't read."""
_KEYS = ("basin_updates", "new_connections", "emerging_patterns", "new_basin", "phase_shift")


@dataclass(frozen=True, slots=True, kw_only=True)
class BasinUpdate:
    """A change to one basin. `weight_delta` is as it was asked for; `apply_update()` bounds it."""

    id: str
    weight_delta: float = 0.0
    new_keywords: list[str] = field(default_factory=list)
    remove_keywords: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """Two basins, by id, that the conversation brought together; a connection has no direction."""

    source: str
    target: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBasin:
    """A mode of working that none of the present basins stands for."""

    label: str
    description: str = ""
    keywords: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """A proposal. `emerging_patterns` replaces the present list, unless it is None.

    `remarks` tell, a sentence each, what of the answer was of no use.
    """

    basin_updates: list[BasinUpdate] = field(default_factory=list)
    new_connections: list[Connection] = field(default_factory=list)
    emerging_patterns: list[str] | None = None
    new_basin: NewBasin | None = None
    phase_shift: bool = False
    remarks: list[str] = field(default_factory=list)

    def to_record(self) -> dict[str, Any]:
        """As the JSON that models are asked for; `read_update()` is the reverse."""
        new = self.new_basin
        return {
            "basin_updates": [
                {
                    "id": item.id,
                    "weight_delta": item.weight_delta,
                    "new_keywords": list(item.new_keywords),
                    "remove_keywords": list(item.remove_keywords),
                }
                for item in self.basin_updates
            ],
            "new_connections": [
                {"from": item.source, "to": item.target, "reason": item.reason} for item in self.new_connections
            ],
            "emerging_patterns": None if self.emerging_patterns is None else list(self.emerging_patterns),
            "new_basin": new and {"label": new.label, "description": new.description, "keywords": list(new.keywords)},
            "phase_shift": self.phase_shift,
        }


class Remarks:
    """What could not be used, at most 20 sentences of it."""

    def __init__(self) -> None:
        self._kept: list[str] = []
        self._more = 0

    def add(self, text: str) -> None:
        if len(self._kept) < MAX_REMARKS:
            self._kept.append(text)
        else:
            self._more += 1

    def to_list(self) -> list[str]:
        return [*self._kept, *([f"and {self._more} more of this kind"] if self._more else [])]


def parse_update(text: str) -> Update:
    """The update in a model's answer, which may stand in a fence or between prose. Never raises.

    What is malformed is left out, and named in `remarks`; nothing is guessed. An answer without an update, or with two
    different ones, gives an empty update.
    """
    remarks = Remarks()
    record = find_object(text, _KEYS, remarks)
    return _read(record or {}, remarks)


def read_update(record: Any) -> Update:
    """The update in plain data, or in an update: malformed parts left out and named in `remarks`. Never raises."""
    remarks = Remarks()
    if isinstance(record, Update):
        for remark in record.remarks:
            remarks.add(remark)
        record = record.to_record()
    if not isinstance(record, Mapping):
        remarks.add(f"an update must be an object, but this is {_show(record)}")
        record = {}
    return _read(record, remarks)


def find_object(text: Any, keys: tuple[str, ...], remarks: Remarks) -> Mapping[str, Any] | None:
    """The one JSON object in a text that has at least one of the keys; None, with a remark, if there is none."""
    if not isinstance(text, str):
        remarks.add(f"the answer is no text, but {_show(text)}")
        return None
    if len(text) > MAX_ANSWER:
        remarks.add(f"the answer has {len(text):,} characters, of which the first {MAX_ANSWER:,} were read")
    found = [item for item in _objects(text[:MAX_ANSWER]) if any(key in item for key in keys)]
    # repr, as NaN is not equal to itself.
    if not found:
        remarks.add(f"the answer holds no complete JSON object with {' or '.join(keys)}")
        return None
    if len({repr(item) for item in found}) > 1:
        remarks.add(f"the answer holds {len(found)} different JSON objects with {' or '.join(keys)}: which one counts?")
        return None
    return found[0]


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects in a text, the outermost that are complete."""
    decoder = json.JSONDecoder()
    position = text.find("{")
    while position >= 0:
        try:
            value, end = decoder.raw_decode(text, position)
        except RecursionError:
            # Nested so deeply that it is no update, nor is any of the many places inside worth a try.
            return
        except ValueError:
            end = position + 1
        else:
            yield value
        position = text.find("{", end)


def _read(record: Mapping[str, Any], remarks: Remarks) -> Update:
    shift = record.get("phase_shift", False)
    if not isinstance(shift, bool) and shift is not None:
        remarks.add(f"phase_shift must be true or false, but is {_show(shift)}")
    return Update(
        basin_updates=_read_all(record, "basin_updates", _read_basin_update, remarks),
        new_connections=_read_all(record, "new_connections", _read_connection, remarks),
        emerging_patterns=_read_patterns(record, remarks),
        new_basin=_read_new_basin(record.get("new_basin"), remarks),
        phase_shift=shift is True,
        remarks=remarks.to_list(),
    )


def _read_all(
    record: Mapping[str, Any], key: str, read: Callable[[Mapping[str, Any], str, Remarks], Any], remarks: Remarks
) -> list[Any]:
    items = record.get(key)
    if items is None:
        return []
    if not isinstance(items, list | tuple):
        remarks.add(f"{key} must be a list, but is {_show(items)}")
        return []
    found = []
    for number, item in enumerate(items):
        place = f"{key}[{number}]"
        if not isinstance(item, Mapping):
            remarks.add(f"{place} must be an object, but is {_show(item)}")
        elif (value := read(item, place, remarks)) is not None:
            found.append(value)
    return found


def _read_basin_update(item: Mapping[str, Any], place: str, remarks: Remarks) -> BasinUpdate | None:
    basin_id = item.get("id")
    if not isinstance(basin_id, str) or not basin_id:
        remarks.add(f"{place}.id must be the id of a basin, but is {_show(basin_id)}")
        return None
    delta = _read_delta(item.get("weight_delta"), place, remarks)
    new = read_texts(item, "new_keywords", place, remarks)
    removed = read_texts(item, "remove_keywords", place, remarks)
    if delta is None and not new and not removed:
        return None
    return BasinUpdate(id=basin_id, weight_delta=delta or 0.0, new_keywords=new, remove_keywords=removed)


def _read_delta(value: Any, place: str, remarks: Remarks) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(number := to_float(value)):
        return number
    remarks.add(f"{place}.weight_delta must be a number, but is {_show(value)}")
    return None


def _read_connection(item: Mapping[str, Any], place: str, remarks: Remarks) -> Connection | None:
    source, target = item.get("from"), item.get("to")
    if not isinstance(source, str) or not isinstance(target, str):
        remarks.add(f"{place} must name two basins, from and to, but names {_show(source)} and {_show(target)}")
        return None
    return Connection(source=source, target=target, reason=clean_text(item.get("reason"), MAX_PATTERN))


def _read_patterns(record: Mapping[str, Any], remarks: Remarks) -> list[str] | None:
    if record.get("emerging_patterns") is None:
        return None
    if not isinstance(record["emerging_patterns"], list | tuple):
        remarks.add(f"emerging_patterns must be a list, but is {_show(record['emerging_patterns'])}")
        return None
    return read_texts(record, "emerging_patterns", "", remarks, limit=MAX_PATTERN)[:MAX_EMERGING]


def _read_new_basin(value: Any, remarks: Remarks) -> NewBasin | None:
    if value is None or value is False:
        return None
    if not isinstance(value, Mapping):
        remarks.add(f"new_basin must be an object or null, but is {_show(value)}")
        return None
    label = clean_text(value.get("label"), MAX_LABEL)
    if not to_basin_id(label):
        remarks.add(f"new_basin.label must have a letter or a digit in it, but is {_show(value.get('label'))}")
        return None
    return NewBasin(
        label=label,
        description=clean_text(value.get("description"), MAX_DESCRIPTION),
        keywords=read_texts(value, "keywords", "new_basin", remarks)[:MAX_KEYWORDS],
    )


def read_texts(
    item: Mapping[str, Any], key: str, place: str, remarks: Remarks, *, limit: int = MAX_KEYWORD
) -> list[str]:
    """The texts of a list, each once; a remark for what is none."""
    values = item.get(key)
    name = f"{place}.{key}".strip(".")
    if values is None:
        return []
    if not isinstance(values, list | tuple):
        remarks.add(f"{name} must be a list of texts, but is {_show(values)}")
        return []
    for value in values:
        if not clean_text(value, limit):
            remarks.add(f"{name} must hold texts, but holds {_show(value)}")
    return unique_texts(values, limit)


def _show(value: Any) -> str:
    """A short form that is safe to print, of an integer of any size too."""
    if value is None:
        return "missing"
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 64:
        return "a huge integer"
    return ascii(value) if isinstance(value, bool | int | float) else _shorten(value)


def _shorten(value: Any) -> str:
    if isinstance(value, str):
        return ascii(value[:40])
    return f"a {type(value).__name__}"
