"""What every ExecutionEnvironment must do (sections 4 and 5.4).

Each function in `ALL_CHECKS` takes a `Subject` with a fresh, initialized environment, and asserts. An implementation of
your own is tested by giving each of them to `run`; nothing here knows a particular environment. What an environment
can't do it declares in `lacks`, with the reason: then the checks that need it must fail, so that nothing is skipped in
silence and no declaration outlives its reason.
"""

import posixpath
import tempfile
import time
import tracemalloc
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import anyio
from agent_loop import ExecutionEnvironment, LocalExecutionEnvironment
from agent_loop.environments import (
    BinaryFileError,
    ExecutionEnvironmentError,
    GrepOptions,
    PathNotAllowedError,
    PathNotFoundError,
)


class Feature(StrEnum):
    """What an environment may lack."""

    WRITES = "file tools can change files"
    COMMANDS = "commands run"
    PROCESSES = "commands are processes, which can be seen, and left behind in the background"
    DAEMONS = "processes that leave their group are ended with the environment"
    SIGNALS = "a command is asked to end (SIGTERM) before it is made to (SIGKILL)"
    SYMLINKS = "files can be symbolic links"
    MODES = "files can be executable, and stay so"
    TIMES = "files have times of modification"
    DELTAS = "output is reported while the command still runs"
    FLOODS = "of output without end, the end is kept, and all of it is counted"
    BYTES = "output that is no UTF-8 is taken, its odd bytes replaced"
    LINE_BREAKS = "names of files may hold a line break"
    FIFOS = "a FIFO can be made"
    OUTSIDE = "files outside the working directory can be read"


@dataclass(frozen=True, kw_only=True)
class Commands:
    """What the checks run, for a POSIX shell. An environment that understands something else brings its own.

    Braces stand for what a check fills in: a file's name, or a mark that no other process has in its command line.
    """

    print_both: str = "echo out; echo err >&2; exit 3"
    unknown: str = "no-such-command-here"
    directory: str = "pwd"
    variable: str = 'printf "%s" "$GREETING"'
    stdin: str = "cat; echo end"
    read: str = "cat '{file}'"
    write: str = "printf '%s' 'text é' > '{file}'"
    odd_bytes: str = r"printf 'head\377\344tail\n'"
    beat: str = "echo before; while :; do echo beat >> '{file}'; sleep 0.1; done"
    spin: str = "while :; do :; done"
    wait_for: str = "echo 'first é'; until [ -e '{file}' ]; do sleep 0.05; done; echo second"
    flood: str = "echo first; yes 'flood of output' | head -c {size}; echo last"
    endless: str = "yes"
    tree: str = "echo before; sleep {mark} & sh -c 'sleep {mark}; :' & sleep {mark}; echo after"
    stubborn: str = "trap 'echo term' TERM; sleep {mark} & while :; do sleep 0.1; done"
    background: str = "sleep {mark} & echo started"
    daemon: str = "setsid sleep {mark} >/dev/null 2>&1 & echo started"
    link: str = "ln -s '{target}' '{file}'"
    is_link: str = "test -L '{file}'"
    fifo: str = "mkfifo '{file}'"
    make_executable: str = "chmod 755 '{file}'"
    is_executable: str = "test -x '{file}'"
    set_year: str = "touch -t {year}01010000 '{file}'"


Seed = Callable[[str, bytes], Awaitable[None]]
Count = Callable[[str], Awaitable[int]]


async def count_on_host(mark: str) -> int:
    """How many living processes of this machine, of whatever container, have the mark in their command line (Linux)."""
    return sum(_is_marked(process, mark.encode()) for process in Path("/proc").iterdir() if process.name.isdigit())


def _is_marked(process: Path, mark: bytes) -> bool:
    try:
        # A zombie has no command line.
        return mark in (process / "cmdline").read_bytes()
    except OSError:
        return False


