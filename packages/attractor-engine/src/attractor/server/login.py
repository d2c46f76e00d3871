"""Logging in with a browser: the token is exchanged for a cookie."""

import base64
import hashlib
from collections.abc import Sequence
from html import escape
from pathlib import Path
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response

from attractor.server import schemas
from attractor.server.auth import Authority
from attractor.server.guard import LOGIN
from attractor.server.operations import Answer, Operation
from attractor.server.problem import ProblemError
from attractor.server.requests import read_bytes, read_json, take

_FORM = "application/x-www-form-urlencoded"
_STYLE = """
:root { color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif; }
body { max-width: 24rem; margin: 15vh auto 0; padding: 0 1rem; }
body { background: light-dark(#f5f6f8, #12161d); color: light-dark(#1a202c, #e8eaee); }
input, button { font: inherit; width: 100%; box-sizing: border-box; padding: .5rem; margin: .25rem 0 1rem; }
input { border: 1px solid #7d8796; border-radius: 8px; }
button { border: 0; border-radius: 8px; background: #2e54c4; color: #fff; }
[role=alert] { color: light-dark(#b3261e, #ff9b92); }
"""
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Log in to Attractor</title>
<style>{style}</style>
</head>
<body>
<main>
<h1>Attractor</h1>
<form method="post" action="login">
<p>This server asks for its token: the one that was given to <code>attractor serve</code> with <code>--token</code>,
or in <code>ATTRACTOR_TOKEN</code>.</p>
<label for="token">Token of this server</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus{invalid}>
<p role="alert">{message}</p>
<button>Log in</button>
</form>
</main>
</body>
</html>
"""
_POLICY = (
    f"default-src 'none'; style-src 'sha256-{base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()}'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


class Login:
    """The page, for those who are logged in, and the way there for all others."""

    def __init__(self, authority: Authority, page: Path | None) -> None:
        self._authority = authority
        self._page = page

    def list_operations(self) -> Sequence[Operation]:
        return (
            Operation(
                method="POST",
                path=LOGIN,
                endpoint=self.log_in,
                summary="Exchange the token for a cookie, which browsers send along.",
                body=schemas.LOGIN,
                answers={
                    204: Answer(description="The cookie is set."),
                    303: Answer(description="The same, for the form of the login page."),
                },
                problems=(401,),
            ),
            Operation(
                method="POST",
                path="/logout",
                endpoint=self.log_out,
                summary="Forget the cookie.",
                answers={204: Answer(description="It is forgotten.")},
            ),
        )

    async def show_page(self, request: Request) -> Response:
        """`GET /`: the page. A `?token=` is exchanged for the cookie, so that it doesn't stay in the address."""
        if "token" in request.query_params and self._authority.is_needed:
            if not self._authority.accepts(request.query_params["token"]):
                return _ask("This is not the server's token.", 401)
            response: Response = RedirectResponse("/", 303)
            self._authority.give_cookie(response, secure=request.url.scheme == "https")
            return response
        if not self._authority.admits(request):
            return _ask("", 401)
        if self._page is None:
            raise ProblemError(404, "this server has no page")
        return FileResponse(self._page, headers={"cache-control": "no-cache"})

    async def log_in(self, request: Request) -> Response:
        data = await read_bytes(request)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        is_form = kind == _FORM
        if is_form:
            token = parse_qs(data.decode("utf-8", "replace")).get("token", [""])[0]
        else:
            token = take(read_json(data, kind), "token", str, "the server's token")
        if self._authority.is_needed and not self._authority.accepts(token):
            if is_form:
                return _ask("This is not the server's token.", 401)
            raise ProblemError(401, "this is not the server's token", headers={"www-authenticate": "Bearer"})
        response: Response = RedirectResponse("/", 303) if is_form else Response(status_code=204)
        if self._authority.is_needed:
            self._authority.give_cookie(response, secure=request.url.scheme == "https")
        return response

    async def log_out(self, request: Request) -> Response:
        response = Response(status_code=204)
        self._authority.take_cookie(response)
        return response


def _ask(message: str, status: int) -> Response:
    """The page that asks for the token."""
    invalid = ' aria-invalid="true"' if message else ""
    content = _PAGE.format(style=_STYLE, message=escape(message), invalid=invalid)
    return HTMLResponse(content, status, headers={"content-security-policy": _POLICY})
