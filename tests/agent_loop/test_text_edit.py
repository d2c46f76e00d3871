"""Exact replacement: which bytes change, and which never do."""

import os
import stat
from pathlib import Path

import pytest
from agent_loop import LocalExecutionEnvironment
from agent_loop.errors import PathNotAllowedError, PathNotFoundError, ToolError
from agent_loop.text_encoding import NotTextError, detect_encoding
from agent_loop.tools.edit import edit_file
from agent_loop.tools.files import read_file
from agent_loop.tools.text_edit import AmbiguousMatchError, NoMatchError, replace_text
from hypothesis import given
from hypothesis import strategies as st

PIECES = st.text(alphabet="ab \n", max_size=6)

Environment = LocalExecutionEnvironment


async def edit(environment: Environment, old: str, new: str, *, path: str = "file", every: bool = False) -> str:
    arguments = {"file_path": path, "old_string": old, "new_string": new, "replace_all": every}
    return await edit_file(arguments, environment)


@given(st.lists(st.sampled_from(["a", "b", " ", "\n"]), max_size=30), st.text("ab \n", min_size=1, max_size=4), PIECES)
def test_exact_match_is_plain_replacement(text: list[str], old: str, new: str) -> None:
    content = "".join(text)
    starts = [index for index in range(len(content)) if content.startswith(old, index)]
    if len(starts) == 1:
        assert replace_text(content, old, new).text == content.replace(old, new)
    elif starts:
        with pytest.raises(AmbiguousMatchError):
            replace_text(content, old, new)
        assert replace_text(content, old, new, replace_all=True).text == content.replace(old, new)


@given(st.lists(st.sampled_from(["a", "b", " ", "\n"]), max_size=30), st.text("ab \n", min_size=1, max_size=4), PIECES)
def test_crlf_file_behaves_like_the_same_file_with_lf(text: list[str], old: str, new: str) -> None:
    content = "".join(text)
    try:
        expected = replace_text(content, old, new).text.replace("\n", "\r\n")
    except LookupError as error:
        with pytest.raises(type(error)):
            replace_text(content.replace("\n", "\r\n"), old, new)
        return
    if "\n" in content:
        assert replace_text(content.replace("\n", "\r\n"), old, new).text == expected


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["\n", "\r\n"])), min_size=1, max_size=12), st.data())
def test_mixed_line_endings_stay_where_they_are(lines: list[tuple[str, str]], data: st.DataObject) -> None:
    chosen = data.draw(st.integers(0, len(lines) - 1))
    lines[chosen] = ("UNIQUE", lines[chosen][1])
    content = "".join(text + ending for text, ending in lines)
    assert replace_text(content, "UNIQUE", "x").text == content.replace("UNIQUE", "x")
    ending = lines[chosen][1]
    assert replace_text(content, "UNIQUE\n", "x\ny\n").text == content.replace(f"UNIQUE{ending}", f"x{ending}y{ending}")