@dataclass(frozen=True, kw_only=True)
class Subject:
    """An environment and what is known about it.

    `seed` puts a file there where `write_bytes` can't. `count` counts the living processes with a mark in their command
    line, which must see into the environment: each check proves first that it does. `lacks` says what the environment
    can't do, and why.
    """

    environment: ExecutionEnvironment
    seed: Seed | None = None
    count: Count = count_on_host
    commands: Commands = field(default_factory=Commands)
    lacks: Mapping[Feature, str] = field(default_factory=dict)

    async def put(self, path: str, data: bytes = b"") -> None:
        """Have a file with that content."""
        await (self.seed or self.environment.write_bytes)(path, data)

    async def do(self, command: str) -> str:
        """Run a command that must succeed."""
        result = await self.environment.exec_command(command, 20_000)
        assert (result.exit_code, result.timed_out) == (0, False), result
        return result.stdout


Check = Callable[[Subject], Awaitable[None]]
_needed: dict[Check, frozenset[Feature]] = {}


def needs(*features: Feature) -> Callable[[Check], Check]:
    """Declare what a check takes for granted."""

    def mark(check: Check) -> Check:
        _needed[check] = frozenset(features)
        return check

    return mark


async def run(check: Check, subject: Subject) -> None:
    """Run a check. One that needs what the subject lacks must fail."""
    lacking = sorted(_needed.get(check, frozenset()) & subject.lacks.keys())
    if not lacking:
        with anyio.fail_after(90):
            await check(subject)
        return
    try:
        with anyio.fail_after(1.5):
            await check(subject)
    except Exception:
        return
    raise AssertionError(f"declared as lacking ({', '.join(lacking)}), and yet {check.__name__} passes")


async def check_metadata(subject: Subject) -> None:
    """The contract is kept in form; what describes the place is there."""
    environment = subject.environment
    assert isinstance(environment, ExecutionEnvironment)
    assert posixpath.isabs(environment.working_directory())
    assert environment.platform() in ("darwin", "linux", "windows", "wasm")
    assert environment.os_version().strip()


# Files


@needs(Feature.WRITES)
async def check_text_and_bytes_come_back(subject: Subject) -> None:
    """What is written is read, byte for byte; text is UTF-8 and keeps its line ends; parents are made."""
    environment = subject.environment
    await environment.write_file("a/b/text", "é 你🙂\r\nlast")
    assert await environment.read_bytes("a/b/text") == "é 你🙂\r\nlast".encode()
    assert await environment.read_file("a/b/text") == "é 你🙂\r\nlast"
    data = bytes(range(256)) * 8192
    await environment.write_bytes("data", data)
    assert await environment.read_bytes("data") == data
    await environment.write_bytes("data", b"")
    assert await environment.read_bytes("data") == b""
    absolute = posixpath.join(environment.working_directory(), "a/b/text")
    assert await environment.read_file(absolute) == await environment.read_file("a/../a/b/text")


async def check_lines_of_a_file(subject: Subject) -> None:
    """`offset` counts from 1; a byte order mark is no text; what isn't text is refused."""
    environment = subject.environment
    await subject.put("file", b"\xef\xbb\xbfone\r\ntwo\nthree")
    assert await environment.read_file("file") == "one\r\ntwo\nthree"
    assert await environment.read_file("file", 2, 1) == "two\n"
    assert await environment.read_file("file", 3) == "three"
    assert await environment.read_file("file", 9, 2) == ""
    await subject.put("binary", b"\0\1\2\0")
    await _raises(BinaryFileError, environment.read_file("binary"))


async def check_errors_have_their_class(subject: Subject) -> None:
    """What is missing, and what is no file or no directory."""
    environment = subject.environment
    await subject.put("dir/file", b"x")
    await _raises(PathNotFoundError, environment.read_file("missing"))
    await _raises(PathNotFoundError, environment.read_bytes("missing/deep"))
    await _raises(PathNotFoundError, environment.read_bytes("dir/file/below"))
    await _raises(PathNotFoundError, environment.list_directory("missing"))
    await _raises(PathNotFoundError, environment.glob("*", "missing"))
    await _raises(PathNotFoundError, environment.grep("x", "missing", GrepOptions()))
    await _raises(PathNotAllowedError, environment.read_file("dir"))
    await _raises(PathNotAllowedError, environment.read_bytes("dir"))
    await _raises(PathNotAllowedError, environment.list_directory("dir/file"))
    await _raises(ExecutionEnvironmentError, environment.grep("(", ".", GrepOptions()))


