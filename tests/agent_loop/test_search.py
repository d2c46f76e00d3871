"""grep, glob and list_dir: the same with ripgrep and without it (sections 3.3 and 4.2)."""

import os
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Literal

import anyio
import pytest
from agent_loop import ExecutionEnvironmentError, GrepOptions, LocalExecutionEnvironment, truncate_tool_output
from agent_loop.environments import PathNotFoundError
from agent_loop.environments.local_search import (
    MAX_LINE_CHARACTERS,
    grep_in_python,
    ripgrep_arguments,
    ripgrep_output,
)
from agent_loop.tools.search import glob, grep, list_dir
from hypothesis import given, settings
from hypothesis import strategies as st

RIPGREP = shutil.which("rg")
ENGINES = ["python", pytest.param("ripgrep", marks=pytest.mark.skipif(not RIPGREP, reason="rg is not installed"))]


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> LocalExecutionEnvironment:
    """The environment with ripgrep in its PATH, or without."""
    search_path = os.path.dirname(RIPGREP) if request.param == "ripgrep" and RIPGREP else "/nowhere"
    return LocalExecutionEnvironment(tmp_path, variables={"PATH": search_path})


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Text in several places, and what must be passed over."""
    (tmp_path / "a.py").write_text("import os\nprint('Needle')\n")
    (tmp_path / "b.txt").write_text("needle one\nnothing\nneedle two\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "c.py").write_bytes(b"caf\xe9 needle\r\n")
    (tmp_path / "sub" / ".hidden").write_text("needle hidden\n")
    (tmp_path / "binary").write_bytes(b"needle\0\1")
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "d.py").write_text("needle\n")
    (tmp_path / "sub" / "loop").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "fifo")
    return tmp_path


async def test_matches_come_by_path_with_line_numbers(engine: LocalExecutionEnvironment, tree: Path) -> None:
    with anyio.fail_after(5):
        found = await engine.grep("needle", ".", GrepOptions())
    assert found.splitlines() == [
        "b.txt:1:needle one",
        "b.txt:3:needle two",
        "sub/.hidden:1:needle hidden",
        "sub/c.py:1:caf� needle",
    ]


async def test_directories_too_deep_to_be_entered_hide_nothing_else(
    engine: LocalExecutionEnvironment, tmp_path: Path
) -> None:
    """From some depth on paths are longer than the system takes, and Python would recurse no deeper."""
    (tmp_path / "z.txt").write_text("needle\n")
    directory = os.open(tmp_path, os.O_RDONLY)
    for _ in range(2_500):
        os.mkdir("d", dir_fd=directory)
        below = os.open("d", os.O_RDONLY, dir_fd=directory)
        os.close(directory)
        directory = below
    os.close(directory)
    assert await engine.glob("**/*.txt", ".") == [str(tmp_path / "z.txt")]
    assert await engine.grep("needle", ".", GrepOptions()) == "z.txt:1:needle"
    entries = await engine.list_directory(".", 10_000)
    assert entries[-1].name == "z.txt"
    assert len(entries) > 1_500
    subprocess.run(["rm", "-rf", str(tmp_path / "d")], check=True)  # noqa: ASYNC221


async def test_paths_come_without_detours(engine: LocalExecutionEnvironment, tree: Path) -> None:
    assert await engine.glob("../*.txt", "sub") == [str(tree / "b.txt")]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (GrepOptions(case_insensitive=True, glob_filter="*.py"), ["a.py:2:print('Needle')", "sub/c.py:1:caf� needle"]),
        (GrepOptions(output_mode="files_with_matches"), ["b.txt", "sub/.hidden", "sub/c.py"]),
        (GrepOptions(output_mode="count"), ["b.txt:2", "sub/.hidden:1", "sub/c.py:1"]),
        (GrepOptions(glob_filter="sub/*.py"), ["sub/c.py:1:caf� needle"]),
        (
            GrepOptions(max_results=2),
            ["b.txt:1:needle one", "b.txt:3:needle two", "[more than 2 results; narrow the search to see the others]"],
        ),
    ],
)
async def test_options(
    engine: LocalExecutionEnvironment, tree: Path, options: GrepOptions, expected: list[str]
) -> None:
    assert (await engine.grep("needle", ".", options)).splitlines() == expected


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("^needle", ["b.txt:1:needle one", "b.txt:3:needle two"]),
        ("one$", ["b.txt:1:needle one"]),
        ("needle(?! one)", ["b.txt:3:needle two"]),
        (r"\bnothing\b", ["b.txt:2:nothing"]),
        ("one.nothing", []),
        ("", ["b.txt:1:needle one", "b.txt:2:nothing", "b.txt:3:needle two"]),
    ],
)
async def test_lines_are_matched_one_by_one(
    engine: LocalExecutionEnvironment, tree: Path, pattern: str, expected: list[str]
) -> None:
    assert (await engine.grep(pattern, "b.txt", GrepOptions())).splitlines() == expected


async def test_a_directory_that_is_named_is_searched(engine: LocalExecutionEnvironment, tree: Path) -> None:
    assert await engine.grep("needle", "node_modules", GrepOptions()) == "node_modules/d.py:1:needle"
    assert await engine.grep("needle", str(tree / "sub"), GrepOptions(glob_filter="*.py")) == "sub/c.py:1:caf� needle"


async def test_line_ends_are_seen_before_crlf_too(engine: LocalExecutionEnvironment, tree: Path) -> None:
    assert await engine.grep("needle$", "sub/c.py", GrepOptions()) == "sub/c.py:1:caf� needle"


async def test_errors_of_a_search(engine: LocalExecutionEnvironment, tree: Path) -> None:
    with pytest.raises(ExecutionEnvironmentError, match="invalid regular expression"):
        await engine.grep("(", ".", GrepOptions())
    with pytest.raises(PathNotFoundError, match="no such file or directory"):
        await engine.grep("x", "missing", GrepOptions())
    with pytest.raises(PathNotFoundError, match="no such directory"):
        await engine.glob("*", "missing")


async def test_a_match_in_a_huge_line_is_clipped(engine: LocalExecutionEnvironment, tmp_path: Path) -> None:
    (tmp_path / "vendored.min.js").write_text("x" * 300_000 + "var stats=1;" + "y" * 350_000)
    found = await grep({"pattern": "stats"}, engine)
    assert found.startswith("vendored.min.js:1:[... 299879 characters ...] xxx")
    assert "xxvar stats=1;yy" in found
    assert found.endswith("yy [... 349633 characters ...]")
    assert len(found) < MAX_LINE_CHARACTERS + 100
    assert truncate_tool_output(found, "grep") == found


async def test_nothing_found_is_said(engine: LocalExecutionEnvironment, tree: Path) -> None:
    assert await grep({"pattern": "unheard of"}, engine) == "No matches."
    assert await glob({"pattern": "*.rs"}, engine) == "No files match."


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.py", {"a.py"}),
        ("**/*.py", {"a.py", "sub/c.py"}),
        ("sub/*", {"sub/c.py", "sub/.hidden"}),
        ("**/{a,c}.py", {"a.py", "sub/c.py"}),
        ("?.txt", {"b.txt"}),
        ("[!a].*", {"b.txt"}),
        ("sub/c.py", {"sub/c.py"}),
        ("./sub/c.p[xy]", {"sub/c.py"}),
        ("node_modules/**/*.py", {"node_modules/d.py"}),
        ("sub", set()),
    ],
)
async def test_glob_patterns(engine: LocalExecutionEnvironment, tree: Path, pattern: str, expected: set[str]) -> None:
    found = await engine.glob(pattern, ".")
    assert {os.path.relpath(path, tree) for path in found} == expected
    assert await engine.glob(f"{tree}/{pattern}", ".") == found


async def test_newest_files_come_first(engine: LocalExecutionEnvironment, tmp_path: Path) -> None:
    for age, name in enumerate(["new", "older", "oldest"]):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (1_000_000 - age, 1_000_000 - age))
    assert await glob({"pattern": "*"}, engine) == "\n".join(
        str(tmp_path / name) for name in ["new", "older", "oldest"]
    )


async def test_glob_stays_out_of_big_directories_and_link_loops(
    engine: LocalExecutionEnvironment, tmp_path: Path
) -> None:
    for number in range(200):
        (tmp_path / "node_modules" / str(number)).mkdir(parents=True)
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "app.tsx").touch()
    with anyio.fail_after(5):
        assert await engine.glob("**/*.tsx", ".") == [str(tmp_path / "src" / "app.tsx")]
        assert await engine.glob("src/app.tsx", ".") == [str(tmp_path / "src" / "app.tsx")]


async def test_list_dir(engine: LocalExecutionEnvironment, tree: Path) -> None:
    listed = await list_dir({"path": "sub", "depth": 1}, engine)
    assert listed.splitlines()[:2] == [".hidden (14 bytes)", "c.py (13 bytes)"]
    (tree / "empty").mkdir()
    assert await list_dir({"path": "empty"}, engine) == "The directory is empty."


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("[é]", ["x.md:2:aéb"]),
        ("^a.b$", ["x.md:2:aéb"]),
        (r"a\wb", ["x.md:2:aéb"]),
        ("wide", ["utf16.txt:1:wide", "x.md:3:wide"]),
    ],
)
async def test_characters_are_characters(
    engine: LocalExecutionEnvironment, tmp_path: Path, pattern: str, expected: list[str]
) -> None:
    (tmp_path / "x.md").write_bytes("\ufeffè\naéb\nwide\n".encode())
    (tmp_path / "utf16.txt").write_text("wide\n", encoding="utf-16")
    assert (await engine.grep(pattern, ".", GrepOptions())).splitlines() == expected


async def test_case_is_ignored_in_all_alphabets(engine: LocalExecutionEnvironment, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("É\nЖ\n")
    assert await engine.grep("é|ж", ".", GrepOptions(case_insensitive=True)) == "x:1:É\nx:2:Ж"


@pytest.mark.parametrize(
    ("glob_filter", "expected"),
    [
        ("*.{ts,tsx}", ["a.ts", "b.tsx", "sub/c.ts"]),
        ("!*.ts", ["b.tsx"]),
        ("!sub", ["a.ts", "b.tsx"]),
        ("!sub/", ["a.ts", "b.tsx"]),
        ("/sub/*.ts", ["sub/c.ts"]),
        ("{sub/*,b*}", ["b.tsx", "sub/c.ts"]),
    ],
)
async def test_filters_are_those_of_ripgrep(
    engine: LocalExecutionEnvironment, tmp_path: Path, glob_filter: str, expected: list[str]
) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("a.ts", "b.tsx", "sub/c.ts"):
        (tmp_path / name).write_text("here\n")
    options = GrepOptions(glob_filter=glob_filter, output_mode="files_with_matches")
    assert (await engine.grep("here", ".", options)).splitlines() == expected


async def test_counts_end_in_a_number(engine: LocalExecutionEnvironment, tree: Path) -> None:
    assert await engine.grep("needle", "b.txt", GrepOptions(output_mode="count")) == "b.txt:2"
    assert "\r" not in await engine.grep("needle", ".", GrepOptions(output_mode="count"))


@pytest.mark.parametrize("pattern", ["[]", "[!]", "[[:alpha:]]", "x[", "[&&]", "[a||b]", "[^]"])
async def test_odd_glob_patterns_are_no_crash(engine: LocalExecutionEnvironment, tmp_path: Path, pattern: str) -> None:
    (tmp_path / pattern).touch()
    (tmp_path / "other").touch()
    assert str(tmp_path / "other") not in await engine.glob(pattern, ".")
    assert await engine.glob(pattern.replace("[", "[[]"), ".") == [str(tmp_path / pattern)]


PATTERNS = st.sampled_from(
    [
        "a", "A", "é", "^a", "b$", "^$", "a.*b", "a.b", "[ab]+c", "(a|é)b?", "b{2,}", "c|^b",
        r"\bab\b", r"\d", r"\s", r"\w+\s\w+",
    ]
)  # fmt: skip
LINES = st.lists(st.text("abcAé1 \t-", max_size=6), max_size=6)
FILES = st.builds(
    lambda lines, ending, ended, mark: (mark + ending.join(lines) + ending * ended).encode(),
    LINES,
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.sampled_from(["", "", "", "\ufeff"]),
) | st.sampled_from([b"", b"ab\0ab\n", b"caf\xe9 ab\n", b"\n", b"ab"])
TREES = st.dictionaries(st.sampled_from(["a", "b.py", "c.txt", "d/e.py", "d/.f", "d/g/h", ".git/x"]), FILES, max_size=5)
MODES = st.sampled_from(["content", "files_with_matches", "count"])


@pytest.mark.skipif(not RIPGREP, reason="rg is not installed")
@settings(max_examples=150, deadline=None)
@given(
    TREES,
    PATTERNS,
    MODES,
    st.booleans(),
    st.sampled_from([None, "*.py", "d/**", "!*.py", "{a,c}*"]),
    st.sampled_from([1, 2, 100]),
)
def test_both_engines_find_the_same(
    tree: dict[str, bytes],
    pattern: str,
    mode: Literal["content", "files_with_matches", "count"],
    case_insensitive: bool,
    glob_filter: str | None,
    max_results: int,
) -> None:
    options = GrepOptions(
        output_mode=mode, case_insensitive=case_insensitive, glob_filter=glob_filter, max_results=max_results
    )
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        for path, data in tree.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(data)
        command = [str(RIPGREP), *ripgrep_arguments(pattern, ".", options)]
        done = subprocess.run(command, cwd=root, capture_output=True, check=False, stdin=subprocess.DEVNULL)
        by_ripgrep = ripgrep_output(done.stdout.decode(errors="replace"), root, root, options)
        assert by_ripgrep == grep_in_python(pattern, root, root, options)


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_a_pattern_that_backtracks_for_ever_holds_nobody_up(
    engine: LocalExecutionEnvironment, tmp_path: Path
) -> None:
    (tmp_path / "x").write_text("a" * 60 + "b\n")
    await engine.initialize()
    # With lookaround, so that ripgrep leaves it to Python.
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(engine.grep, "(?=(a+)+$)", ".", GrepOptions())
        with anyio.fail_after(10):
            while "local_grep_process" not in running_commands():
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    assert "local_grep_process" not in running_commands()
    await engine.cleanup()


def running_commands() -> str:
    """Command lines of this process's children."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = (process / "stat").read_text().rpartition(")")[2].split()[1]
            found += [(process / "cmdline").read_text()] if parent == str(os.getpid()) else []
    return "\n".join(found)


async def test_what_the_other_process_says_comes_through(engine: LocalExecutionEnvironment, tmp_path: Path) -> None:
    (tmp_path / "é\udcff").write_text("“x”\u2028y\n")
    assert await engine.grep("(?=x)x", ".", GrepOptions()) == "é\ufffd:1:“x”\u2028y"
    with pytest.raises(ExecutionEnvironmentError, match="invalid regular expression"):
        await engine.grep("(?=x)(", ".", GrepOptions())