@given(st.binary(max_size=60), st.binary(max_size=60))
async def test_bytes_around_an_edit_survive_whatever_they_are(before: bytes, after: bytes) -> None:
    data = before + b"UNIQUE" + after
    if data.count(b"UNIQUE") != 1:
        return
    try:
        encoding = detect_encoding(data)
        text = encoding.decode(data)
        if "UNIQUE" not in text:
            return
    except NotTextError:
        return
    assert encoding.encode(replace_text(text, "UNIQUE", "new").text) == before + b"new" + after


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        pytest.param(b"a\nb\nc", "a", "A", b"A\nb\nc", id="no final newline"),
        pytest.param(
            b"\xef\xbb\xbfconst value = 1;\n",
            "const value = 1;",
            "const value = 2;",
            b"\xef\xbb\xbfconst value = 2;\n",
            id="UTF-8 mark",
        ),
        pytest.param("\ufeffa\nb\n".encode("utf-16-le"), "b", "ü", "\ufeffa\nü\n".encode("utf-16-le"), id="UTF-16"),
        pytest.param(
            b"# Caf\xe9 menu\nprice: 5\nna\xefve dessert\n",
            "price: 5",
            "price: 7",
            b"# Caf\xe9 menu\nprice: 7\nna\xefve dessert\n",
            id="Latin-1",
        ),
        pytest.param(b"# Caf\xe9 menu\n", "Café", "Thé", b"# Th\xe9 menu\n", id="Latin-1 letters"),
        pytest.param(
            "é\n".encode() + b"\xff 5\n", "5", "7", "é\n".encode() + b"\xff 7\n", id="UTF-8 with a stray byte"
        ),
        pytest.param(b"a\r\n\tb\r\nc\r\n", "a\n\tb", "a\n\tB", b"a\r\n\tB\r\nc\r\n", id="LF words for a CRLF file"),
        pytest.param(b"a\r\nb\r\n", "b", "b\nc", b"a\r\nb\r\nc\r\n", id="new lines get the file's endings"),
        pytest.param(b"a\nb\n", "a\r\nb", "a\r\nc", b"a\nc\n", id="CRLF words for an LF file"),
        pytest.param(b"a\r\nb\r\n", "a\r\n", "a\n", b"a\nb\r\n", id="endings themselves can be edited"),
        pytest.param(b"x\x0cy\xe2\x80\xa8z\n", "y", "Y", b"x\x0cY\xe2\x80\xa8z\n", id="other line breaks are text"),
    ],
)
async def test_only_the_named_bytes_change(
    environment: Environment, tmp_path: Path, before: bytes, old: str, new: str, after: bytes
) -> None:
    (tmp_path / "file").write_bytes(before)
    await edit(environment, old, new)
    assert (tmp_path / "file").read_bytes() == after


@pytest.mark.parametrize("new", [r"\1 \g<0> \n \\ %r{[/\\]}", "$& $1 $$"])
@pytest.mark.parametrize("before", ["keep\nold value\n", "keep\nold  value\n"])
async def test_new_text_is_no_template(environment: Environment, tmp_path: Path, before: str, new: str) -> None:
    (tmp_path / "file").write_text(before)
    await edit(environment, "old value\n", new + "\n")
    assert (tmp_path / "file").read_text() == f"keep\n{new}\n"


@pytest.mark.parametrize("old", ["old", "missing"])
async def test_unclear_edits_change_nothing(environment: Environment, tmp_path: Path, old: str) -> None:
    (tmp_path / "file").write_text("old\nnew\nold\n")
    with pytest.raises(ToolError, match="nothing was changed"):
        await edit(environment, old, "x")
    assert (tmp_path / "file").read_text() == "old\nnew\nold\n"


