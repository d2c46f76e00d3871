"""docs/attributes.md has what the code knows. As a script this writes its generated part anew."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from attractor.attributes import DIALECT_NAMES, EDGE_ATTRIBUTES, GRAPH_ATTRIBUTES, NODE_ATTRIBUTES, Attribute
from attractor.graph import SHAPE_TO_TYPE
from attractor.validation.explanations import EXPLANATIONS

PAGE = Path(__file__).parent.parent.parent / "docs/attributes.md"
MARK = "<!-- What follows is written by tests/attractor/test_attribute_reference.py. -->\n"
TABLES: Mapping[str, Mapping[str, Attribute]] = {
    "Of the graph": GRAPH_ATTRIBUTES,
    "Of nodes": NODE_ATTRIBUTES,
    "Of edges": EDGE_ATTRIBUTES,
}


def reference() -> str:
    """All tables as Markdown."""
    return "\n".join(_write())


def _write() -> Iterator[str]:
    for title, attributes in TABLES.items():
        yield f"## {title}\n"
        yield from _table(
            ("attribute", "holds", "default", "meaning", "section"),
            (
                (f"`{item.name}`", _holds(item), _code(item.default), item.description, item.section)
                for item in attributes.values()
            ),
        )
    yield "## Shapes\n"
    yield from _table(("shape", "type"), ((f"`{shape}`", f"`{name}`") for shape, name in SHAPE_TO_TYPE.items()))
    yield "## Names of other engines\n"
    yield "They are understood, and lint says so.\n"
    yield from _table(("written", "read as"), ((f"`{name}`", f"`{known}`") for name, known in DIALECT_NAMES.items()))
    yield "## Rules of lint\n"
    yield from _table(
        ("rule", "severity", "what", "why"),
        ((f"`{item.rule}`", item.severity.value, item.summary, item.why) for item in EXPLANATIONS.values()),
    )


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"| {' | '.join('---' for _ in head)} |"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def _holds(item: Attribute) -> str:
    return ", ".join(f"`{value}`" for value in item.values) or item.kind.value


def _code(default: str) -> str:
    return default if " " in default or "'" in default or not default else f"`{default}`"


def test_the_reference_is_that_of_the_code() -> None:
    hand_written, _, generated = PAGE.read_text("utf-8").partition(MARK)
    assert hand_written
    assert generated.strip() == reference().strip(), f"out of date: python {Path(__file__).name} writes it anew"


def test_no_cell_breaks_its_table() -> None:
    rows = [line for line in reference().splitlines() if line.startswith("|")]
    assert {line.count(" | ") for line in rows} == {1, 3, 4}
    for attributes in TABLES.values():
        for item in attributes.values():
            assert item.description.endswith(".")
            assert "|" not in item.description


if __name__ == "__main__":
    PAGE.write_text(PAGE.read_text("utf-8").partition(MARK)[0] + MARK + "\n" + reference().strip() + "\n", "utf-8")
    sys.exit()