@needs(Feature.WRITES)
async def check_delete_and_move(subject: Subject) -> None:
    """Files go and are renamed; nothing is ever overwritten by a move."""
    environment = subject.environment
    await environment.write_file("one", "1")
    await environment.write_file("two", "2")
    await environment.write_file("dir/file", "3")
    await environment.move_file("one", "new/deep/one")
    assert not await environment.file_exists("one")
    assert await environment.read_file("new/deep/one") == "1"
    await _raises(PathNotAllowedError, environment.move_file("two", "new/deep/one"))
    await _raises(PathNotAllowedError, environment.move_file("dir", "other"))
    await _raises(PathNotFoundError, environment.move_file("missing", "three"))
    assert (await environment.read_file("two"), await environment.read_file("new/deep/one")) == ("2", "1")
    await environment.delete_file("two")
    assert not await environment.file_exists("two")
    await _raises(PathNotFoundError, environment.delete_file("two"))
    await _raises(PathNotAllowedError, environment.delete_file("dir"))
    assert await environment.file_exists("dir/file")


ODD_NAMES = ["with space", "ünï你🙂", "quote'\"`$HOME;&|", "-dash", "~tilde", "back\\slash", "*[glob]?"]


async def check_names_are_taken_as_they_are(subject: Subject) -> None:
    """No name of a file means anything to a shell or to a pattern."""
    await _check_names(subject, ODD_NAMES)


@needs(Feature.LINE_BREAKS)
async def check_line_breaks_in_names(subject: Subject) -> None:
    """Nor does one of several lines."""
    await _check_names(subject, ["new\nline", "\n"])


async def _check_names(subject: Subject, names: list[str]) -> None:
    environment = subject.environment
    for name in names:
        await subject.put(f"odd/{name}", name.encode())
    for name in names:
        assert await environment.file_exists(f"odd/{name}"), name
        assert await environment.read_file(f"odd/{name}") == name
    assert [entry.name for entry in await environment.list_directory("odd")] == sorted(names)
    directory = posixpath.join(environment.working_directory(), "odd")
    assert sorted(await environment.glob("*", "odd")) == sorted(posixpath.join(directory, name) for name in names)


async def check_existence_and_listing(subject: Subject) -> None:
    """Entries by name, depth first, down to the depth asked for."""
    environment = subject.environment
    for path in ("b/c/deep", "b/file", "a", ".hidden"):
        await subject.put(path, b"12345")
    for path, there in (("a", True), ("b/c", True), (".", True), ("no", False), ("a/below", False)):
        assert await environment.file_exists(path) is there, path
    found = [(entry.name, entry.is_dir, entry.size) for entry in await environment.list_directory(".")]
    assert found == [(".hidden", False, 5), ("a", False, 5), ("b", True, None)]
    deep = [entry.name for entry in await environment.list_directory(".", 2)]
    assert deep == [".hidden", "a", "b", "b/c", "b/file"]
    assert [entry.name for entry in await environment.list_directory("b", 5)] == ["c", "c/deep", "file"]


@needs(Feature.WRITES, Feature.COMMANDS, Feature.MODES)
async def check_the_mode_stays(subject: Subject) -> None:
    """A script that is rewritten can still be run."""
    await subject.put("script", b"#!/bin/sh\n")
    await subject.do(subject.commands.make_executable.format(file="script"))
    await subject.environment.write_file("script", "#!/bin/sh\nexit 0\n")
    await subject.do(subject.commands.is_executable.format(file="script"))


