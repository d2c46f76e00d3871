"""Text that nobody vouches for, made safe to show at a terminal."""

import re

# A model's answer or a file name must not move the cursor, change the title or answer for the user.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    """The text with control characters other than newline and tab written out."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)
