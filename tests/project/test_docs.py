"""What the documentation shows is run: every fenced snippet of every page, in order, in one empty directory a page.

A python snippet is a whole program and an sh snippet a whole script; a console snippet is a transcript, whose output is
compared (`...` stands for anything). A dot snippet must parse and pass lint. The directory has copies of docs/examples
and of the suites in tests/conformance, at the same places.
A comment above a snippet says what it needs:

    <!-- test: file NAME -->            the snippet is also written to this file, for the snippets below it
    <!-- test: needs-local-model -->    ANTHROPIC_* variables lead to the local model, which answers under any name
    <!-- test: not run: REASON -->      only where running it here makes no sense
"""

import doctest
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("packages/*/README.md")],
    key=lambda path: path.relative_to(ROOT).as_posix(),
)
FENCE = re.compile(
    r"(?:^<!-- test: (?P<note>[^\n]*?) -->\n+)?^(?P<indent> *)```(?P<language>\w*)\n(?P<body>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)")
SECONDS = 120


@dataclass(frozen=True)
class Snippet:
    place: str
    language: str
    body: str
    note: str = ""


def snippets(text: str, page: str) -> Iterator[Snippet]:
    for found in FENCE.finditer(text):
        line = text.count("\n", 0, found.start("language")) + 1
        indent = found["indent"]
        body = "".join(row.removeprefix(indent) for row in found["body"].splitlines(keepends=True))
        yield Snippet(f"{page}:{line}", found["language"], body, found["note"] or "")


@dataclass(frozen=True)
class Desk:
    """Where the snippets of one page run."""

    folder: Path
    environment: dict[str, str]

    def run(self, *command: str) -> str:
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"exit code {done.returncode}:\n{done.stdout}"
        return done.stdout


def desk(folder: Path) -> Desk:
    """No key and no address of this machine's user gets in; programs and the libraries are those under test."""
    shutil.copytree(ROOT / "docs/examples", folder / "docs/examples")
    (folder / "tests/conformance").mkdir(parents=True)
    for suite in ("adapter.py", "environment.py"):
        shutil.copy(ROOT / "tests/conformance" / suite, folder / "tests/conformance" / suite)
    ours = ("_API_KEY", "_BASE_URL", "_LOCAL_MODEL")
    kept = {name: value for name, value in os.environ.items() if not name.endswith(ours)}
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', '')}"
    # What is compiled once for all is not compiled once for every page: tests of environments keep it there too.
    places = {"HOME": folder, "XDG_STATE_HOME": folder / ".state", "XDG_CACHE_HOME": ROOT / ".pytest_cache/d"}
    return Desk(folder, {**kept, "PATH": path, **{name: str(place) for name, place in places.items()}})


def run_python(snippet: Snippet, desk: Desk) -> None:
    desk.run(sys.executable, "-W", "error", "-c", snippet.body)


def run_sh(snippet: Snippet, desk: Desk) -> None:
    desk.run("bash", "-euo", "pipefail", "-c", snippet.body)


def run_console(snippet: Snippet, desk: Desk) -> None:
    """Each `$ command` with the output under it. One that is meant to fail says so: `...; echo "exit code $?"`."""
    for step in re.split(r"^\$ ", snippet.body, flags=re.MULTILINE)[1:]:
        command, _, wanted = step.partition("\n")
        got = desk.run("bash", "-c", command)
        assert doctest.OutputChecker().check_output(wanted, got, doctest.ELLIPSIS), f"$ {command}\n{got}"


def check_dot(snippet: Snippet, desk: Desk) -> None:
    (desk.folder / "snippet.dot").write_text(snippet.body, encoding="utf-8")
    desk.run("attractor", "lint", "snippet.dot")


RUNNERS: dict[str, Callable[[Snippet, Desk], object]] = {
    "python": run_python,
    "sh": run_sh,
    "console": run_console,
    "dot": check_dot,
    "json": lambda snippet, _: json.loads(snippet.body),
    "toml": lambda snippet, _: tomllib.loads(snippet.body),
    "text": lambda snippet, _: None,
}


def execute(snippet: Snippet, desk: Desk, model_url: Callable[[], str]) -> None:
    match snippet.note.split(maxsplit=1):
        case ["file", name]:
            (desk.folder / name).write_text(snippet.body, encoding="utf-8")
        case ["needs-local-model"]:
            variables = {"ANTHROPIC_API_KEY": "local", "ANTHROPIC_BASE_URL": model_url()}
            desk = Desk(desk.folder, {**desk.environment, **variables})
        case ["not", reason] if reason.startswith("run: "):
            return
        case []:
            pass
        case _:
            raise AssertionError(f"unknown note {snippet.note!r}; the head of {Path(__file__).name} lists them")
    assert snippet.language in RUNNERS, f"a snippet says what it is, one of {', '.join(RUNNERS)}"
    RUNNERS[snippet.language](snippet, desk)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_snippets_run(page: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    def model_url() -> str:
        return str(request.getfixturevalue("local_model_url"))

    place = desk(tmp_path)
    for snippet in snippets(page.read_text(encoding="utf-8"), page.relative_to(ROOT).as_posix()):
        try:
            execute(snippet, place, model_url)
        except (AssertionError, ValueError, subprocess.TimeoutExpired) as error:
            pytest.fail(f"{snippet.place}: {error}")


def anchors(text: str) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for found in LINK.finditer(page.read_text(encoding="utf-8")):
        target, _, anchor = found["target"].partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        file = page.parent / target if target else page
        if not file.exists() or (anchor and anchor not in anchors(file.read_text(encoding="utf-8"))):
            broken.append(found["target"])
    assert not broken, f"{page.relative_to(ROOT)} links to what isn't there: {broken}"


@pytest.mark.parametrize("path", sorted((ROOT / "docs/examples").rglob("*.dot")), ids=lambda path: path.name)
def test_examples_pass_lint(path: Path, tmp_path: Path) -> None:
    check_dot(Snippet(path.name, "dot", path.read_text(encoding="utf-8")), desk(tmp_path))


@pytest.mark.parametrize(
    "page",
    [
        "```python\nraise SystemExit(3)\n```\n",
        "```python\nimport nothing_of_this_name\n```\n",
        "```sh\nfalse\necho fine\n```\n",
        "```console\n$ echo one\ntwo\n```\n",
        "```dot\ndigraph { a -- b }\n```\n",
        "```json\n{\n```\n",
        "```\nwhat is this\n```\n",
        "<!-- test: whatever -->\n```sh\ntrue\n```\n",
    ],
)
def test_a_wrong_snippet_is_seen(page: str, tmp_path: Path) -> None:
    [snippet] = snippets(page, "page.md")
    with pytest.raises((AssertionError, ValueError)):
        execute(snippet, desk(tmp_path), lambda: "")


def test_a_page_is_one_session(tmp_path: Path) -> None:
    page = (
        "<!-- test: file note.txt -->\n```text\nhello\n```\n\n"
        "1. In a list:\n\n   ```console\n   $ cat note.txt\n   hel...\n   ```\n"
    )
    place = desk(tmp_path)
    found = list(snippets(page, "page.md"))
    assert [snippet.language for snippet in found] == ["text", "console"]
    for snippet in found:
        execute(snippet, place, lambda: "")
