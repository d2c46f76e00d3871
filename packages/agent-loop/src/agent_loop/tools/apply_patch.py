"""The apply_patch tool (section 3.4, appendix A): a patch over several files, applied wholly or not at all."""

from dataclasses import dataclass, field

import anyio

from agent_loop.environments.base import ExecutionEnvironment, absolute_path
from agent_loop.errors import ExecutionEnvironmentError, PathNotFoundError, ToolError
from agent_loop.text_encoding import NotTextError, detect_encoding
from agent_loop.tools.edit_lock import edit_lock
from agent_loop.tools.patch_application import HunkError, PatchedText, apply_hunks
from agent_loop.tools.patch_parser import AddFile, DeleteFile, Operation, PatchSyntaxError, UpdateFile, parse_patch
from agent_loop.tools.registry import Arguments, RegisteredTool, ToolDefinition

_NOTHING_CHANGED = "Nothing was changed."


async def apply_patch(arguments: Arguments, environment: ExecutionEnvironment) -> str:
    """Work out all files in memory first, then write them; if a write fails, those before it are undone."""
    try:
        operations = parse_patch(arguments["patch"])
    except PatchSyntaxError as error:
        raise ToolError(f"the patch can't be read: {error}. {_NOTHING_CHANGED}") from None
    plan = _Plan(environment)
    async with edit_lock():
        for operation in operations:
            try:
                await plan.add(operation)
            except (ToolError, ExecutionEnvironmentError, OSError, HunkError) as error:
                raise ToolError(f"{_describe(operation)}: {error}. {_NOTHING_CHANGED}") from None
        # What has begun is brought to its end, for an abort must not leave half a patch.
        with anyio.CancelScope(shield=True):
            await plan.carry_out()
    return "\n".join(["Applied the patch:", *plan.report])


def _describe(operation: Operation) -> str:
    match operation:
        case AddFile(path):
            return f"Add File {path}"
        case DeleteFile(path):
            return f"Delete File {path}"
        case UpdateFile(path, move_to):
            return f"Update File {path}" + (f" (Move to {move_to})" if move_to else "")


@dataclass(frozen=True, slots=True)
class _Write:
    """`before` is None for a file that doesn't exist yet."""

    path: str
    before: bytes | None
    after: bytes

    async def do(self, environment: ExecutionEnvironment) -> None:
        if self.before is None:
            if await environment.file_exists(self.path):
                raise ToolError(f"{self.path} has come into being in the meantime")
        elif await environment.read_bytes(self.path) != self.before:
            raise ToolError(f"{self.path} has changed in the meantime, or is in the patch under two names")
        await environment.write_bytes(self.path, self.after)

    async def undo(self, environment: ExecutionEnvironment) -> None:
        if self.before is None:
            await environment.delete_file(self.path)
        else:
            await environment.write_bytes(self.path, self.before)


@dataclass(frozen=True, slots=True)
class _Delete:
    path: str
    before: bytes

    async def do(self, environment: ExecutionEnvironment) -> None:
        await environment.delete_file(self.path)

    async def undo(self, environment: ExecutionEnvironment) -> None:
        await environment.write_bytes(self.path, self.before)


@dataclass(frozen=True, slots=True)
class _Move:
    source: str
    path: str

    async def do(self, environment: ExecutionEnvironment) -> None:
        await environment.move_file(self.source, self.path)

    async def undo(self, environment: ExecutionEnvironment) -> None:
        await environment.move_file(self.path, self.source)


