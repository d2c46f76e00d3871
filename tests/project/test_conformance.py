"""The pages on conformance: every item of a Definition of Done has a row, and every test that it names exists."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
# By page: where its tests are, and how many items each section of the specification lists. A parity matrix counts by
# rows, a smoke test by steps.
PAGES = {
    "conformance.md": (
        "unified_llm",
        {"8.1": 8, "8.2": 10, "8.3": 7, "8.4": 10, "8.5": 6, "8.6": 10, "8.7": 11, "8.8": 9, "8.9": 15, "8.10": 6},
    ),
    "agent_loop_conformance.md": (
        "agent_loop",
        {"9.1": 8, "9.2": 6, "9.3": 5, "9.4": 6, "9.5": 6, "9.6": 4, "9.7": 3, "9.8": 6, "9.9": 6, "9.10": 4, "9.11": 5}
        | {"9.12": 15, "9.13": 7},
    ),
    "attractor_conformance.md": (
        "attractor",
        {"11.1": 10, "11.2": 10, "11.3": 8, "11.4": 4, "11.5": 5, "11.6": 9, "11.7": 6, "11.8": 6, "11.9": 7}
        | {"11.10": 6, "11.11": 4, "11.12": 22, "11.13": 6},
    ),
}
ROW = re.compile(r"^\| (?P<item>\d+\.\d+\.\d+) \| [^|]+ \| (?P<tests>[^|]+) \|$", re.MULTILINE)
TEST = re.compile(r"`(?P<file>[\w./]+\.py)::(?P<name>test_\w+)`")


def rows(page: str) -> list[tuple[str, list[tuple[str, str]]]]:
    return [(row["item"], TEST.findall(row["tests"])) for row in ROW.finditer(page)]


ROWS = {page: rows((ROOT / "docs" / page).read_text(encoding="utf-8")) for page in PAGES}


@cache
def functions_of(folder: str, file: str) -> set[str]:
    tree = ast.parse((ROOT / "tests" / folder / file).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize("page", PAGES)
def test_every_item_has_its_row(page: str) -> None:
    _, items = PAGES[page]
    wanted = [f"{section}.{number}" for section, count in items.items() for number in range(1, count + 1)]
    assert [item for item, _ in ROWS[page]] == wanted


@pytest.mark.parametrize(
    ("folder", "item", "tests"),
    [
        pytest.param(folder, item, tests, id=f"{folder}-{item}")
        for page, (folder, _) in PAGES.items()
        for item, tests in ROWS[page]
    ],
)
def test_the_tests_of_an_item_exist(folder: str, item: str, tests: list[tuple[str, str]]) -> None:
    assert tests, f"{item} names no test"
    missing = [f"{file}::{name}" for file, name in tests if name not in functions_of(folder, file)]
    assert not missing, f"{item} names what isn't there: {missing}"


def test_a_missing_test_would_be_seen() -> None:
    [(item, tests)] = rows("| 8.1.1 | what | `test_client.py::test_nothing_of_the_kind` |\n")
    with pytest.raises(AssertionError, match="names what isn't there"):
        test_the_tests_of_an_item_exist("unified_llm", item, tests)
