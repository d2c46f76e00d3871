"""The everyday commands: all there, explained, and setting themselves up."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
TARGETS = ["help", "setup", "demo", "test", "check", "bench", "fmt", "clean"]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def make(*arguments: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(["make", *arguments], cwd=ROOT, capture_output=True, check=True, text=True, env=environment)
    return done.stdout


def test_help_explains_every_target() -> None:
    assert re.findall(r"^make (\w+)\s+\S", make("help"), re.MULTILINE) == TARGETS
    assert make() == make("help")


@pytest.mark.parametrize("target", [name for name in TARGETS if name not in ("help", "setup", "clean")])
def test_targets_set_themselves_up(target: str) -> None:
    assert make("--dry-run", target).splitlines()[0] == "scripts/setup"


def test_tests_run_whole_and_on_all_cores() -> None:
    workers = re.search(r"^\.venv/bin/pytest -n (\d+) --dist loadgroup -rs$", make("--dry-run", "test"), re.MULTILINE)
    assert workers
    assert int(workers[1]) > (os.cpu_count() or 1)


@pytest.mark.parametrize("script", ["scripts/setup", "scripts/demo", ".ci/run"])
def test_scripts_run_as_they_are(script: str) -> None:
    assert os.access(ROOT / script, os.X_OK)
    interpreter = (ROOT / script).read_text(encoding="utf-8").splitlines()[0].removeprefix("#!")
    subprocess.run([interpreter, "-n", ROOT / script], check=True)


def test_setup_says_what_is_missing(tmp_path: Path) -> None:
    """A machine without Python and uv gets one sentence, and nothing is left behind."""
    for tool in ("sh", "dirname", "cut", "sort", "head", "rm"):
        (tmp_path / tool).symlink_to(subprocess.check_output(["which", tool], text=True).strip())
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/setup").write_bytes((ROOT / "scripts/setup").read_bytes())
    done = subprocess.run(
        ["sh", tmp_path / "scripts/setup"], env={"PATH": str(tmp_path)}, capture_output=True, check=False, text=True
    )
    assert done.returncode == 1
    assert done.stderr == "setup: no Python was found: install Python 3.11 or newer.\n"
    assert not (tmp_path / ".venv").exists()
