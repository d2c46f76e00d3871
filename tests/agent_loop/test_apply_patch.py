"""apply_patch on real files: wholly or not at all, and byte for byte (section 3.4, appendix A)."""

import os
import stat
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from agent_loop import LocalExecutionEnvironment, ToolError
from agent_loop.tools.apply_patch import APPLY_PATCH, apply_patch

Environment = LocalExecutionEnvironment


def patch_of(*lines: str) -> dict[str, str]:
    return {"patch": "\n".join(["*** Begin Patch", *lines, "*** End Patch"])}


def snapshot(root: Path) -> dict[str, bytes | None]:
    return {str(path.relative_to(root)): path.read_bytes() if path.is_file() else None for path in root.rglob("*")}


async def test_all_operations_in_one_patch(environment: Environment, tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_text("going\n")
    (tmp_path / "a.py").write_text("one\ntwo\nthree\n")
    (tmp_path / "b.py").write_text("import os\n")
    report = await apply_patch(
        patch_of(
            "*** Add File: new/deep/file.txt", "+hello", "+",
            "*** Delete File: old.txt",
            "*** Update File: a.py", "@@ one", "-two", "+2", " three",
            "*** Update File: b.py", "*** Move to: lib/c.py", "@@", "-import os", "+import sys",
        ),
        environment,
    )  # fmt: skip
    assert report == (
        "Applied the patch:\nA new/deep/file.txt\nD old.txt\nM a.py (line 2)\nR b.py -> lib/c.py (line 1)"
    )
    files = {name: data for name, data in snapshot(tmp_path).items() if data is not None}
    assert files == {"new/deep/file.txt": b"hello\n\n", "a.py": b"one\n2\nthree\n", "lib/c.py": b"import sys\n"}


async def test_later_operations_see_earlier_ones(environment: Environment, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1\n")
    (tmp_path / "b").write_text("old\n")
    await apply_patch(
        patch_of(
            "*** Update File: a", "-1", "+2",
            "*** Update File: ./a", "-2", "+3",
            "*** Delete File: b",
            "*** Add File: b", "+new",
            "*** Add File: c", "+x",
            "*** Update File: c", "*** Move to: d", "-x", "+y",
        ),
        environment,
    )  # fmt: skip
    assert snapshot(tmp_path) == {"a": b"3\n", "b": b"new\n", "d": b"y\n"}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["*** Update File: missing.txt", "-a", "+b"], "Update File missing.txt: no such file"),
        (["*** Delete File: missing.txt"], "Delete File missing.txt: no such file"),
        (["*** Update File: here.txt", "-something", "+else"], "line 3 of the patch matches nothing"),
        (["*** Update File: here.txt", "-a", "+b", "@@", "-nothing", "+x"], "line 5 of the patch matches nothing"),
        (["*** Add File: here.txt", "+new content"], "here.txt exists already"),
        (["*** Update File: source.txt", "*** Move to: here.txt", "-alpha", "+beta"], "here.txt exists already"),
        (["*** Update File: fifo", "-a", "+b"], "is a FIFO"),
        (["*** Delete File: fifo"], "is a FIFO"),
        (["*** Delete File: folder"], "is a directory"),
        (["*** Delete File: source.txt", "*** Update File: source.txt", "-alpha", "+b"], "has removed this file"),
        (["*** Update File: latin.txt", "-café", "+日本"], "encoded as latin-1"),
        (["*** Update File: binary", "-a", "+b"], "not a text file"),
        (["*** Add File: ../outside.txt", "+x"], "outside the working directory"),
        (["*** Update File: source.txt", "*** Move to: ../out.txt", "-alpha", "+b"], "outside the working directory"),
        (["*** Update File: link.txt", "*** Move to: moved.txt", "-a", "+b"], "is a symlink"),
        (["*** Update File: here.txt", "-a", "+b", "*** Update File: link.txt", "-a", "+c"], "under two names"),
    ],
)  # fmt: skip
async def test_nothing_is_changed_if_anything_fails(
    environment: Environment, tmp_path: Path, lines: list[str], message: str
) -> None:
    (tmp_path / "here.txt").write_text("a\n")
    (tmp_path / "source.txt").write_text("alpha\n")
    (tmp_path / "first.txt").write_text("first\n")
    (tmp_path / "latin.txt").write_bytes("café\n".encode("latin-1"))
    (tmp_path / "binary").write_bytes(b"a\0b\n")
    (tmp_path / "link.txt").symlink_to("here.txt")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    before = snapshot(tmp_path)
    with pytest.raises(ToolError, match=message) as raised:
        await apply_patch(
            patch_of(*lines, "*** Add File: a.txt", "+x", "*** Update File: first.txt", "-first", "+1st"), environment
        )
    assert str(raised.value).endswith("Nothing was changed.")
    assert snapshot(tmp_path) == before
    with pytest.raises(ToolError, match=message.replace("line 5", "line 8").replace("line 3", "line 6")):
        await apply_patch(patch_of("*** Add File: a.txt", "+x", "*** Delete File: first.txt", *lines), environment)
    assert snapshot(tmp_path) == before


