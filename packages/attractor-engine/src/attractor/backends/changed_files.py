"""What an agent's tools changed in files, as a diff for whoever looks at the stage."""

import difflib
import posixpath
from io import StringIO

import anyio.to_thread
from agent_loop import ExecutionEnvironment, ExecutionEnvironmentError
from agent_loop.environments import EnvironmentWrapper

CHANGES_NAME = "changes.diff"
_MOST_BYTES = 256 * 1024
_MOST_FILES = 200


class ChangedFiles(EnvironmentWrapper):
    """An environment that remembers what files were like before the agent's tools wrote, moved or deleted them.

    What commands change isn't seen. `diff` is there after `cleanup()`, in unified form: of files over 256 KiB and of
    what isn't UTF-8 it says only that they changed, and beyond 200 files it stops.
    """

    def __init__(self, inner: ExecutionEnvironment) -> None:
        super().__init__(inner)
        self.diff = ""
        self._before: dict[str, bytes | None] = {}

    async def write_file(self, path: str, content: str) -> None:
        """See ExecutionEnvironment."""
        await self._remember(path)
        await super().write_file(path, content)

    async def write_bytes(self, path: str, data: bytes) -> None:
        """See ExecutionEnvironment."""
        await self._remember(path)
        await super().write_bytes(path, data)

    async def delete_file(self, path: str) -> None:
        """See ExecutionEnvironment."""
        await self._remember(path)
        await super().delete_file(path)

    async def move_file(self, source: str, target: str) -> None:
        """See ExecutionEnvironment."""
        await self._remember(source)
        await self._remember(target)
        await super().move_file(source, target)

    async def cleanup(self) -> None:
        """Make the diff while there are files to read, then clean up."""
        try:
            changes = [(path, before, await self._read(path)) for path, before in sorted(self._before.items())]
            self.diff = await anyio.to_thread.run_sync(_compare_all, self.working_directory(), changes)
        finally:
            await super().cleanup()

    async def _remember(self, path: str) -> None:
        place = posixpath.normpath(posixpath.join(self.working_directory(), path))
        if place not in self._before and len(self._before) < _MOST_FILES:
            self._before[place] = await self._read(place)

    async def _read(self, path: str) -> bytes | None:
        """None where there is no file, or none that may be read: the tool itself will say so."""
        try:
            return await self.read_bytes(path)
        except (ExecutionEnvironmentError, OSError):
            return None


def _compare_all(root: str, changes: list[tuple[str, bytes | None, bytes | None]]) -> str:
    parts = [_compare(posixpath.relpath(path, root), old, new) for path, old, new in changes if old != new]
    return "".join(parts)


def _compare(name: str, old: bytes | None, new: bytes | None) -> str:
    """The header names /dev/null for what is not there, as git does."""
    before = "/dev/null" if old is None else f"a/{name}"
    after = "/dev/null" if new is None else f"b/{name}"
    texts = _decode(old), _decode(new)
    if None in texts:
        return f"Files {before} and {after} differ\n"
    # Lines end at a line feed alone; what else splitlines() knows is part of a line.
    lines = [list(StringIO(text)) for text in texts if text is not None]
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        for line in difflib.unified_diff(lines[0], lines[1], before, after)
    )


def _decode(data: bytes | None) -> str | None:
    if data is not None and len(data) > _MOST_BYTES:
        return None
    try:
        return (data or b"").decode()
    except UnicodeDecodeError:
        return None
