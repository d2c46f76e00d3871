"""Keeping secrets out of what the server shows and logs.

Two kinds are known: the values of environment variables whose names say that they are secret, and what looks like a
credential wherever it stands.
"""

import json
import logging
import re
from collections.abc import Iterable, Mapping

HIDDEN = "[redacted]"
_SHORTEST = 8
"""A shorter value would hide harmless words, and is no secret worth the name."""
_SECRET_NAME = re.compile(
    r"(?:^|_)(?:API_?KEYS?|KEYS?|TOKENS?|SECRETS?|PASSWORDS?|PASSWD|PASSPHRASE|CREDENTIALS?|PAT)(?:$|_)", re.IGNORECASE
)
_LOOKS = (
    # Headers and JSON that carry a credential: the word stays, what follows it goes.
    r"(?P<head>\b(?:proxy-)?authorization\\?[\"']?\s*[:=]\s*\\?[\"']?(?:(?:bearer|basic|token|digest)\s+)?)[^\s\"'\\,;]{4,}",
    r"(?P<bearer>\bbearer\s+)[\w.~+/=-]{8,}",
    r"(?P<named>\b(?:x-)?(?:api[-_]?key|goog-api-key|access[-_]?token|client[-_]?secret|password)\\?[\"']?\s*[:=]\s*\\?[\"']?)"
    r"[^\s\"'\\,;&]{8,}",
    # Keys of known make.
    r"\bsk-[\w-]{16,}",
    r"\bAIza[\w-]{30,}",
    r"\b(?:gh[pousr]_\w{20,}|github_pat_\w{20,})",
    r"\bxox[abprs]-[\w-]{10,}",
    r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----.*?(?:-----END (?:[A-Z]+ )*PRIVATE KEY-----|\Z)",
)


class Redactor:
    """Hides `secrets`, and what looks like one. Immutable; any thread may use it."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        forms = {form for secret in secrets if len(secret) >= _SHORTEST for form in _write(secret)}
        # The longest first, as one secret may begin with another.
        known = [re.escape(form) for form in sorted(forms, key=lambda form: (-len(form), form))]
        self._pattern = re.compile("|".join([*known, *_LOOKS]), re.IGNORECASE | re.DOTALL)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str], more: Iterable[str] = ()) -> "Redactor":
        """One that knows the values of all variables that are named like a secret, and `more`."""
        return cls([*(value for name, value in environ.items() if _SECRET_NAME.search(name)), *more])

    def redact(self, text: str) -> str:
        """The text without secrets."""
        return self._pattern.sub(_hide, text)

    def redact_json(self, text: str) -> str:
        """The same for JSON, which stays JSON."""
        return self.redact(text)


class RedactingFilter(logging.Filter):
    """Keeps secrets out of log records, whatever logger they come from; for a handler."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        if record.exc_info and not record.exc_text:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
        if record.exc_text:
            record.exc_text = self._redactor.redact(record.exc_text)
        record.msg, record.args = self._redactor.redact(message), ()
        return True


def _write(secret: str) -> set[str]:
    """How a secret may stand in a text, and within JSON."""
    return {secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}


def _hide(match: re.Match[str]) -> str:
    groups = match.groupdict()
    return (groups["head"] or groups["bearer"] or groups["named"] or "") + HIDDEN