async def test_failed_writes_are_undone(tmp_path: Path) -> None:
    class Failing(LocalExecutionEnvironment):
        async def write_bytes(self, path: str, data: bytes) -> None:
            if path.endswith("last"):
                raise OSError("disk full")
            await super().write_bytes(path, data)

    for name in ("changed", "gone", "moved", "last"):
        (tmp_path / name).write_text(f"{name}\n")
    before = snapshot(tmp_path)
    patch = patch_of(
        "*** Add File: new", "+x",
        "*** Update File: changed", "-changed", "+other",
        "*** Delete File: gone",
        "*** Update File: moved", "*** Move to: target", "-moved", "+here",
        "*** Update File: last", "-last", "+x",
    )  # fmt: skip
    with pytest.raises(ToolError, match=r"last: disk full\. Nothing was changed\."):
        await apply_patch(patch, Failing(tmp_path))
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_an_abort_leaves_no_half_patch(tmp_path: Path) -> None:
    class Watched(LocalExecutionEnvironment):
        async def write_bytes(self, path: str, data: bytes) -> None:
            await super().write_bytes(path, data)
            tasks.cancel_scope.cancel()
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(apply_patch, patch_of("*** Add File: a", "+1", "*** Add File: b", "+2"), Watched(tmp_path))
    assert snapshot(tmp_path) == {"a": b"1\n", "b": b"2\n"}


async def test_what_cannot_be_undone_is_said(tmp_path: Path) -> None:
    class Stuck(LocalExecutionEnvironment):
        async def write_bytes(self, path: str, data: bytes) -> None:
            if path.endswith("b"):
                raise OSError("disk full")
            await super().write_bytes(path, data)

        async def delete_file(self, path: str) -> None:
            raise OSError("stuck")

    with pytest.raises(ToolError, match=r"These could not be undone: .*/a \(stuck\)"):
        await apply_patch(patch_of("*** Add File: a", "*** Add File: b"), Stuck(tmp_path))