@needs(Feature.WRITES, Feature.COMMANDS, Feature.SYMLINKS)
async def check_symlinks(subject: Subject) -> None:
    """They are followed by reading and writing, and stay; listing, deleting and moving mean the link itself."""
    environment = subject.environment
    await subject.put("dir/file", b"text")
    await _link(subject, "dir/file", "link")
    await _link(subject, "nowhere", "dangling")
    await _link(subject, "..", "dir/loop")
    assert await environment.read_file("link") == "text"
    await environment.write_file("link", "new")
    assert await environment.read_file("dir/file") == "new"
    await subject.do(subject.commands.is_link.format(file="link"))
    assert await environment.file_exists("dangling")
    await _raises(PathNotFoundError, environment.read_file("dangling"))
    entries = await environment.list_directory(".", 3)
    assert [(entry.name, entry.is_dir) for entry in entries] == [
        ("dangling", False),
        ("dir", True),
        ("dir/file", False),
        ("dir/loop", False),
        ("link", False),
    ]
    await _raises(PathNotAllowedError, environment.move_file("link", "other"))
    await environment.delete_file("link")
    assert await environment.read_file("dir/file") == "new"


@needs(Feature.WRITES, Feature.COMMANDS, Feature.SYMLINKS)
async def check_links_in_circles(subject: Subject) -> None:
    """One of them doesn't spoil what is done with a whole directory."""
    environment = subject.environment
    await subject.put("dir/file", b"text\n")
    await _link(subject, "two", "one")
    await _link(subject, "one", "two")
    await _link(subject, "../dir", "dir/again")
    assert await environment.glob("**/*", ".") == [posixpath.join(environment.working_directory(), "dir/file")]
    assert await environment.grep("text", ".", GrepOptions()) == "dir/file:1:text"
    for call in (environment.read_file("one"), environment.write_file("one", "x"), environment.read_file("one/below")):
        try:
            await call
        except (ExecutionEnvironmentError, OSError):
            continue
        raise AssertionError("a link that leads in circles was followed")
    await environment.delete_file("one")


@needs(Feature.COMMANDS, Feature.FIFOS)
async def check_a_fifo_holds_nobody_up(subject: Subject) -> None:
    """Whoever opens one waits for another side that may never come."""
    environment = subject.environment
    await subject.put("dir/file", b"text\n")
    await subject.do(subject.commands.fifo.format(file="dir/fifo"))
    with anyio.fail_after(20):
        assert await environment.grep("text", "dir", GrepOptions()) == "dir/file:1:text"
        await _raises(PathNotAllowedError, environment.grep("text", "dir/fifo", GrepOptions()))
        await _raises(PathNotAllowedError, environment.read_file("dir/fifo"))
        await _raises(PathNotAllowedError, environment.read_bytes("dir/fifo"))
        await _raises(PathNotAllowedError, environment.write_file("dir/fifo", "x"))


async def check_writing_outside_is_refused(subject: Subject) -> None:
    """File tools change nothing outside the working directory."""
    environment = subject.environment
    name = f"outside-{uuid.uuid4().hex}"
    outside = posixpath.join(posixpath.dirname(environment.working_directory()), name)
    await subject.put("file", b"x")
    for path in (outside, f"../{name}", f"/{name}", f"dir/../../{name}"):
        await _raises(PathNotAllowedError, environment.write_file(path, "x"))
        await _raises(PathNotAllowedError, environment.write_bytes(path, b"x"))
        await _raises(PathNotAllowedError, environment.move_file("file", path))
        await _raises(PathNotAllowedError, environment.delete_file(path))
    assert await environment.file_exists("file")
    for path in (outside, f"/{name}"):
        try:
            assert not await environment.file_exists(path)
        except PathNotAllowedError:
            # It may not even be looked at there.
            continue


