"""Keeping keys and passwords out of what is written down. Pure."""

import re
from collections.abc import Iterable
from typing import Any

REDACTED = "[redacted]"

# Keys as providers shape them: openai, anthropic and others; Google; Groq; xAI; GitHub; Hugging Face; AWS; and tokens
# of HTTP headers.
_KEY = re.compile(
    r"\b(?:sk-[\w-]{12,}|AIza[\w-]{30,}|gsk_\w{16,}|xai-\w{16,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|hf_\w{16,}"
    r"|AKIA[0-9A-Z]{16})|(?<=\bBearer )[\w.~+/=-]{8,}",
)
_SECRET_NAME = re.compile(
    r"(?:^|[_-])(?:api[_-]?key|key|authorization|auth|password|passwd|secret|cookie|credentials?"
    r"|(?:access|auth|bearer|session|refresh|id)[_-]?token)$",
    re.IGNORECASE,
)
_HEADERS = re.compile(r"headers$", re.IGNORECASE)


def redact_text(text: str, secrets: Iterable[str] = ()) -> str:
    """The text without what looks like a key, and without the given secrets."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, REDACTED)
    return _KEY.sub(REDACTED, text)


def redact_json(value: Any, secrets: Iterable[str] = ()) -> Any:
    """The same JSON value with every text redacted."""
    match value:
        case str():
            return redact_text(value, secrets)
        case dict():
            return {name: redact_json(item, secrets) for name, item in value.items()}
        case list():
            return [redact_json(item, secrets) for item in value]
        case _:
            return value


def redact_options(value: Any, secrets: Iterable[str] = ()) -> Any:
    """Redacts options and metadata, where names tell more than shapes: what a key `api_key`, `password` or the like
    holds goes, and so does every value under `extra_headers`, whatever it looks like.
    """
    match value:
        case dict():
            return {name: _redact_named(name, item, secrets) for name, item in value.items()}
        case list():
            return [redact_options(item, secrets) for item in value]
        case _:
            return redact_json(value, secrets)


def _redact_named(name: str, value: Any, secrets: Iterable[str]) -> Any:
    match value:
        case str() if _SECRET_NAME.search(name):
            return REDACTED
        case dict() if _HEADERS.search(name):
            return dict.fromkeys(value, REDACTED)
        case _:
            return redact_options(value, secrets)
