"""Who may ask the server: the token, and the cookie that a browser gets for it."""

import hashlib
import hmac
import time
from collections.abc import Callable

from starlette.requests import HTTPConnection
from starlette.responses import Response

from attractor.server.memory import is_authorized

COOKIE = "attractor_session"
SESSION_SECONDS = 7 * 24 * 3600


class Authority:
    """Knows the server's token; without one everybody is let in.

    The cookie holds no token but a signed date: it ends with that date, or with the token.
    """

    def __init__(self, token: str | None, clock: Callable[[], float] = time.time) -> None:
        self._token = token or ""
        self._clock = clock

    @property
    def is_needed(self) -> bool:
        """Whether there is a token."""
        return bool(self._token)

    def admits(self, connection: HTTPConnection) -> bool:
        """Whether a request presents the token, or a cookie that it was exchanged for."""
        if not self._token:
            return True
        return is_authorized(connection.headers.get("authorization", ""), self._token) or self._is_valid(
            _read_cookie(connection.headers.get("cookie", ""))
        )

    def accepts(self, token: str) -> bool:
        """Whether that is the token. Takes the same time wherever the two differ."""
        return bool(self._token) and is_authorized(f"Bearer {token}", self._token)

    def give_cookie(self, response: Response, *, secure: bool) -> None:
        """Let the browser that gets this response in from now on."""
        until = str(int(self._clock()) + SESSION_SECONDS)
        response.set_cookie(
            COOKIE,
            f"{until}.{self._sign(until)}",
            max_age=SESSION_SECONDS,
            httponly=True,
            samesite="strict",
            secure=secure,
        )

    def take_cookie(self, response: Response) -> None:
        """Let the browser forget it."""
        response.delete_cookie(COOKIE, httponly=True, samesite="strict")

    def _is_valid(self, cookie: str) -> bool:
        until, _, signature = cookie.partition(".")
        is_ours = hmac.compare_digest(signature.encode("utf-8", "replace"), self._sign(until).encode())
        return is_ours and until.isdigit() and int(until) > self._clock()

    def _sign(self, until: str) -> str:
        key = hashlib.sha256(b"attractor session\0" + self._token.encode("utf-8", "surrogateescape")).digest()
        return hmac.new(key, until.encode("utf-8", "replace"), "sha256").hexdigest()


def _read_cookie(header: str) -> str:
    """The value of our cookie, whatever others may stand beside it."""
    for part in header.split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            return value
    return ""
