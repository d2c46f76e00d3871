"""Runs the benchmarks: every bench_*.py here, or those whose names are given. Exits 1 where a limit is passed.

A benchmark is a module with `rows()`, which yields name, value, unit, ratio to a baseline, and the limit of that ratio
(of the value, if there is no ratio); None where there is none.
"""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

Row = tuple[str, float, str, float | None, float | None]


def load_rows(path: Path) -> Iterator[Row]:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield from module.rows()


def main(names: list[str]) -> int:
    passed = False
    for path in sorted(Path(__file__).parent.glob("bench_*.py")):
        if names and path.stem.removeprefix("bench_") not in names:
            continue
        for name, value, unit, ratio, limit in load_rows(path):
            over = limit is not None and (value if ratio is None else ratio) > limit
            shown = "" if ratio is None else f"{ratio:6.2f}x"
            bound = "" if limit is None else f"limit {limit:g}{'' if ratio is None else 'x'}"
            print(f"{name:48} {value:10.3f} {unit:6} {shown:8} {bound:14} {'TOO MUCH' if over else ''}".rstrip())
            passed = passed or over
    return 1 if passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
