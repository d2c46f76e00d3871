"""What stands before every request: whose it is, where it comes from, and how much it sends.

A page of another site can make a browser send requests here. So the Host must be one of ours, which a name rebound to
this address is not; requests that change something, and streams, must not come from another origin; and bodies must be
JSON, which no form can send.
"""

import ipaddress
import re
from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from attractor.server.auth import Authority
from attractor.server.problem import ProblemError
from attractor.server.requests import too_large

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
LOGIN = "/login"
OPEN_PATHS = ("/health", LOGIN)
"""What needs no token."""
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]]*)(?::\d*)?")
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    # With "no-referrer" browsers call the origin of our own form "null".
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosts:
    """The names under which the server may be asked. With `addresses`, any address is one: it can't be rebound."""

    names: Collection[str] = LOOPBACK_NAMES
    addresses: bool = False

    def allow(self, host: str) -> bool:
        """Whether a Host header is one of ours; the port doesn't matter."""
        name = strip_port(host)
        return name in self.names or (self.addresses and _is_address(name))

    def allow_origin(self, origin: str, host: str) -> bool:
        """Whether an Origin header is the server's own, asked under that Host, or one of the names that were given."""
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        if parts.scheme not in ("http", "https") or not parts.netloc:
            return False
        if parts.netloc.lower() == host.lower():
            return True
        # Behind a proxy the Host may be another.
        return strip_port(parts.netloc) in set(self.names) - set(LOOPBACK_NAMES)


LOOPBACK = Hosts()


def strip_port(host: str) -> str:
    """The name or address in a Host header; all of it where that is none."""
    found = _HOST.fullmatch(host.strip().lower())
    return found[1].removesuffix(".") if found else host


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


class Guard:
    """ASGI middleware. Refusals are problems; every answer gets the headers that keep browsers careful."""

    def __init__(self, app: ASGIApp, *, authority: Authority, hosts: Hosts, max_body: int) -> None:
        self._app = app
        self._authority = authority
        self._hosts = hosts
        self._max_body = max_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close"})
            return
        try:
            self._check(scope)
        except ProblemError as problem:
            await problem.to_response()(scope, receive, _careful(send))
            return
        await self._app(scope, receive, _careful(send))

    def _check(self, scope: Scope) -> None:
        """Raises ProblemError."""
        headers = Headers(scope=scope)
        for name in ("host", "origin"):
            if len(headers.getlist(name)) > 1:
                raise ProblemError(400, f"the header {name.title()} stands there more than once")
        host = headers.get("host", "")
        if not self._hosts.allow(host):
            raise ProblemError(
                403, f"the server doesn't go by the name {strip_port(host)!r}; --allowed-host adds a name to its own"
            )
        if scope["method"] not in SAFE_METHODS or scope["path"].endswith("/events"):
            self._check_origin(headers, host)
        if not self._authority.admits(HTTPConnection(scope)) and not _is_open(scope):
            raise ProblemError(401, "the token is missing or wrong", headers={"www-authenticate": "Bearer"})
        self._check_body(scope, headers)

    def _check_origin(self, headers: Headers, host: str) -> None:
        origin = headers.get("origin")
        if origin is not None:
            foreign = not self._hosts.allow_origin(origin, host)
        else:
            # Browsers say so where they leave out the Origin; other programs say neither.
            foreign = headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none")
        if foreign:
            raise ProblemError(403, f"requests from another site ({origin or 'unnamed'}) are refused")

    def _check_body(self, scope: Scope, headers: Headers) -> None:
        length = headers.get("content-length", "0")
        if length.isdigit() and int(length) > self._max_body:
            raise too_large(self._max_body)
        has_body = length != "0" or "transfer-encoding" in headers
        if scope["method"] in SAFE_METHODS or not has_body or scope["path"] == LOGIN:
            return
        if (coding := headers.get("content-encoding", "identity").lower()) != "identity":
            raise ProblemError(415, f"the body must not be compressed, and its Content-Encoding is {coding[:80]}")
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise ProblemError(
                415, f"the body must be application/json, and its Content-Type is {kind[:80] or 'missing'}"
            )


def _is_open(scope: Scope) -> bool:
    """Whether the path needs no token. The page itself says how to log in."""
    return scope["path"] in OPEN_PATHS or (scope["path"] == "/" and scope["method"] in SAFE_METHODS)


def _careful(send: Send) -> Send:
    """Sends with the headers that every answer has, unless it has its own."""

    async def send_careful(message: Message) -> None:
        if message["type"] == "http.response.start":
            present = {name.lower() for name, _ in message["headers"]}
            added = [*_HEADERS, (b"content-security-policy", PAGE_POLICY.encode()), (b"cache-control", b"no-store")]
            message["headers"] = [*message["headers"], *(pair for pair in added if pair[0] not in present)]
        await send(message)

    return send_careful
