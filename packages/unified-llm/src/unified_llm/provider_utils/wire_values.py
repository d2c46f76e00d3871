"""Values of an answer that matter less than the answer: read leniently, so that an odd one costs only itself. Pure.

Servers that imitate a protocol send counts as text or with a fraction, ids as numbers, and null or [] where an object
belongs. An answer that was paid for isn't thrown away for that.
"""

from typing import Any

_MOST = 10**18


def read_count(*values: Any) -> int | None:
    """The first that can be a count: a number, or one written as text; not negative, the fraction dropped."""
    for value in values:
        if isinstance(value, str):
            try:
                value = float(value)
            except ValueError:
                continue
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _MOST:
            return int(value)
    return None


def read_name(*values: Any) -> str:
    """The first that can be a name or an id: text that isn't empty, or a number; "" if none can."""
    for value in values:
        if isinstance(value, str) and value:
            return value
        if isinstance(value, int | float) and not isinstance(value, bool):
            return str(value)
    return ""


def read_object(value: Any) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def read_list(value: Any) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []
