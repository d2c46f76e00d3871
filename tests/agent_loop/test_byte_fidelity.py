"""Edits of random files through the tools, against a list of lines: what isn't named keeps every byte."""

import codecs
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest
from agent_loop import LocalExecutionEnvironment
from agent_loop.tools.apply_patch import apply_patch
from agent_loop.tools.edit import edit_file
from hypothesis import given, settings
from hypothesis import strategies as st

ENCODINGS = {
    "utf-8": ("utf-8", b"", "aé日 \t\x0c\x85\u2028'“"),
    "utf-8 with a mark": ("utf-8", codecs.BOM_UTF8, "aé日 \t'“"),
    "utf-16-le": ("utf-16-le", codecs.BOM_UTF16_LE, "aé日 \t'“"),
    "utf-16-be": ("utf-16-be", codecs.BOM_UTF16_BE, "aé日 \t'“"),
    "latin-1": ("latin-1", b"", "aéÿ \t"),
}


@dataclass(frozen=True)
class Example:
    """A file, which of its lines is replaced, by what, and how it is written down."""

    lines: tuple[str, ...]
    endings: tuple[str, ...]
    changed: int
    added: tuple[str, ...]
    encoding: str
    mode: int
    linked: bool

    def data(self, lines: list[tuple[str, str]]) -> bytes:
        name, mark, _ = ENCODINGS[self.encoding]
        return mark + "".join(line + ending for line, ending in lines).encode(name)

    @property
    def before(self) -> bytes:
        return self.data(list(zip(self.lines, self.endings, strict=True)))

    @property
    def after(self) -> bytes:
        """New lines end as the one that they stand for; the last one of a file without a final line break doesn't."""
        ending = self.endings[self.changed]
        inner = ending or (self.endings[self.changed - 1] if self.changed else "\n")
        new = [(line, inner) for line in self.added[:-1]] + [(self.added[-1], ending)]
        lines = list(zip(self.lines, self.endings, strict=True))
        return self.data(lines[: self.changed] + new + lines[self.changed + 1 :])


@st.composite
def examples(draw: st.DrawFn) -> Example:
    encoding = draw(st.sampled_from(list(ENCODINGS)))
    letters = ENCODINGS[encoding][2]
    words = draw(st.lists(st.text(letters, max_size=5), min_size=1, max_size=8))
    # Different from each other in what no comparison forgives; in Latin-1, with a byte that is no UTF-8.
    sign = "é" if encoding == "latin-1" else ""
    lines = [f"{word}{sign}#{number}" for number, word in enumerate(words)]
    endings = draw(st.lists(st.sampled_from(["\n", "\r\n"]), min_size=len(lines), max_size=len(lines)))
    if draw(st.booleans()):
        endings[-1] = ""
    added = draw(st.lists(st.text(letters, max_size=4).map(lambda text: f"+{text}"), min_size=1, max_size=3))
    return Example(
        lines=tuple(lines),
        endings=tuple(endings),
        changed=draw(st.integers(0, len(lines) - 1)),
        added=tuple(added),
        encoding=encoding,
        mode=draw(st.sampled_from([0o644, 0o600, 0o755])),
        linked=draw(st.booleans()),
    )


async def edit(tool: str, example: Example, environment: LocalExecutionEnvironment) -> None:
    old = example.lines[example.changed]
    if tool == "edit_file":
        arguments = {"file_path": "name", "old_string": old, "new_string": "\n".join(example.added)}
        await edit_file(arguments, environment)
        return
    context = [f" {line}" for line in example.lines[max(example.changed - 1, 0) : example.changed]]
    rows = ["*** Begin Patch", "*** Update File: name", "@@", *context, f"-{old}"]
    rows += [*(f"+{line}" for line in example.added), "*** End Patch"]
    await apply_patch({"patch": "\n".join(rows)}, environment)


@pytest.mark.parametrize("tool", ["edit_file", "apply_patch"])
@settings(max_examples=80, deadline=None)
@given(example=examples())
def test_a_line_is_replaced_and_nothing_else(tool: str, example: Example) -> None:
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / ("target" if example.linked else "name")
        file.write_bytes(example.before)
        file.chmod(example.mode)
        if example.linked:
            (Path(directory) / "name").symlink_to("target")
        anyio.run(edit, tool, example, LocalExecutionEnvironment(directory))
        assert file.read_bytes() == example.after
        assert stat.S_IMODE(file.stat().st_mode) == example.mode
        assert (Path(directory) / "name").is_symlink() == example.linked