async def test_move_to_its_own_path_edits_in_place(environment: Environment, tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("a\n")
    report = await apply_patch(
        patch_of("*** Update File: notes.md", "*** Move to: ./notes.md", "-a", "+b"), environment
    )
    assert snapshot(tmp_path) == {"notes.md": b"b\n"}
    assert report.endswith("M notes.md (line 1)")


@pytest.mark.parametrize(
    ("before", "lines", "after"),
    [
        (b"line1\nline2\nline3", ["-line1", "+LINE1"], b"LINE1\nline2\nline3"),
        (b"\xef\xbb\xbfvalue = 1;\n", ["-value = 1;", "+value = 2;"], b"\xef\xbb\xbfvalue = 2;\n"),
        (b"# Caf\xe9\nprice: 5\nna\xefve\n", ["-price: 5", "+price: 7"], b"# Caf\xe9\nprice: 7\nna\xefve\n"),
        (b"a\r\n\tb\r\nc\r\n", [" a", "-\tb", "+\tB"], b"a\r\n\tB\r\nc\r\n"),
        ("a\nb\n".encode("utf-16"), ["-b", "+ü"], "a\nü\n".encode("utf-16")),
        (b"ok \xff \xc3\xa9\nb\n", ["-b", "+c"], b"ok \xff \xc3\xa9\nc\n"),
    ],
)  # fmt: skip
async def test_bytes_that_the_patch_does_not_name_stay(
    environment: Environment, tmp_path: Path, before: bytes, lines: list[str], after: bytes
) -> None:
    (tmp_path / "f").write_bytes(before)
    await apply_patch(patch_of("*** Update File: f", *lines), environment)
    assert (tmp_path / "f").read_bytes() == after


async def test_mode_and_link_stay(environment: Environment, tmp_path: Path) -> None:
    script = tmp_path / "s.sh"
    script.write_text("a\n")
    script.chmod(0o755)
    (tmp_path / "link").symlink_to("s.sh")
    await apply_patch(patch_of("*** Update File: link", "-a", "+b"), environment)
    assert (tmp_path / "link").is_symlink()
    await apply_patch(patch_of("*** Update File: s.sh", "*** Move to: t.sh", "-b", "+c"), environment)
    assert (tmp_path / "t.sh").read_text() == "c\n"
    assert stat.S_IMODE((tmp_path / "t.sh").stat().st_mode) == 0o755
    await apply_patch(patch_of("*** Update File: t.sh", "*** Move to: u.sh", "*** Delete File: u.sh"), environment)
    assert sorted(snapshot(tmp_path)) == ["link"]


async def test_deleting_a_link_spares_what_it_leads_to(environment: Environment, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a\n")
    (tmp_path / "link").symlink_to("f")
    await apply_patch(patch_of("*** Delete File: link"), environment)
    assert snapshot(tmp_path) == {"f": b"a\n"}


async def test_inexact_match_is_reported(environment: Environment, tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text("def f():\n    a = 1\n    return a\n")
    report = await apply_patch(
        patch_of("*** Update File: f.py", "   a = 1", "-   return a", "+   return 2"), environment
    )
    assert (tmp_path / "f.py").read_text() == "def f():\n    a = 1\n    return 2\n"
    assert report.endswith("  line 3: the hunk matched although white space differed; check the result")


async def test_unreadable_patch_is_an_error(environment: Environment) -> None:
    with pytest.raises(ToolError, match=r"the patch can't be read: line 1: .*Nothing was changed"):
        await apply_patch({"patch": "*** End Patch\n*** Begin Patch"}, environment)


def test_the_files_of_a_patch_are_known_beforehand() -> None:
    assert APPLY_PATCH.writes is not None
    patch = patch_of("*** Update File: a", "*** Move to: b", "*** Delete File: c")
    assert list(APPLY_PATCH.writes(patch)) == ["a", "c", "b"]
    assert list(APPLY_PATCH.writes({"patch": "nonsense"})) == []


@pytest.mark.parametrize("name", ["nul\0.txt", "half\ud800.txt", "loop/file.txt"])
async def test_an_impossible_name_leaves_no_half_of_a_patch(
    environment: Environment, tmp_path: Path, name: str
) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "first.txt").write_text("first\n")
    before = snapshot(tmp_path)
    patch = patch_of("*** Update File: first.txt", "-first", "+1st", f"*** Add File: {name}", "+x")
    with pytest.raises(ToolError, match=r"Nothing was changed\."):
        await apply_patch(patch, environment)
    assert snapshot(tmp_path) == before


async def test_a_tilde_is_the_home_directory_as_for_the_other_tools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    monkeypatch.setenv("HOME", str(home))
    patch = patch_of("*** Add File: ~/notes.txt", "+x")
    with pytest.raises(ToolError, match=r"outside the working directory"):
        await apply_patch(patch, LocalExecutionEnvironment(work))
    assert list(work.iterdir()) == []
    await apply_patch(patch, LocalExecutionEnvironment(work, writable_roots=[home]))
    assert (home / "notes.txt").read_text() == "x\n"