@needs(Feature.COMMANDS, Feature.SYMLINKS)
async def check_no_symlink_leads_outside(subject: Subject) -> None:
    """Nor by a link that leads there."""
    environment = subject.environment
    name = f"outside-{uuid.uuid4().hex}"
    await subject.put("file", b"x")
    await _link(subject, "..", "up")
    await _link(subject, f"../{name}", "there")
    for path in (f"up/{name}", "there"):
        await _raises(PathNotAllowedError, environment.write_file(path, "x"))
    await _raises(PathNotAllowedError, environment.move_file("file", f"up/{name}"))
    await _raises(PathNotAllowedError, environment.delete_file(f"up/{name}"))
    assert await environment.file_exists("file")


@needs(Feature.OUTSIDE)
async def check_reading_outside(subject: Subject) -> None:
    """Tools read what lies elsewhere: the system's headers, another checkout."""
    assert await subject.environment.file_exists("/")
    assert await subject.environment.list_directory("/")
    assert await subject.environment.list_directory("..")


async def _link(subject: Subject, target: str, file: str) -> None:
    await subject.do(subject.commands.link.format(target=target, file=file))


async def _raises(kind: type[Exception], call: Awaitable[object]) -> None:
    """Exactly that class, and a sentence."""
    try:
        value = await call
    except ExecutionEnvironmentError as error:
        assert type(error) is kind or kind is ExecutionEnvironmentError, repr(error)  # noqa: PT017
        assert str(error).strip()  # noqa: PT017
    else:
        raise AssertionError(f"{kind.__name__} was expected, not {value!r}")


# Searching

SEARCHED = {
    "src/main.py": b"import os\n\ndef main():\n    return 'Needle'\n",
    "src/deep/other.py": b"# needle, needle\nx = 1\n",
    "src/crlf.txt": b"first\r\nneedle at the end\r\n",
    "notes.md": "a needle: é\n".encode(),
    "with space.md": b"nothing\n",
    ".hidden": b"needle\n",
    "binary": b"needle\0\n",
    "node_modules/skipped.js": b"needle\n",
    "long.txt": b"x" * 2_000 + b" needle " + b"y" * 2_000 + b"\n",
}
SEARCHES = [
    ("needle", ".", GrepOptions()),
    ("needle", ".", GrepOptions(case_insensitive=True)),
    ("needle", "src", GrepOptions(output_mode="files_with_matches")),
    ("needle", ".", GrepOptions(output_mode="count")),
    ("needle", ".", GrepOptions(glob_filter="*.py")),
    ("needle", ".", GrepOptions(glob_filter="!*.md")),
    ("needle", "src/main.py", GrepOptions(case_insensitive=True)),
    ("needle", ".", GrepOptions(max_results=2)),
    ("end$", ".", GrepOptions()),
    (r"^def \w+\(", ".", GrepOptions()),
    (r"need(?=le)", "src", GrepOptions()),
    ("nothing at all", ".", GrepOptions()),
]
GLOBS = [
    ("*.md", "."),
    ("**/*.py", "."),
    ("src/*.py", "."),
    ("*", "src"),
    ("**/*", "."),
    ("src/**/{main,other}.*", "."),
    ("[mn]*", "."),
    ("*.none", "."),
]


async def check_grep_finds_what_the_local_one_finds(subject: Subject) -> None:
    """The same lines in the same words and order."""
    await _check_as_local(
        subject, [lambda place, case=case: place.grep(case[0], case[1], case[2]) for case in SEARCHES]
    )


async def check_glob_finds_what_the_local_one_finds(subject: Subject) -> None:
    """The same files; their order is another check's."""

    async def names(place: ExecutionEnvironment, pattern: str, path: str) -> list[str]:
        found = await place.glob(pattern, path)
        return sorted(posixpath.relpath(name, place.working_directory()) for name in found)

    await _check_as_local(subject, [lambda place, case=case: names(place, case[0], case[1]) for case in GLOBS])


