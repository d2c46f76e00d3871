"""Files, classes and functions stay small: as a script this prints the sizes, as a test it holds the limits."""

import ast
import statistics
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

ROOT = Path(__file__).parent.parent.parent
LIMITS = {"file": 400, "class": 200, "function": 60}


class Sized(Protocol):
    @property
    def place(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def tree(self) -> ast.Module: ...


@dataclass(frozen=True)
class Size:
    kind: str
    place: str
    name: str
    lines: int

    def __str__(self) -> str:
        return f"{self.lines:5} lines  {self.kind:8}  {self.place}  {self.name}".rstrip()


def measure(place: str, text: str, tree: ast.Module) -> Iterator[Size]:
    yield Size("file", place, "", len(text.splitlines()))
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                kind = "function"
            case ast.ClassDef():
                kind = "class"
            case _:
                continue
        assert node.end_lineno is not None
        yield Size(kind, f"{place}:{node.lineno}", node.name, node.end_lineno - node.lineno + 1)


def too_long(sizes: Iterable[Size]) -> list[Size]:
    return sorted((size for size in sizes if size.lines > LIMITS[size.kind]), key=lambda size: -size.lines)


def test_nothing_outgrows_its_limit(sources: list[Sized]) -> None:
    sizes = [size for source in sources for size in measure(source.place, source.text, source.tree)]
    found = too_long(sizes)
    assert not found, f"limits are {LIMITS}; split what has outgrown them:\n" + "\n".join(map(str, found))


def test_the_measure_sees_a_long_function() -> None:
    text = "class A:\n    async def f(self):\n" + "        pass\n" * LIMITS["function"]
    assert [(size.name, size.lines) for size in too_long(measure("a.py", text, ast.parse(text)))] == [("f", 61)]


def report(package: Path) -> list[Size]:
    sizes: list[Size] = []
    for path in sorted(package.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        sizes += measure(path.relative_to(ROOT).as_posix(), text, ast.parse(text))
    cells = []
    for kind in LIMITS:
        lines = sorted(size.lines for size in sizes if size.kind == kind)
        if not lines:
            continue
        upper = lines[int(0.95 * (len(lines) - 1))]
        cells.append(f"{len(lines)} x {kind}: median {statistics.median(lines):.0f}, 95 % {upper}, most {lines[-1]}")
    print(f"{package.name:12} {'; '.join(cells)}")
    return sizes


def main() -> int:
    found = too_long([size for package in sorted(ROOT.glob("packages/*/src/*")) for size in report(package)])
    for size in found:
        print(f"over the limit: {size}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
