"""docs/conformance.md: every item of the specification's Definition of Done has a row, and every test there exists."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs/conformance.md"
# How many items each section of the specification lists; the parity matrix counts by rows, the smoke test by steps.
ITEMS = {"8.1": 8, "8.2": 10, "8.3": 7, "8.4": 10, "8.5": 6, "8.6": 10, "8.7": 11, "8.8": 9, "8.9": 15, "8.10": 6}
ROW = re.compile(r"^\| (?P<item>8\.\d+\.\d+) \| [^|]+ \| (?P<tests>[^|]+) \|$", re.MULTILINE)
TEST = re.compile(r"`(?P<file>[\w./]+\.py)::(?P<name>test_\w+)`")


def rows(page: str) -> list[tuple[str, list[tuple[str, str]]]]:
    return [(row["item"], TEST.findall(row["tests"])) for row in ROW.finditer(page)]


ROWS = rows(PAGE.read_text(encoding="utf-8"))


@cache
def functions_of(file: str) -> set[str]:
    tree = ast.parse((ROOT / "tests/unified_llm" / file).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_item_has_its_row() -> None:
    wanted = [f"{section}.{number}" for section, count in ITEMS.items() for number in range(1, count + 1)]
    assert [item for item, _ in ROWS] == wanted


@pytest.mark.parametrize(("item", "tests"), ROWS, ids=[item for item, _ in ROWS])
def test_the_tests_of_an_item_exist(item: str, tests: list[tuple[str, str]]) -> None:
    assert tests, f"{item} names no test"
    missing = [f"{file}::{name}" for file, name in tests if name not in functions_of(file)]
    assert not missing, f"{item} names what isn't there: {missing}"


def test_a_missing_test_would_be_seen() -> None:
    [(item, tests)] = rows("| 8.1.1 | what | `test_client.py::test_nothing_of_the_kind` |\n")
    with pytest.raises(AssertionError, match="names what isn't there"):
        test_the_tests_of_an_item_exist(item, tests)
