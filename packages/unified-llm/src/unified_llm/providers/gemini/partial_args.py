"""Arguments of a function call that come piece by piece, each with the path of the value it belongs to. Pure."""

import re
from itertools import pairwise
from typing import Any

_Json = dict[str, Any]

_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\[(['\"])(.*?)\3\]")
_VALUES = ("stringValue", "numberValue", "boolValue", "nullValue")
_MOST_ITEMS = 100_000


def add_partial(arguments: _Json, partial: _Json, *, continues: bool) -> None:
    """Put one piece, such as `{"jsonPath": "$.items[0].name", "stringValue": "A"}`, where it belongs.

    `continues` says that the piece before it was of the same value and not its last: then texts are joined. Raises
    ValueError for a path that leads nowhere.
    """
    steps = _steps(partial["jsonPath"])
    kind = next((name for name in _VALUES if name in partial), None)
    if kind is None and continues:
        return  # says only that no more will come
    value = None if kind in (None, "nullValue") else partial[kind]
    holder: Any = arguments
    for step, following in pairwise(steps):
        holder = _child(holder, step, [] if isinstance(following, int) else {})
    last = steps[-1]
    if continues and isinstance(value, str) and isinstance(earlier := _child(holder, last, ""), str):
        value = earlier + value
    _child(holder, last, value)
    holder[last] = value


def _steps(path: str) -> list[str | int]:
    steps: list[str | int] = []
    position = 1 if path.startswith("$") else 0
    while position < len(path):
        match = _STEP.match(path, position)
        if match is None:
            raise ValueError(f"{path!r} is no path that is understood")
        name, index, _, quoted = match.groups()
        steps.append(int(index) if index is not None else name if name is not None else quoted)
        position = match.end()
    if not steps:
        raise ValueError(f"{path!r} names no value")
    return steps


def _child(holder: Any, step: str | int, default: Any) -> Any:
    """What stands at `step`, which is made with `default` if there is nothing."""
    if isinstance(step, int):
        if not isinstance(holder, list) or step > min(len(holder), _MOST_ITEMS):
            raise ValueError(f"there is no place {step} for an argument")
        if step == len(holder):
            holder.append(default)
        return holder[step]
    if not isinstance(holder, dict):
        raise ValueError(f"there is no place {step!r} for an argument")
    return holder.setdefault(step, default)
