"""Work that may never end, in a process that can be killed: a regular expression, a program of jq.

Both come from a model, and neither can be interrupted within a thread. The process reads what to do, pickled, from
stdin, and writes its answer to stdout.
"""

import json
import pickle
import posixpath
import shlex
import sys
from dataclasses import dataclass
from pathlib import PurePosixPath

from agent_loop.environments.base import GrepOptions
from agent_loop.environments.glob_patterns import glob_filter
from agent_loop.environments.local_search import compile_pattern, format_results, match_lines, shown_path
from agent_loop.errors import ExecutionEnvironmentError

if sys.platform != "win32":
    import resource

# Whoever started this may be killed itself. Longer than any command may take.
_MOST_SECONDS = 900
_STDIN = "/.stdin"
# The path of this process, so that the other one finds the very same packages.
_PROGRAM = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from {} import main; main()"


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """A regular expression in files: each with its path, its path below the directory searched, and its content."""

    pattern: str
    options: GrepOptions
    base: str
    files: list[tuple[str, str, bytes]]
    filtered: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A call of jq with the files that it names."""

    arguments: list[str]
    directory: str
    stdin: str | None
    files: dict[str, bytes]


@dataclass(frozen=True, slots=True)
class Answer:
    """What jq printed, or what the search found, as stdout. `stderr` says what is wrong if the exit code isn't 0."""

    stdout: str
    stderr: str = ""
    exit_code: int = 0


def arguments() -> list[str]:
    """The program to run, with `pickle.dumps` of a Search or Query as its stdin. It prints a pickled Answer."""
    return [sys.executable, "-I", "-c", _PROGRAM.format(__name__), json.dumps(sys.path)]


def search(task: Search) -> Answer:
    """Raises ExecutionEnvironmentError for a pattern that is none."""
    expression = compile_pattern(task.pattern, task.options)
    selects = glob_filter(task.options.glob_filter) if task.options.glob_filter and task.filtered else None
    found: list[str] = []
    total = 0
    for path, relative, data in task.files:
        if selects is not None and not selects(PurePosixPath(relative)):
            continue
        shown = shown_path(PurePosixPath(path), PurePosixPath(task.base))
        for line in match_lines(data, expression, shown, task.options):
            total += 1
            if len(found) < task.options.max_results:
                found.append(line)
        if total > task.options.max_results:
            break
    return Answer(format_results(found, total, task.options))


def query(task: Query) -> Answer:
    """Run jq as the shell would have."""
    # Optional, and no search needs this import.
    from bashkit import Bash, FileSystem

    system = FileSystem()
    for path, data in {**task.files, **({} if task.stdin is None else {_STDIN: task.stdin.encode()})}.items():
        if not system.exists(posixpath.dirname(path)):
            system.mkdir(posixpath.dirname(path), recursive=True)
        system.write_file(path, data)
    if not system.exists(task.directory):
        system.mkdir(task.directory, recursive=True)
    shell = Bash(cwd=task.directory)
    shell.mount("/", system)
    stdin = f" < {_STDIN}" if task.stdin is not None else ""
    result = shell.execute_sync(shlex.join(["jq", *task.arguments]) + stdin)
    return Answer(result.stdout, result.stderr, result.exit_code)


def main() -> None:
    """Do what stdin says."""
    if sys.platform != "win32":
        resource.setrlimit(resource.RLIMIT_CPU, (_MOST_SECONDS, _MOST_SECONDS))
    task = pickle.load(sys.stdin.buffer)
    try:
        answer = search(task) if isinstance(task, Search) else query(task)
    except ExecutionEnvironmentError as error:
        answer = Answer("", str(error), 1)
    sys.stdout.buffer.write(pickle.dumps(answer))
