"""What comes with a request, checked."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import anyio
from starlette.requests import ClientDisconnect, Request

from attractor.server.problem import ProblemError

MAX_BODY = 4_000_000
"""In bytes."""
BODY_SECONDS = 60.0
_REQUIRED = object()


async def read_body(request: Request) -> Mapping[str, Any]:
    """The JSON object of the body; an empty one of none. Raises ProblemError 400, 413 or 415."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return read_json(await read_bytes(request), kind)


async def read_bytes(request: Request) -> bytes:
    """The body; raises ProblemError 413 as soon as it is too large, 408 if it is too slow, 503 if the server stops."""
    limit: int = request.app.state.max_body
    coming: set[anyio.CancelScope] = request.app.state.coming
    data = bytearray()
    with anyio.move_on_after(BODY_SECONDS) as scope:
        coming.add(scope)
        try:
            async for chunk in request.stream():
                data += chunk
                if len(data) > limit:
                    raise too_large(limit)
            return bytes(data)
        except ClientDisconnect:
            # Nobody hears this: it is no error of the server's that its log should tell.
            raise ProblemError(400, "the connection ended before the body") from None
        finally:
            coming.discard(scope)
    if anyio.current_time() < scope.deadline:
        raise ProblemError(503, "the server stops", headers={"connection": "close"})
    raise ProblemError(408, f"the body didn't come within {BODY_SECONDS:g} s", headers={"connection": "close"})


def read_json(data: bytes, media_type: str) -> Mapping[str, Any]:
    """The JSON object that a body of that type is; an empty one of none. Raises ProblemError 400 or 415."""
    if not data:
        return {}
    if media_type != "application/json":
        raise ProblemError(
            415, f"the body must be application/json, and its Content-Type is {media_type[:80] or 'missing'}"
        )
    try:
        body = json.loads(data, object_pairs_hook=_to_object, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ProblemError(400, f"the body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise ProblemError(400, "the body must be a JSON object")
    return body


def _to_object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Of a name that stands twice, who checks a request before us might see the other value."""
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the name {twice[:80]!r} stands twice in one object")
    return found


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON value")


def too_large(limit: int) -> ProblemError:
    """The refusal of a body. The connection is closed, so that nobody has to read the rest."""
    return ProblemError(413, f"the body is larger than {limit:,} bytes", headers={"connection": "close"})


def take(body: Mapping[str, Any], name: str, kind: type[Any], what: str, default: Any = _REQUIRED) -> Any:
    """A field of the body; raises ProblemError 400 if it is missing or not `what`."""
    if name not in body and default is not _REQUIRED:
        return default
    if name not in body:
        raise ProblemError(400, f"the field {name!r} is missing; it must be {what}")
    if not isinstance(body[name], kind):
        raise ProblemError(400, f"the field {name!r} must be {what}")
    return body[name]


def read_number(request: Request, name: str, default: int = 0) -> int:
    """A query parameter that is a number from 0 on; raises ProblemError 400."""
    text = request.query_params.get(name)
    if text is None:
        return default
    return to_number(text, f"the query parameter {name!r}")


def read_flag(request: Request, name: str, default: bool) -> bool:
    """A query parameter that is true or false; raises ProblemError 400."""
    match request.query_params.get(name):
        case None:
            return default
        case "true" | "1" | "":
            return True
        case "false" | "0":
            return False
        case text:
            raise ProblemError(400, f"the query parameter {name!r} must be true or false, and it is {text!r}")


def to_number(text: str, what: str) -> int:
    """A number from 0 on; raises ProblemError 400."""
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise ProblemError(400, f"{what} must be a whole number from 0 on, and it is {text[:40]!r}")
    return int(text)
