"""Errors as problem documents (RFC 9457): `{"type", "title", "status", "detail"}`, and what else helps."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

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
    return error.to_response()


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
