"""A page's text as a person would read it, out of its HTML. Pure."""

import re
from html.parser import HTMLParser

# What is in these is not for reading.
_HIDDEN = frozenset({"script", "style", "noscript", "template", "svg", "iframe", "object"})
# fmt: off
_BLOCKS = frozenset({
    "address", "article", "aside", "blockquote", "body", "center", "dd", "details", "dialog", "div", "dl", "dt",
    "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "html",
    "legend", "li", "main", "nav", "ol", "p", "pre", "section", "summary", "table", "tbody", "tfoot", "thead", "tr",
    "ul",
})
# fmt: on
_PARAGRAPHS = frozenset({"p", "pre", "table", "ul", "ol", "h1", "h2", "h3", "h4", "h5", "h6"})
_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_SPACE = re.compile(r"[ \t\r\n\f]+")
_BLANK_LINES = re.compile(r"\n{3,}")


def html_to_text(html: str) -> str:
    """Paragraphs apart, headings with `#`, items with `-`, links followed by their address in parentheses."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return reader.text()


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._title: list[str] = []
        self._parts: list[str] = []
        self._hidden = 0
        self._in_title = False
        self._preformatted = 0
        self._links: list[tuple[str, int]] = []

    def text(self) -> str:
        """Everything read so far."""
        body = "".join(self._parts)
        lines = [line.rstrip() for line in body.split("\n")]
        title = _SPACE.sub(" ", "".join(self._title)).strip()
        return "\n\n".join(filter(None, (title, _BLANK_LINES.sub("\n\n", "\n".join(lines)).strip())))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Called by the parser."""
        self._in_title = tag == "title" and not self._title
        if tag in _HIDDEN:
            self._hidden += 1
        if self._hidden:
            return
        if tag in _BLOCKS:
            self._break_line(2 if tag in _PARAGRAPHS else 1)
            self._parts.append(_HEADINGS.get(tag, "- " if tag == "li" else ""))
        match tag:
            case "br":
                self._parts.append("\n")
            case "td" | "th":
                self._parts.append(" | ")
            case "pre":
                self._preformatted += 1
            case "img":
                self._parts.append(dict(attributes).get("alt") or "")
            case "a":
                self._links.append((dict(attributes).get("href") or "", len(self._parts)))

    def handle_endtag(self, tag: str) -> None:
        """Called by the parser."""
        self._in_title = False
        if tag in _HIDDEN:
            self._hidden = max(self._hidden - 1, 0)
        if self._hidden:
            return
        if tag == "pre":
            self._preformatted = max(self._preformatted - 1, 0)
        elif tag == "a" and self._links:
            self._end_link(*self._links.pop())
        if tag in _BLOCKS:
            self._break_line(2 if tag in _PARAGRAPHS else 1)

    def handle_data(self, data: str) -> None:
        """Called by the parser."""
        if self._in_title:
            self._title.append(data)
        elif not self._hidden:
            self._parts.append(data if self._preformatted else self._flow(data))

    def _flow(self, data: str) -> str:
        """Text with single spaces, and none where a line begins."""
        text = _SPACE.sub(" ", data)
        last = next((part for part in reversed(self._parts) if part), "\n")
        return text.removeprefix(" ") if last[-1] in " \n" else text

    def _end_link(self, address: str, start: int) -> None:
        label = "".join(self._parts[start:]).strip()
        if label and address.startswith(("http://", "https://", "/")) and address != label:
            self._parts.append(f" ({address})")

    def _break_line(self, count: int) -> None:
        """End the line, and leave an empty one if `count` is 2; what is there already counts."""
        for part in reversed(self._parts):
            count -= len(part) - len(part.rstrip("\n"))
            if part.strip("\n"):
                break
        if self._parts:
            self._parts.append("\n" * max(count, 0))
