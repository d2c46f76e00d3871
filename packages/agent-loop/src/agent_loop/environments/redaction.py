"""Keeping passwords and keys out of what is written down about commands. Pure."""

import re

from agent_loop.environments.variables import is_secret

REDACTED = "[redacted]"

_VALUE = r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|[^\s;&|"']+)"""
_ASSIGNMENT = re.compile(rf"\b(\w+)=({_VALUE})")
_OPTION = re.compile(rf"(--?[\w-]+)(=|\s+)({_VALUE})")
_SECRET_OPTION = re.compile(r"(?:^|-)(?:api-?key|password|passwd|passphrase|secret|token|credentials?)$", re.IGNORECASE)
_HEADER = re.compile(r"(?i)\b((?:authorization|proxy-authorization|cookie|x-api-key|[\w-]*token)\s*:\s*)[^\r\n\"']+")
_ADDRESS = re.compile(r"(\b[a-z][a-z0-9+.-]*://[^\s/:@]*:)[^\s/@]+(?=@)", re.IGNORECASE)
# Keys as providers shape them, wherever they stand.
_KEY = re.compile(
    r"\b(?:sk-[\w-]{12,}|AIza[\w-]{30,}|gsk_\w{16,}|xai-\w{16,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|hf_\w{16,}"
    r"|glpat-[\w-]{16,}|xox[abprs]-[\w-]{10,}|AKIA[0-9A-Z]{16})|(?<=\bBearer )[\w.~+/=-]{8,}"
)


def redact_command(command: str) -> str:
    """The command without the values of variables, options and headers that are secret by name, and without keys.

    It knows names and shapes. A password that stands alone among other words can't be told from them.
    """
    text = _HEADER.sub(rf"\1{REDACTED}", command)
    text = _ADDRESS.sub(rf"\1{REDACTED}", text)
    text = _ASSIGNMENT.sub(lambda found: f"{found[1]}={REDACTED}" if is_secret(found[1]) else found[0], text)
    text = _OPTION.sub(
        lambda found: f"{found[1]}{found[2]}{REDACTED}" if _SECRET_OPTION.search(found[1]) else found[0], text
    )
    return _KEY.sub(REDACTED, text)
