"""Text as a provider's JSON may hold it, and no Python string that is to be encoded can. Pure."""


def whole_characters(text: str) -> str:
    """`text` with every half of a surrogate pair, which JSON escapes can express, replaced by U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
