"""The memory of a person over HTTP: `/api/attractor/{state,context,history,seed,ingest,consolidate}`.

Every one of these paths needs the token. Seeding can wipe the memory and ingesting spends money, so a server without a
token answers nothing at all.
"""

import hashlib
import hmac
import json
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from agent_loop.personalization import (
    AlreadySeededError,
    DamagedMemoryError,
    Engine,
    EngineError,
    NotSeededError,
    PersonalizationError,
    PersonalMemory,
    Store,
)
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

PREFIX = "/api/attractor"
TOKEN_VARIABLE = "ATTRACTOR_TOKEN"
MAX_BODY = 1_000_000
"""In bytes."""

ReadToken = Callable[[], str | None]
Endpoint = Callable[[Request], Awaitable[Response]]


def token_from_environment() -> str | None:
    """The value of ATTRACTOR_TOKEN."""
    return os.environ.get(TOKEN_VARIABLE)


def create_memory_app(
    store: Store,
    engine: Engine | None = None,
    read_token: ReadToken = token_from_environment,
    *,
    model: str = "",
    subject: str = "the user",
) -> Starlette:
    """An application of these routes alone, for any ASGI server. Without an engine it can be read and seeded."""
    memory = PersonalMemory(store=store, engine=engine, model=model, subject=subject)
    return Starlette(routes=memory_routes(memory, read_token))


def memory_routes(memory: PersonalMemory, read_token: ReadToken = token_from_environment) -> list[BaseRoute]:
    """The routes for a larger application. `read_token` is asked for each request."""
    endpoints = _Endpoints(memory)
    routes = [
        Route("/state", _answer(endpoints.state), methods=["GET"]),
        Route("/context", _answer(endpoints.context), methods=["GET"]),
        Route("/history", _answer(endpoints.history), methods=["GET"]),
        Route("/seed", _answer(endpoints.seed), methods=["POST"]),
        Route("/ingest", _answer(endpoints.ingest), methods=["POST"]),
        Route("/consolidate", _answer(endpoints.consolidate), methods=["POST"]),
    ]
    # The guard stands before the router: a path or method that doesn't exist tells nothing to strangers either.
    return [Mount(PREFIX, app=TokenGuard(Router(routes), read_token))]


class TokenGuard:
    """Lets requests through that present the token: `Authorization: Bearer TOKEN`.

    Without a token to compare with, every request is answered 500; without the right one, 401.
    """

    def __init__(self, app: ASGIApp, read_token: ReadToken) -> None:
        self._app = app
        self._read_token = read_token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await send({"type": "websocket.close"})
            return
        token = self._read_token()
        if not token:
            refusal = _error(500, f"the server is not set up: {TOKEN_VARIABLE} is not set")
        elif not is_authorized(Request(scope).headers.get("authorization", ""), token):
            refusal = _error(401, "the token is missing or wrong")
            refusal.headers["WWW-Authenticate"] = "Bearer"
        else:
            await self._app(scope, receive, send)
            return
        await refusal(scope, receive, send)


def is_authorized(header: str, token: str) -> bool:
    """Whether the header presents the token. Takes the same time wherever, and by how much, the two differ.

    Digests are compared, as comparing texts of different lengths would tell the length.
    """
    scheme, _, presented = header.partition(" ")
    pair = (hashlib.sha256(text.strip().encode("utf-8", "surrogateescape")).digest() for text in (presented, token))
    return hmac.compare_digest(*pair) and scheme.lower() == "bearer"


class _Endpoints:
    def __init__(self, memory: PersonalMemory) -> None:
        self._memory = memory

    async def state(self, request: Request) -> Response:
        return JSONResponse((await self._memory.load()).to_record())

    async def context(self, request: Request) -> Response:
        await self._memory.load()
        return JSONResponse({"context": await self._memory.context()})

    async def history(self, request: Request) -> Response:
        return JSONResponse({"history": [snapshot.to_record() for snapshot in await self._memory.store.history()]})

    async def seed(self, request: Request) -> Response:
        body = await _read_body(request)
        basins = _take(body, "basins", list, "a list of objects with a label")
        state = await self._memory.seed(basins, force=_take(body, "force", bool, "true or false", False))
        return JSONResponse(state.to_record(), 201)

    async def ingest(self, request: Request) -> Response:
        body = await _read_body(request)
        if "conversation" in body:
            done = await self._memory.ingest_conversation(_take(body, "conversation", str, "a text"))
        else:
            summary = _take(body, "summary", str, "a text")
            done = await self._memory.ingest(summary, _take(body, "vibes", list, "a list of words", []))
        return JSONResponse(
            {"state": done.state.to_record(), "update": done.update.to_record(), "remarks": done.remarks}
        )

    async def consolidate(self, request: Request) -> Response:
        body = await _read_body(request)
        basins = _take(body, "basins", list, "a list of ids", None)
        return JSONResponse({"consolidated": await self._memory.consolidate(basins)})


def _answer(endpoint: Endpoint) -> Endpoint:
    """The endpoint, its errors as answers."""

    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except HTTPException as error:
            return _error(error.status_code, error.detail)
        except PersonalizationError as error:
            return _error(_status_of(error), str(error))

    return answer


def _status_of(error: PersonalizationError) -> int:
    match error:
        case NotSeededError():
            return 404
        case AlreadySeededError():
            return 409
        case EngineError():
            return 502
        case DamagedMemoryError():
            return 500
        case _:
            return 400


def _error(status: int, message: str) -> JSONResponse:
    return JSONResponse({"error": message}, status)


_REQUIRED = object()


def _take(body: Mapping[str, Any], name: str, kind: type[Any], what: str, default: Any = _REQUIRED) -> Any:
    if name not in body and default is not _REQUIRED:
        return default
    if not isinstance(body.get(name), kind):
        raise HTTPException(400, f"{name} must be {what}")
    return body[name]


async def _read_body(request: Request) -> Mapping[str, Any]:
    """The JSON object of the body; an empty one of none."""
    data = bytearray()
    try:
        async for chunk in request.stream():
            data += chunk
            if len(data) > MAX_BODY:
                raise HTTPException(413, f"the body is larger than {MAX_BODY:,} bytes")
    except ClientDisconnect:
        # Nobody hears this: it is no error of the server's that its log should tell.
        raise HTTPException(400, "the connection ended before the body") from None
    try:
        body = json.loads(data or b"{}")
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"the body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise HTTPException(400, "the body must be a JSON object")
    return body
