"""What the tests of the project itself look at: its source files, parsed once, and the files under version control."""

import ast
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@dataclass(frozen=True)
class Source:
    """One module of one of the three packages."""

    path: Path
    module: str

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def place(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    @property
    def package(self) -> str:
        return self.module.partition(".")[0]


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def sources() -> list[Source]:
    found = []
    for folder in sorted((ROOT / "packages").glob("*/src")):
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            found.append(Source(path, ".".join(parts[:-1] if parts[-1] == "__init__" else parts)))
    assert found, "no sources found: the layout of packages/ has changed"
    return found


@pytest.fixture(scope="session")
def committed_files() -> list[Path]:
    """Text files that are, or are about to be, under version control."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
        text=True,
    )
    if listing.returncode != 0:
        pytest.skip(f"not a git checkout: {listing.stderr.strip()}")
    return [path for name in listing.stdout.split("\0") if name and (path := ROOT / name).is_file()]


@pytest.fixture(scope="session")
def uv() -> str:
    """Path of uv, fetched into .uv/ if this machine has none."""
    found = subprocess.run([ROOT / "scripts/setup", "--uv"], capture_output=True, check=True, text=True)
    return str((ROOT / found.stdout.strip()).absolute()) if "/" in found.stdout else found.stdout.strip()