async def _check_as_local(
    subject: Subject, searches: list[Callable[[ExecutionEnvironment], Awaitable[object]]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        local = LocalExecutionEnvironment(folder)
        for path, data in SEARCHED.items():
            await local.write_bytes(path, data)
            await subject.put(path, data)
        for search in searches:
            assert await search(subject.environment) == await search(local)


@needs(Feature.COMMANDS, Feature.TIMES)
async def check_glob_has_the_newest_first(subject: Subject) -> None:
    """By time, and by path where times are equal."""
    years = {"b": 2001, "deep/a": 2003, "c": 2002, "d": 2002}
    for name, year in years.items():
        await subject.put(f"{name}.txt")
        await subject.do(subject.commands.set_year.format(year=year, file=f"{name}.txt"))
    found = await subject.environment.glob("**/*.txt", ".")
    directory = subject.environment.working_directory()
    assert [posixpath.relpath(path, directory) for path in found] == ["deep/a.txt", "c.txt", "d.txt", "b.txt"]


# Commands


@needs(Feature.COMMANDS)
async def check_output_and_exit_code(subject: Subject) -> None:
    """Both streams apart, the exit code, what it all came to."""
    result = await subject.environment.exec_command(subject.commands.print_both, 20_000)
    assert (result.stdout, result.stderr, result.exit_code) == ("out\n", "err\n", 3)
    assert not result.timed_out
    assert result.output_bytes == 8
    assert 0 <= result.duration_ms < 20_000
    assert (await subject.environment.exec_command(subject.commands.unknown, 20_000)).exit_code == 127


@needs(Feature.COMMANDS)
async def check_directory_and_variables(subject: Subject) -> None:
    """In the working directory, or where the call says; with the variables that it adds, for itself only."""
    environment, commands = subject.environment, subject.commands
    await subject.put("sub dir/é/file")
    home = environment.working_directory()
    assert await subject.do(commands.directory) == f"{home}\n"
    for path in ("sub dir/é", f"{home}/sub dir/é"):
        result = await environment.exec_command(commands.directory, 20_000, path)
        assert result.stdout == f"{home}/sub dir/é\n"
    await _raises(PathNotFoundError, environment.exec_command(commands.directory, 20_000, "missing"))
    value = 'it\'s "é"; $HOME `x`\nnext \\ line'
    result = await environment.exec_command(commands.variable, 20_000, None, {"GREETING": value})
    assert result.stdout == value
    assert await subject.do(commands.variable) == ""


@needs(Feature.COMMANDS)
async def check_stdin_is_empty(subject: Subject) -> None:
    """Who reads it finds the end at once."""
    assert await subject.do(subject.commands.stdin) == "end\n"


@needs(Feature.COMMANDS, Feature.WRITES)
async def check_commands_and_file_tools_see_the_same_files(subject: Subject) -> None:
    """Either reads what the other wrote."""
    await subject.environment.write_file("dir/é file", "written é\n")
    assert await subject.do(subject.commands.read.format(file="dir/é file")) == "written é\n"
    await subject.do(subject.commands.write.format(file="dir/other"))
    assert await subject.environment.read_file("dir/other") == "text é"


@needs(Feature.COMMANDS, Feature.BYTES)
async def check_output_that_is_no_text(subject: Subject) -> None:
    """Odd bytes are replaced, one by one."""
    assert await subject.do(subject.commands.odd_bytes) == "head��tail\n"


@needs(Feature.COMMANDS, Feature.DELTAS)
async def check_output_is_reported_as_it_comes(subject: Subject) -> None:
    """The command waits for a file that is made only when its first line has been reported."""
    pieces: list[str] = []
    reported = anyio.Event()

    def on_output(text: str) -> None:
        pieces.append(text)
        reported.set()

    async def answer() -> None:
        await reported.wait()
        await subject.put("go")

    command = subject.commands.wait_for.format(file="go")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(answer)
        result = await subject.environment.exec_command(command, 60_000, on_output=on_output)
        tasks.cancel_scope.cancel()
    assert not result.timed_out
    assert "".join(pieces) == result.stdout == "first é\nsecond\n"


@needs(Feature.COMMANDS)
async def check_calls_run_side_by_side(subject: Subject) -> None:
    """Many at once, each with its own variables and result."""

    async def call(number: int) -> None:
        variables = {"GREETING": f"number {number}"}
        result = await subject.environment.exec_command(subject.commands.variable, 60_000, None, variables)
        assert result.stdout == f"number {number}"

    async with anyio.create_task_group() as tasks:
        for number in range(6):
            tasks.start_soon(call, number)


@needs(Feature.COMMANDS)
async def check_a_flood_is_bounded(subject: Subject) -> None:
    """Of output without end, only so much is held in memory, and the call ends in time."""
    tracemalloc.start()
    try:
        result = await subject.environment.exec_command(subject.commands.endless, 1_500)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert result.timed_out or result.exit_code != 0
    assert result.duration_ms < 6_000
    assert 0 < len(result.stdout) < 17 << 20
    assert peak < 96 << 20


@needs(Feature.COMMANDS, Feature.FLOODS)
async def check_a_flood_keeps_its_end(subject: Subject) -> None:
    """Beginning and end are kept, what is missing is told, and everything is counted."""
    size = 40 << 20
    result = await subject.environment.exec_command(subject.commands.flood.format(size=size), 60_000)
    assert not result.timed_out
    assert result.stdout.startswith("first\n")
    assert result.stdout.endswith("last\n")
    assert result.output_bytes == size + len("first\nlast\n")
    assert len(result.stdout) < 17 << 20
    assert "left out" in result.stdout


# Ends


@needs(Feature.COMMANDS)
async def check_a_timeout_ends_the_command(subject: Subject) -> None:
    """It tells so, keeps what was printed, and nothing goes on."""
    result = await subject.environment.exec_command(subject.commands.beat.format(file="beats"), 600)
    assert result.timed_out
    assert result.exit_code != 0
    assert result.stdout == "before\n"
    assert 600 <= result.duration_ms < 5_000
    await _check_silence(subject)


@needs(Feature.COMMANDS)
async def check_a_timeout_ends_what_computes(subject: Subject) -> None:
    """Also a command that never waits, prints or gives way, and nothing else has to wait for it."""
    started = time.monotonic()
    ticks = 0
    async with anyio.create_task_group() as tasks:

        async def tick() -> None:
            nonlocal ticks
            while True:
                await anyio.sleep(0.02)
                ticks += 1

        tasks.start_soon(tick)
        result = await subject.environment.exec_command(subject.commands.spin, 800)
        tasks.cancel_scope.cancel()
    assert result.timed_out
    assert time.monotonic() - started < 5
    assert ticks > 5
    await subject.do(subject.commands.directory)


@needs(Feature.COMMANDS)
async def check_a_cancelled_call_ends_the_command(subject: Subject) -> None:
    """Within three seconds, and the environment works on."""
    beat = subject.commands.beat.format(file="beats")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(subject.environment.exec_command, beat, 600_000)
        await _wait(lambda: subject.environment.file_exists("beats"))
        cancelled = time.monotonic()
        tasks.cancel_scope.cancel()
    assert time.monotonic() - cancelled < 3
    await _check_silence(subject)
    await subject.do(subject.commands.directory)


async def _check_silence(subject: Subject) -> None:
    """Nobody writes to the file any more."""
    before = await subject.environment.read_bytes("beats")
    await anyio.sleep(0.5)
    assert before
    assert await subject.environment.read_bytes("beats") == before


@needs(Feature.PROCESSES)
async def check_a_timeout_leaves_no_process(subject: Subject) -> None:
    """Children and grandchildren go with the command."""
    mark = _new_mark()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_see, subject, mark, 3)
        result = await subject.environment.exec_command(subject.commands.tree.format(mark=mark), 2_000)
    assert result.timed_out
    assert result.stdout == "before\n"
    assert await subject.count(mark) == 0


@needs(Feature.PROCESSES)
async def check_a_cancelled_call_leaves_no_process(subject: Subject) -> None:
    """Within three seconds."""
    mark = _new_mark()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(subject.environment.exec_command, subject.commands.tree.format(mark=mark), 600_000)
        await _see(subject, mark, 3)
        cancelled = time.monotonic()
        tasks.cancel_scope.cancel()
    assert time.monotonic() - cancelled < 3
    assert await subject.count(mark) == 0


@needs(Feature.PROCESSES, Feature.SIGNALS)
async def check_who_ignores_the_request_to_end_is_killed(subject: Subject) -> None:
    """SIGTERM first, and SIGKILL two seconds later."""
    mark = _new_mark()
    result = await subject.environment.exec_command(subject.commands.stubborn.format(mark=mark), 1_000)
    assert result.timed_out
    assert "term" in result.stdout
    assert 3_000 <= result.duration_ms < 6_000
    assert await subject.count(mark) == 0


@needs(Feature.PROCESSES)
async def check_background_processes_end_with_the_environment(subject: Subject) -> None:
    """They hold no call, live until the last user's `cleanup()`, and no longer."""
    await _check_background(subject, subject.commands.background)


@needs(Feature.PROCESSES, Feature.DAEMONS)
async def check_daemons_end_with_the_environment(subject: Subject) -> None:
    """Also those that left their group and session."""
    await _check_background(subject, subject.commands.daemon)


async def _check_background(subject: Subject, command: str) -> None:
    environment, mark = subject.environment, _new_mark()
    await environment.initialize()
    result = await environment.exec_command(command.format(mark=mark), 10_000)
    assert (result.stdout, result.exit_code, result.timed_out) == ("started\n", 0, False)
    assert result.duration_ms < 8_000
    await _see(subject, mark, 1)
    await environment.cleanup()
    assert await subject.count(mark) >= 1
    await environment.cleanup()
    assert await subject.count(mark) == 0


async def check_cleanup_twice_is_harmless(subject: Subject) -> None:
    """A session that failed half-way may clean up what another has cleaned up."""
    await subject.environment.cleanup()
    await subject.environment.cleanup()


def _new_mark() -> str:
    """Seconds to sleep, of which no other process has as many."""
    return f"1{uuid.uuid4().int % 10**8:08}"


async def _see(subject: Subject, mark: str, number: int) -> None:
    """Wait for so many processes with that mark, so that seeing none later means something."""

    async def seen() -> bool:
        return await subject.count(mark) >= number

    await _wait(seen)


async def _wait(condition: Callable[[], Awaitable[bool]]) -> None:
    with anyio.fail_after(30):
        while not await condition():
            await anyio.sleep(0.02)


ALL_CHECKS: list[Check] = [
    check_metadata,
    check_text_and_bytes_come_back,
    check_lines_of_a_file,
    check_errors_have_their_class,
    check_delete_and_move,
    check_names_are_taken_as_they_are,
    check_line_breaks_in_names,
    check_existence_and_listing,
    check_the_mode_stays,
    check_symlinks,
    check_links_in_circles,
    check_a_fifo_holds_nobody_up,
    check_writing_outside_is_refused,
    check_no_symlink_leads_outside,
    check_reading_outside,
    check_grep_finds_what_the_local_one_finds,
    check_glob_finds_what_the_local_one_finds,
    check_glob_has_the_newest_first,
    check_output_and_exit_code,
    check_directory_and_variables,
    check_stdin_is_empty,
    check_commands_and_file_tools_see_the_same_files,
    check_output_that_is_no_text,
    check_output_is_reported_as_it_comes,
    check_calls_run_side_by_side,
    check_a_flood_is_bounded,
    check_a_flood_keeps_its_end,
    check_a_timeout_ends_the_command,
    check_a_timeout_ends_what_computes,
    check_a_cancelled_call_ends_the_command,
    check_a_timeout_leaves_no_process,
    check_a_cancelled_call_leaves_no_process,
    check_who_ignores_the_request_to_end_is_killed,
    check_background_processes_end_with_the_environment,
    check_daemons_end_with_the_environment,
    check_cleanup_twice_is_harmless,
]
