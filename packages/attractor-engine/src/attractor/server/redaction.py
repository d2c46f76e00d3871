"""Keeping secrets out of what the server shows and logs.

Two kinds are known: the values of environment variables whose names say that they are secret, and what looks like a
credential wherever it stands.
"""

import json
import logging
import re
from collections.abc import Iterable, Mapping
from typing import Any

from anyio.to_thread import run_sync
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HIDDEN = "[redacted]"
_STATIC = "/static/"
_LONG = 50_000
"""Characters that are searched in a thread, so that no other request waits."""
_SHORTEST = 8
"""A shorter value would hide harmless words, and is no secret worth the name."""
_SECRET_NAME = re.compile(
    r"(?:^|_)(?:API_?KEYS?|KEYS?|TOKENS?|SECRETS?|PASSWORDS?|PASSWD|PASSPHRASE|CREDENTIALS?|PAT)$", re.IGNORECASE
)
# Words without which a pattern can't match, and the pattern. Looking for a word takes a hundredth of the time.
_LOOKS = (
    # Headers and fields that carry a credential: the name stays, what follows it goes.
    (
        ("authorization",),
        r"(?P<name>\b(?:proxy-)?authorization\\?[\"']?\s*[:=]\s*\\?[\"']?(?:(?:bearer|basic|token|digest)\s+)?)"
        r"[^\s\"'\\,;]{4,}",
    ),
    (("bearer",), r"(?P<name>\bbearer\s+)[\w.~+/=-]{8,}"),
    (
        ("key", "token", "secret", "password"),
        r"(?P<name>\b(?:x-)?(?:api[-_]?key|goog-api-key|access[-_]?token|client[-_]?secret|password)"
        r"\\?[\"']?\s*[:=]\s*\\?[\"']?)[^\s\"'\\,;&]{8,}",
    ),
    (("://",), r"(?P<name>\b[a-z][a-z0-9+.-]{0,30}://[^\s:/@\"']*:)[^\s/@\"']+(?=@)"),
    # Keys of known make.
    (("sk-", "xai-"), r"\b(?:sk|xai)-[\w-]{12,}"),
    (("gsk_", "hf_"), r"\b(?:gsk|hf)_\w{16,}"),
    (("aiza",), r"\bAIza[\w-]{30,}"),
    (("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"\bgh[pousr]_\w{20,}"),
    (("github_pat_",), r"\bgithub_pat_\w{20,}"),
    (("xox",), r"\bxox[abprs]-[\w-]{10,}"),
    (("akia", "asia"), r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    (
        ("-----begin",),
        r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----.*?(?:-----END (?:[A-Z]+ )*PRIVATE KEY-----|\Z)",
    ),
)


class Redactor:
    """Hides `secrets`, and what looks like one. Immutable; any thread may use it."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        forms = {form for secret in secrets if len(secret) >= _SHORTEST for form in _write(secret)}
        # The longest first, as one secret may begin with another.
        self._known = sorted(forms, key=lambda form: (-len(form), form))
        self._looks = [(words, re.compile(pattern, re.IGNORECASE | re.DOTALL)) for words, pattern in _LOOKS]

    @classmethod
    def from_environment(cls, environ: Mapping[str, str], more: Iterable[str] = ()) -> "Redactor":
        """One that knows the values of all variables that are named like a secret, and `more`."""
        return cls([*(value for name, value in environ.items() if _SECRET_NAME.search(name)), *more])

    def redact(self, text: str) -> str:
        """The text without secrets."""
        for form in self._known:
            if form in text:
                text = text.replace(form, HIDDEN)
        lowered = text.lower()
        for words, pattern in self._looks:
            if any(word in lowered for word in words):
                text = pattern.sub(_hide, text)
        return text

    def redact_json(self, text: str) -> str:
        """The same for JSON, which stays JSON."""
        if self.redact(text) == text:
            return text
        try:
            return json.dumps(self._redact_value(json.loads(text)), ensure_ascii=False, separators=(",", ":"))
        except (ValueError, RecursionError):
            return self.redact(text)

    def _redact_value(self, value: Any, name: str = "") -> Any:
        match value:
            case str():
                # What the field is called may be what gives the text away.
                return HIDDEN if name and self.redact(f"{name}={value}") == f"{name}={HIDDEN}" else self.redact(value)
            case dict():
                return {self.redact(key): self._redact_value(one, key) for key, one in value.items()}
            case list():
                return [self._redact_value(one, name) for one in value]
            case _:
                return value


class RedactingFilter(logging.Filter):
    """Keeps secrets out of log records, whatever logger they come from; for a handler."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = self._redactor.redact(record.getMessage()), ()
        if record.exc_info and not record.exc_text:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
        if record.exc_text:
            record.exc_text = self._redactor.redact(record.exc_text)
        return True


class RedactedAnswers:
    """ASGI middleware: no answer of text tells a secret. Streams of events are redacted where they are made."""

    def __init__(self, app: ASGIApp, redactor: Redactor) -> None:
        self._app = app
        self._redactor = redactor

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith(_STATIC):
            await self._app(scope, receive, send)
            return
        await self._app(scope, receive, _Buffer(self._redactor, send).send)


class _Buffer:
    """Holds an answer of text back until it is whole."""

    def __init__(self, redactor: Redactor, send: Send) -> None:
        self._redactor = redactor
        self._send = send
        self._start: Message | None = None
        self._body = bytearray()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start" and _is_text(message["headers"]):
            self._start = message
        elif self._start is None:
            await self._send(message)
        else:
            self._body += message.get("body", b"")
            if not message.get("more_body"):
                await self._finish(self._start)

    async def _finish(self, start: Message) -> None:
        text = self._body.decode("utf-8", "surrogateescape")
        is_json = b"json" in dict(start["headers"])[b"content-type"]
        redact = self._redactor.redact_json if is_json else self._redactor.redact
        # A long file takes a while.
        told = await run_sync(redact, text) if len(text) > _LONG else redact(text)
        body = told.encode("utf-8", "surrogateescape")
        headers = [pair for pair in start["headers"] if pair[0] != b"content-length"]
        await self._send({**start, "headers": [*headers, (b"content-length", str(len(body)).encode())]})
        await self._send({"type": "http.response.body", "body": body})


def _is_text(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    kind = dict(headers).get(b"content-type", b"").partition(b";")[0]
    return kind != b"text/event-stream" and (kind.startswith(b"text/") or b"json" in kind or b"xml" in kind)


def _write(secret: str) -> set[str]:
    """How a secret may stand in a text, and within JSON."""
    return {secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}


def _hide(match: re.Match[str]) -> str:
    return match.groupdict().get("name", "") + HIDDEN
