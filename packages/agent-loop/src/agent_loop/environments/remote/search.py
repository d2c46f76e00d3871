"""Searching elsewhere, with the results that searching here has."""

import posixpath
import re
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import PurePosixPath
from typing import IO

import anyio.to_thread

from agent_loop.environments.base import GrepOptions
from agent_loop.environments.glob_patterns import SKIPPED_DIRECTORIES, glob_filter, glob_matcher, split_literal
from agent_loop.environments.local_search import (
    compile_pattern,
    format_results,
    match_lines,
    ripgrep_arguments,
    ripgrep_output,
    shown_path,
)
from agent_loop.environments.remote import scripts
from agent_loop.environments.remote.files import Entry, script_error, walk_depth
from agent_loop.environments.remote.shell import Shell

_MAX_IN_MEMORY = 16 << 20
# A pattern that is nothing but text.
_PLAIN = re.compile(r"[\w /\"'=<>,:;@#%&!~-]+", re.ASCII)
_PLAIN_NAME = re.compile(r"[\w.*? -]+", re.ASCII)


def pruned(pattern: str) -> list[str]:
    """Of find: leave out what no one searches, unless the pattern names it. Another condition follows."""
    names = [name for name in sorted(SKIPPED_DIRECTORIES) if name not in pattern]
    choice = [word for name in names for word in ("-o", "-name", name)][1:]
    return ["-type", "d", "(", *choice, ")", "-prune", "-o"] if names else []


class Glob:
    """A glob pattern below a directory: where to walk, and which of the files found match."""

    def __init__(self, pattern: str, directory: str) -> None:
        self.directory = "/" if pattern.startswith("/") else directory
        self.below, self._rest = split_literal(pattern.lstrip("/").removeprefix("./"))
        if not self._rest:
            self.below, _, self._rest = self.below.rpartition("/")
        self._matches = glob_matcher(self._rest)

    def expression(self) -> list[str]:
        """Of find."""
        depth = None if "**" in self._rest else self._rest.count("/") + 1
        return [*walk_depth(depth), *pruned(self._rest)]

    def found(self, entries: Sequence[Entry]) -> list[str]:
        """Absolute paths, the most recently modified first."""
        files = [entry for entry in entries if entry.is_file and self._matches(entry.path)]
        files.sort(key=lambda entry: entry.path)
        files.sort(key=lambda entry: entry.modified, reverse=True)
        start = posixpath.normpath(posixpath.join(self.directory, self.below))
        return [posixpath.join(start, entry.path) for entry in files]


async def search_files(shell: Shell, pattern: str, target: str, base: str, options: GrepOptions) -> str:
    """As `grep` of an environment does, below `target`; results are named relative to `base`."""
    if shell.place.has_ripgrep:
        code, output, _ = await shell.script(scripts.RIPGREP, target, *ripgrep_arguments(pattern, ".", options)[:-1])
        if code in (scripts.MISSING, scripts.FIFO, scripts.SOCKET, scripts.DEVICE):
            raise script_error(code, target)
        if code <= 1 or output:
            directory = PurePosixPath(target if output.startswith(b"./") else posixpath.dirname(target))
            return ripgrep_output(output.decode(errors="replace"), directory, PurePosixPath(base), options)
    search = Collection(pattern, target, options)
    with tempfile.SpooledTemporaryFile(max_size=_MAX_IN_MEMORY) as archive:
        await shell.output(scripts.COLLECT, *search.arguments(), receive=archive.write)
        return await anyio.to_thread.run_sync(lambda: search.results(archive, base))


class Collection:
    """A search in files that are brought here: where no ripgrep is, or it can't do the pattern.

    Raises ExecutionEnvironmentError for a pattern that is none.
    """

    def __init__(self, pattern: str, target: str, options: GrepOptions) -> None:
        self._expression = compile_pattern(pattern, options)
        self._target = target
        self._options = options
        self._pattern = pattern

    def arguments(self) -> list[str]:
        """Of `scripts.COLLECT`. As few files as can be told from there."""
        options = self._options
        # Beyond ASCII there are letters that count as others when case is ignored.
        text = self._pattern if _PLAIN.fullmatch(self._pattern) and not options.case_insensitive else ""
        wanted = options.glob_filter
        names = ["-name", wanted] if wanted and _PLAIN_NAME.fullmatch(wanted) else []
        return [self._target, text, *pruned(""), *names]

    def results(self, archive: IO[bytes], base: str) -> str:
        """What ripgrep would print. Blocking."""
        if archive.tell() == 0:
            return ""
        archive.seek(0)
        found = self._lines(archive, PurePosixPath(base))
        lines = list(islice(found, self._options.max_results))
        return format_results(lines, len(lines) + len(list(islice(found, 1))), self._options)

    def _lines(self, archive: IO[bytes], base: PurePosixPath) -> Iterator[str]:
        selects = glob_filter(self._options.glob_filter) if self._options.glob_filter else None
        with tarfile.open(fileobj=archive, mode="r:", ignore_zeros=True) as files:
            for member in sorted(files, key=lambda member: member.name):
                path = PurePosixPath(self._target)
                # What has another name is the target itself, which no filter leaves out.
                if member.name.startswith("./"):
                    if selects is not None and not selects(PurePosixPath(member.name)):
                        continue
                    path /= member.name
                file = files.extractfile(member)
                if file is not None:
                    yield from match_lines(file.read(), self._expression, shown_path(path, base), self._options)
