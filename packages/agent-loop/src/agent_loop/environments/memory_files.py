"""Files that exist in memory only, in the virtual file system of `bashkit`. Calls block, each for a moment."""

import posixpath
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from agent_loop.environments.base import DirEntry
from agent_loop.environments.glob_patterns import SKIPPED_DIRECTORIES, glob_matcher, split_literal
from agent_loop.errors import ExecutionEnvironmentError, PathNotAllowedError, PathNotFoundError

if TYPE_CHECKING:
    from bashkit import FileSystem

Kind = Literal["file", "directory", "symlink", "special"]
_KINDS: dict[str, Kind] = {"file": "file", "directory": "directory", "symlink": "symlink"}
_MOST_LINKS = 40


@dataclass(frozen=True, slots=True)
class _Found:
    """A file that a walk came by. `relative` is its path below where the walk began."""

    relative: str
    path: str
    modified: float


class MemoryFiles:
    """The tree. Paths are absolute, and normalised."""

    def __init__(self, system: "FileSystem") -> None:
        self._system = system

    def kind(self, path: str) -> Kind | None:
        """What is there, None for nothing. A symlink is one."""
        try:
            return _KINDS.get(self._system.stat(path)["file_type"], "special")
        except RuntimeError:
            return None

    def resolve(self, path: str, *, follow_last: bool = True) -> str:
        """The path without symlinks, wherever it leads to. The file may be missing, and so may its parents."""
        done, links = "/", 0
        parts = path.split("/")[::-1]
        while parts:
            part = parts.pop()
            entry = posixpath.normpath(posixpath.join(done, part))
            if part in ("", ".", "..") or not (parts or follow_last) or self.kind(entry) != "symlink":
                done = entry
                continue
            links += 1
            if links > _MOST_LINKS:
                raise ExecutionEnvironmentError(f"{path} goes through too many symlinks")
            target = self._system.read_link(entry)
            parts += target.split("/")[::-1]
            done = "/" if target.startswith("/") else done
        return done

    def read(self, path: str) -> bytes:
        """All of a file. Raises PathNotFoundError, PathNotAllowedError."""
        resolved = self.resolve(path)
        self._require_file(resolved, path)
        return self._system.read_file(resolved)

    def write(self, resolved: str, data: bytes) -> None:
        """Create or replace. The path is resolved already. Raises PathNotAllowedError, ExecutionEnvironmentError."""
        kind = self.kind(resolved)
        if kind is None:
            self._make_directory(posixpath.dirname(resolved))
        elif kind != "file":
            raise PathNotAllowedError(f"{resolved} is {_named(kind)}, not a regular file")
        mode = None if kind is None else self._system.stat(resolved)["mode"]
        try:
            self._system.write_file(resolved, data)
        except RuntimeError as error:
            raise ExecutionEnvironmentError(f"{resolved} can't be written: {_reason(error)}") from None
        if mode is not None:
            self._system.chmod(resolved, mode)

    def delete(self, path: str) -> None:
        """A regular file, or a symlink itself."""
        if self.kind(path) != "symlink":
            self._require_file(path, path)
        self._system.remove(path)

    def move(self, source: str, target: str) -> None:
        """Rename a regular file; parents of the target are made."""
        self._require_file(source, source)
        if self.kind(target) is not None:
            raise PathNotAllowedError(f"{target} exists already")
        self._make_directory(posixpath.dirname(target))
        self._system.rename(source, target)

    def list_directory(self, path: str, depth: int) -> list[DirEntry]:
        """Entries by name, depth first; symlinks are listed, not followed."""
        return list(self._entries(self._directory(path), "", depth))

    def glob(self, pattern: str, path: str) -> list[str]:
        """Absolute paths of files, the newest first, by path where times are equal."""
        root = path
        self._directory(root)
        if pattern.startswith("/"):
            root, pattern = "/", pattern.lstrip("/")
        literal, rest = split_literal(pattern.removeprefix("./"))
        start = posixpath.normpath(posixpath.join(root, literal))
        if not rest:
            return [start] if self.kind(self.resolve(start)) == "file" else []
        matches = glob_matcher(rest)
        if self.kind(self.resolve(start)) != "directory":
            return []
        found = [one for one in self._walk(start, "", rest, follow=True) if matches(one.relative)]
        return [one.path for one in sorted(found, key=lambda one: (-one.modified, one.path))]

    def searchable(self, path: str) -> list[tuple[str, str]]:
        """The file itself, or the files below a directory, by path: each with its path relative to the directory."""
        match self.kind(self.resolve(path)):
            case "directory":
                return sorted((one.path, one.relative) for one in self._walk(path, "", "", follow=False))
            case "file":
                return [(path, posixpath.basename(path))]
            case None:
                raise PathNotFoundError(f"no such file or directory: {path}")
            case kind:
                raise PathNotAllowedError(f"{path} is {_named(kind)}, not a regular file")

    def require_directory(self, path: str) -> None:
        """Raises PathNotFoundError."""
        if self.kind(self.resolve(path)) != "directory":
            raise PathNotFoundError(f"the directory {path} to run in does not exist")

    def _walk(self, directory: str, prefix: str, pattern: str, *, follow: bool) -> Iterator[_Found]:
        for entry in self._system.read_dir(self.resolve(directory)):
            name, kind = entry["name"], entry["metadata"]["file_type"]
            path, relative = posixpath.join(directory, name), prefix + name
            if kind == "directory":
                if name not in SKIPPED_DIRECTORIES or name in pattern:
                    yield from self._walk(path, f"{relative}/", pattern, follow=follow)
            elif kind == "file":
                yield _Found(relative, path, entry["metadata"]["modified"])
            elif kind == "symlink" and follow:
                # One that leads in circles leads to no file.
                with suppress(ExecutionEnvironmentError):
                    if self.kind(resolved := self.resolve(path)) == "file":
                        yield _Found(relative, path, self._system.stat(resolved)["modified"])

    def _entries(self, resolved: str, prefix: str, depth: int) -> Iterator[DirEntry]:
        for entry in sorted(self._system.read_dir(resolved), key=lambda entry: str(entry["name"])):
            name = prefix + entry["name"]
            if entry["metadata"]["file_type"] == "directory":
                yield DirEntry(name, True)
                if depth > 1:
                    yield from self._entries(posixpath.join(resolved, entry["name"]), f"{name}/", depth - 1)
            else:
                yield DirEntry(name, False, entry["metadata"]["size"])

    def _directory(self, path: str) -> str:
        resolved = self.resolve(path)
        match self.kind(resolved):
            case "directory":
                return resolved
            case None:
                raise PathNotFoundError(f"no such directory: {path}")
            case _:
                raise PathNotAllowedError(f"{path} is not a directory")

    def _make_directory(self, path: str) -> None:
        if self.kind(path) == "directory":
            return
        try:
            self._system.mkdir(path, recursive=True)
        except RuntimeError as error:
            raise ExecutionEnvironmentError(f"the directory {path} can't be made: {_reason(error)}") from None

    def _require_file(self, resolved: str, path: str) -> None:
        kind = self.kind(resolved)
        if kind is None:
            raise PathNotFoundError(f"no such file: {path}")
        if kind != "file":
            raise PathNotAllowedError(f"{path} is {_named(kind)}, not a regular file")


def _named(kind: Kind) -> str:
    return {"directory": "a directory", "symlink": "a symlink"}.get(kind, "a special file")


def _reason(error: RuntimeError) -> str:
    return str(error).removeprefix("io error: ")