@dataclass
class _Plan:
    """What to do to which file, and what each file will hold: None for one that won't be there."""

    environment: ExecutionEnvironment
    report: list[str] = field(default_factory=list)
    _steps: list[_Write | _Delete | _Move] = field(default_factory=list)
    _planned: dict[str, bytes | None] = field(default_factory=dict)

    async def add(self, operation: Operation) -> None:
        """Plan an operation on top of those before it. Changes nothing yet; raises if it can't be done."""
        match operation:
            case AddFile(path, added):
                await self._require_absent(path)
                self._write(path, None, "".join(f"{line}\n" for line in added).encode())
                self.report.append(f"A {path}")
            case DeleteFile(path):
                self._steps.append(_Delete(self._absolute(path), await self._read(path)))
                self._planned[self._absolute(path)] = None
                self.report.append(f"D {path}")
            case UpdateFile(path, move_to, hunks):
                before = await self._read(path)
                patched, after = _patch(operation, before)
                target = path
                if move_to is not None and self._absolute(move_to) != self._absolute(path):
                    await self._require_absent(move_to)
                    target = move_to
                    self._move(path, target, before)
                if hunks:
                    self._write(target, before, after)
                lines = f" (line {', '.join(map(str, patched.lines))})" if hunks else ""
                self.report.append(f"R {path} -> {target}{lines}" if target != path else f"M {path}{lines}")
                self.report += [f"  {remark}; check the result" for remark in patched.remarks]

    async def carry_out(self) -> None:
        """Do it. Raises ToolError when a step fails, with all steps before it undone."""
        for index, step in enumerate(self._steps):
            try:
                await step.do(self.environment)
            except Exception as error:  # Whatever it is: half a patch must not stay.
                left = await self._undo(self._steps[:index])
                state = f"These could not be undone: {', '.join(left)}" if left else _NOTHING_CHANGED
                raise ToolError(f"{step.path}: {error}. {state}") from None

    async def _undo(self, steps: list[_Write | _Delete | _Move]) -> list[str]:
        left = []
        for step in reversed(steps):
            try:
                await step.undo(self.environment)
            except Exception as error:
                left.append(f"{step.path} ({error})")
        return left

    def _write(self, path: str, before: bytes | None, after: bytes) -> None:
        path = self._absolute(path)
        self._steps.append(_Write(path, before, after))
        self._planned[path] = after

    def _move(self, source: str, target: str, content: bytes) -> None:
        source, target = self._absolute(source), self._absolute(target)
        self._steps.append(_Move(source, target))
        self._planned[source] = None
        self._planned[target] = content

    async def _read(self, path: str) -> bytes:
        absolute = self._absolute(path)
        if absolute not in self._planned:
            return await self.environment.read_bytes(absolute)
        content = self._planned[absolute]
        if content is None:
            raise PathNotFoundError("the patch has removed this file before")
        return content

    async def _require_absent(self, path: str) -> None:
        absolute = self._absolute(path)
        if absolute in self._planned:
            exists = self._planned[absolute] is not None
        else:
            exists = await self.environment.file_exists(absolute)
        if exists:
            raise ToolError(f"{path} exists already; change it with Update File, or delete it in the same patch before")

    def _absolute(self, path: str) -> str:
        return absolute_path(self.environment, path)


def _patch(operation: UpdateFile, data: bytes) -> tuple[PatchedText, bytes]:
    if not operation.hunks:
        return PatchedText("", (), ()), data
    try:
        encoding = detect_encoding(data)
    except NotTextError as error:
        raise ToolError(f"not a text file: {error}") from None
    patched = apply_hunks(encoding.decode(data), operation.hunks)
    try:
        return patched, encoding.encode(patched.text)
    except UnicodeEncodeError as error:
        raise ToolError(f"the file is encoded as {encoding.name}, which has no {error.object[error.start]!r}") from None


def _paths(arguments: Arguments) -> list[str]:
    try:
        operations = parse_patch(arguments["patch"])
    except PatchSyntaxError:
        return []
    paths = [operation.path for operation in operations]
    return paths + [one.move_to for one in operations if isinstance(one, UpdateFile) and one.move_to]


APPLY_PATCH = RegisteredTool(
    ToolDefinition(
        name="apply_patch",
        description="""\
Add, change, move and delete files with one patch, which is applied wholly or not at all. The format:

*** Begin Patch
*** Add File: path/new.py
+every line of the new file begins with a plus
*** Update File: path/old.py
*** Move to: path/renamed.py
@@ class Example:
@@     def method(self):
 context lines begin with a space
-a line to remove
+a line to put in its place
*** Delete File: path/obsolete.py
*** End Patch

"Move to" is optional. A hunk begins with @@, after which may follow a line of the file above the change, such as the \
head of the function or class; several such lines narrow down. Give three lines of context before and after a change, \
copied exactly; a hunk must match one place. "*** End of File" after a hunk says that it stands at the file's end. A \
hunk of + lines alone is put after the line named by @@, or at the end of the file. Paths are relative to the working \
directory.""",
        parameters={
            "type": "object",
            "properties": {
                "patch": {"type": "string", "description": "The patch, from *** Begin Patch to *** End Patch"}
            },
            "required": ["patch"],
        },
    ),
    apply_patch,
    writes=_paths,
)