async def test_ambiguity_is_told_with_lines(environment: Environment, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old\nnew\nold\n")
    with pytest.raises(ToolError, match=r"matches 2 places in file \(lines 1, 3\)"):
        await edit(environment, "old", "x")
    assert "2 replacements" in await edit(environment, "old", "x", every=True)
    assert (tmp_path / "file").read_text() == "x\nnew\nx\n"


def test_overlapping_occurrences_are_several() -> None:
    with pytest.raises(AmbiguousMatchError):
        replace_text("aaa", "aa", "b")


async def test_new_indentation_follows_the_file(environment: Environment, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("def f():\n    a = 1\n    b = 2\n    return a\n")
    said = await edit(
        environment, "   a = 1\n   b = 2\n   return a\n", "   a = 1\n   if a:\n      b = 3\n   return a\n"
    )
    assert "did not match exactly" in said
    assert (tmp_path / "file").read_text() == "def f():\n    a = 1\n    if a:\n       b = 3\n    return a\n"


async def test_lines_that_an_inexact_edit_keeps_are_left_alone(environment: Environment, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x = 'a' \t\ny =  2\nz = 3")
    await edit(environment, "x = 'a'\ny = 2\nz = 3", "x = 'a'\ny = 2\nz = 4")
    assert (tmp_path / "file").read_bytes() == b"x = 'a' \t\ny =  2\nz = 4"


async def test_typographic_punctuation_is_forgiven_and_kept(environment: Environment, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("He said “hello” – twice.\n")
    said = await edit(environment, 'said "hello" - twice', 'said "hello" - thrice')
    assert "punctuation" in said
    assert (tmp_path / "file").read_text() == "He said “hello” – thrice.\n"


@pytest.mark.parametrize(
    ("text", "old"),
    [
        (
            "func a() {\n\tx := 1\n\ty := 2\n\tz := 3\n\treturn\n}\n",
            "func a() {\n\tx := 1\n\ty := 99\n\tz := 3\n\treturn\n}\n",
        ),
        ("if a:\n    b\n", "if a:\n    c\n"),
        ("   \n\n", "\t\n"),
    ],
)
def test_no_more_than_white_space_and_punctuation_is_forgiven(text: str, old: str) -> None:
    with pytest.raises(NoMatchError):
        replace_text(text, old, "anything\n")


def test_inexact_match_in_two_places_is_refused() -> None:
    with pytest.raises(AmbiguousMatchError) as raised:
        replace_text("a  b\nc\na   b\n", "a b\n", "x\n")
    assert raised.value.lines == [1, 3]


def test_unknown_indentation_is_refused() -> None:
    with pytest.raises(LookupError, match="indentation"):
        replace_text("    a\n    b\n", "   a\n   b\n", "  a2\n  b2\n")


@pytest.mark.parametrize(("text", "new", "expected"), [("a  b\nc\n", "", "c\n"), ("c\na  b", "x\n", "c\nx")])
def test_inexact_match_at_the_ends(text: str, new: str, expected: str) -> None:
    assert replace_text(text, "a b\n", new).text == expected


@pytest.mark.parametrize("mode", [0o755, 0o600, 0o640])
async def test_mode_stays(environment: Environment, tmp_path: Path, mode: int) -> None:
    file = tmp_path / "file"
    file.write_text("old\n")
    file.chmod(mode)
    await edit(environment, "old", "new")
    assert stat.S_IMODE(file.stat().st_mode) == mode
    await environment.write_file("file", "other")
    assert stat.S_IMODE(file.stat().st_mode) == mode


async def test_symlink_stays_and_its_target_changes(environment: Environment, tmp_path: Path) -> None:
    (tmp_path / "target").write_text("old\n")
    (tmp_path / "file").symlink_to("target")
    await edit(environment, "old", "new")
    assert (tmp_path / "file").is_symlink()
    assert (tmp_path / "target").read_text() == "new\n"


async def test_hard_links_stay_together(environment: Environment, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old\n")
    os.link(tmp_path / "file", tmp_path / "twin")
    await edit(environment, "old", "new")
    assert (tmp_path / "twin").read_text() == "new\n"


async def test_no_other_file_is_left_behind(environment: Environment, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old\n")
    await edit(environment, "old", "new")
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


async def test_refusals_that_say_what_to_do(environment: Environment, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"caf\xe9")
    (tmp_path / "binary").write_bytes(b"\0\1")
    with pytest.raises(ToolError, match="use write_file"):
        await edit(environment, "", "x")
    with pytest.raises(ToolError, match="nothing to change"):
        await edit(environment, "x", "x")
    with pytest.raises(ToolError, match="has no '→'"):
        await edit(environment, "caf", "→")
    with pytest.raises(ToolError, match="not a text file"):
        await edit(environment, "a", "b", path="binary")
    with pytest.raises(PathNotFoundError, match="no such file"):
        await edit(environment, "a", "b", path="missing")
    assert (tmp_path / "file").read_bytes() == b"caf\xe9"


async def test_files_outside_are_not_edited(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "file").write_text("old\n")
    (inside / "link").symlink_to("../file")
    environment = LocalExecutionEnvironment(inside)
    for path in ("../file", str(tmp_path / "file"), "link"):
        with pytest.raises(PathNotAllowedError, match="outside"):
            await edit(environment, "old", "new", path=path)
    assert (tmp_path / "file").read_text() == "old\n"
    await edit(LocalExecutionEnvironment(inside, writable_roots=[tmp_path]), "old", "new", path="../file")
    await edit(LocalExecutionEnvironment(inside, allow_outside=True), "new", "newer", path="../file")
    assert (tmp_path / "file").read_text() == "newer\n"


async def test_stray_bytes_are_shown_as_replaced_and_stay_in_the_file(environment: Environment, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"ok \xff \xc3\xa9\nb\n")
    assert await read_file({"file_path": "file"}, environment) == "1 | ok \ufffd é\n2 | b"
    await edit(environment, "b", "c")
    assert (tmp_path / "file").read_bytes() == b"ok \xff \xc3\xa9\nc\n"
