"""The state of a graph written in Python: channels, and the reducers that fold updates into them. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NotRequired, Required, TypedDict, get_args, get_origin, get_type_hints, is_typeddict

from attractor.calls import describe_error
from attractor.errors import ContextValueError
from attractor.prebuilt.errors import ChannelError, GraphError
from attractor.state.json_values import to_json_value

_SHOWN = 200
"""Characters of a value in a message."""
Reducer = Callable[[Any, Any], Any]
"""`(old, new) -> value`: what a channel holds when `new` was reported for it."""


class State(TypedDict, total=False):
    """Base of the states of graphs: a TypedDict, each of whose fields is a channel.

    `items: Annotated[list[str], append]` names the channel's reducer; a channel without one keeps what came `last`.
    A channel is absent from the state until something was reported for it. Values are JSON.
    """


def last(old: Any, new: Any) -> Any:
    """The new value."""
    return new


def append(old: Any, new: Any) -> list[Any]:
    """The list with one more item; a list is added item by item."""
    return [*(old or ()), *(new if isinstance(new, list | tuple) else (new,))]


def add(old: Any, new: Any) -> Any:
    """The sum; without an old value the new one."""
    return new if old is None else old + new


def merge(old: Any, new: Any) -> dict[str, Any]:
    """The dict with the new one's entries added or replaced."""
    return {**(old or {}), **new}


def union(old: Any, new: Any) -> list[Any]:
    """The list with the new one's items that it didn't have, in the order of their first appearance."""
    both = list(old or ())
    for item in new if isinstance(new, list | tuple) else (new,):
        if item not in both:
            both.append(item)
    return both


_FROM_NOTHING = frozenset({last, append, add, merge, union})


@dataclass(frozen=True, slots=True)
class Channel:
    """A field of a state. `empty` makes what a reducer starts from; None if the first value is taken as it is."""

    name: str
    reducer: Reducer = last
    empty: Callable[[], Any] | None = None

    def reduce(self, old: Any, new: Any, *, is_first: bool) -> Any:
        """What the channel holds next."""
        if is_first:
            if self.empty is None and self.reducer not in _FROM_NOTHING:
                return new
            old = self.empty() if self.empty else None
        return self.reducer(old, new)


@dataclass(frozen=True, slots=True)
class Schema:
    """The channels of a state class, by name."""

    name: str
    channels: Mapping[str, Channel]

    @classmethod
    def of_state(cls, state: type) -> "Schema":
        """Raises GraphError for a class that can't be read as a state."""
        try:
            hints = get_type_hints(state, include_extras=True)
        except (NameError, TypeError) as error:
            raise GraphError(f"the annotations of state {state!r} can't be read: {error}") from error
        if not is_typeddict(state):
            raise GraphError(f"state {state!r} is no TypedDict; derive it from attractor.prebuilt.State")
        return cls(state.__name__, {name: _to_channel(name, hint) for name, hint in hints.items()})

    def check(self, values: Any, source: str) -> dict[str, Any]:
        """A copy of an update or an input; raises ChannelError, which names `source` and the channel."""
        if not isinstance(values, Mapping):
            raise ChannelError(f"{source} must be a dict of channels, not {type(values).__name__}")
        unknown = next((name for name in values if name not in self.channels), None)
        if unknown is not None:
            declared = ", ".join(self.channels) or "none"
            raise ChannelError(
                f"{source} names channel {unknown!r}, which {self.name} doesn't declare; it has: {declared}"
            )
        try:
            return {name: to_json_value(value, name) for name, value in values.items()}
        except ContextValueError as error:
            raise ChannelError(f"{source}: {str(error).replace('context key', 'channel')}") from error

    def fold(self, state: Mapping[str, Any], update: Mapping[str, Any], source: str) -> dict[str, Any]:
        """The channels that an update changes, with their new values. `update` is a checked one."""
        changed: dict[str, Any] = {}
        for name, value in update.items():
            channel = self.channels[name]
            try:
                changed[name] = channel.reduce(state.get(name), value, is_first=name not in state)
            except Exception as error:
                raise ChannelError(
                    f"{source}: the reducer of channel {name!r} can't take {_shorten(value)}: {describe_error(error)}"
                ) from error
        return changed


def _shorten(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."


def _to_channel(name: str, hint: Any) -> Channel:
    while get_origin(hint) in (Required, NotRequired):
        (hint,) = get_args(hint)
    reducer: Reducer = last
    if get_origin(hint) is Annotated:
        hint, *notes = get_args(hint)
        reducer = next((note for note in notes if callable(note)), last)
    kind = get_origin(hint) or hint
    empty = kind if kind in (list, dict) and reducer is not last else None
    return Channel(name, reducer, empty)
