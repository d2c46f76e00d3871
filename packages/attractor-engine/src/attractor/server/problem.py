"""Errors as problem documents (RFC 9457): `{"type", "title", "status", "detail"}`, and what else helps."""

import os
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from attractor.diagnostics import to_json
from attractor.errors import AnsweredError, AttractorError, CheckpointError, RunDirectoryError, ValidationError

MEDIA_TYPE = "application/problem+json"


class ProblemError(Exception):
    """Raised to answer with a problem. `detail` is one sentence for people; `more` are further members."""

    def __init__(self, status: int, detail: str, *, headers: Mapping[str, str] | None = None, **more: Any) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = headers
        self.more = more

    def to_response(self) -> Response:
        return make_problem(self.status, self.detail, headers=self.headers, **self.more)


def make_problem(status: int, detail: str, *, headers: Mapping[str, str] | None = None, **more: Any) -> Response:
    """The answer for an error."""
    content = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail, **more}
    return JSONResponse(content, status, headers=headers, media_type=MEDIA_TYPE)


async def answer_problem(request: Request, error: Exception) -> Response:
    """An exception handler for ProblemError."""
    assert isinstance(error, ProblemError)
    detail = _without_root(request, error.detail)
    return make_problem(error.status, detail, headers=error.headers, **error.more)


async def answer_http_exception(request: Request, error: Exception) -> Response:
    """An exception handler for what the router refuses: no such path, no such method."""
    assert isinstance(error, HTTPException)
    match error.status_code:
        case 404:
            detail = f"there is nothing at {request.url.path}"
        case 405:
            detail = f"{request.url.path} doesn't know the method {request.method}"
        case _:
            detail = error.detail
    return make_problem(error.status_code, detail, headers=error.headers)


async def answer_engine_error(request: Request, error: Exception) -> Response:
    """An exception handler for what the engine refuses."""
    detail = _without_root(request, str(error))
    match error:
        case ValidationError():
            return make_problem(422, detail, diagnostics=[to_json(found) for found in error.diagnostics])
        case AnsweredError() | CheckpointError():
            return make_problem(409, detail)
        case RunDirectoryError():
            return make_problem(500, detail)
        case _:
            return make_problem(422, detail)


def _without_root(request: Request, detail: str) -> str:
    """The sentence, its runs called by their ids: where they lie on the disk is none of a client's business."""
    return detail.replace(f"{request.app.state.root}{os.sep}", "")


async def answer_unexpected(request: Request, error: Exception) -> Response:
    """An exception handler for all else, which the server logs."""
    return make_problem(500, "the server met an error that it did not expect; its log tells more")


EXCEPTION_HANDLERS: Mapping[Any, Callable[[Request, Exception], Awaitable[Response]]] = {
    ProblemError: answer_problem,
    HTTPException: answer_http_exception,
    AttractorError: answer_engine_error,
    500: answer_unexpected,
}
"""For an application: exception or status -> who answers."""
