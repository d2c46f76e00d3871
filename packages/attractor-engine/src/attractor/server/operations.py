"""What the server can be asked: one record an operation, from which both its route and its description are made."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from attractor.server.sse import EventStream

Endpoint = Callable[[Request], Awaitable[Response | EventStream]]
# Paths are decoded before they are taken apart, so that an encoded slash is one like any other.
_WITH_SLASHES = ("node_id", "sid")
Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer that succeeds: what it is, and its content, JSON of a schema unless `media_type` says otherwise.

    `or_media_type` is another one that it may have.
    """

    description: str
    schema: Schema | None = None
    media_type: str = "application/json"
    or_media_type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of one path. `problems` are the statuses of the errors that it may answer besides those of all."""

    method: str
    path: str
    endpoint: Endpoint
    summary: str
    answers: Mapping[int, Answer]
    body: Schema | None = None
    query: Mapping[str, Schema] = field(default_factory=dict)
    problems: tuple[int, ...] = ()
    description: str = ""

    def to_route(self) -> Route:
        """Where the router finds it."""
        path = self.path
        for name in _WITH_SLASHES:
            path = path.replace(f"{{{name}}}", f"{{{name}:path}}")
        return Route(path, self.endpoint, methods=[self.method], name=self.operation_id)

    @property
    def operation_id(self) -> str:
        """The endpoint's name."""
        return self.endpoint.__name__
