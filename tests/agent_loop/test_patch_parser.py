"""What is a patch, what is tolerated around it, and what is refused with its line (appendix A)."""

from contextlib import suppress

import pytest
from agent_loop.tools.patch_parser import AddFile, DeleteFile, Hunk, PatchSyntaxError, UpdateFile, parse_patch
from hypothesis import given
from hypothesis import strategies as st

BODY = "*** Update File: a.py\n@@ def f():\n keep\n-old\n+new\n"
PATCH = f"*** Begin Patch\n{BODY}*** End Patch\n"
HUNK = Hunk(("def f():",), ((" ", "keep"), ("-", "old"), ("+", "new")), at_end=False, line=3)


def test_every_operation() -> None:
    text = (
        "*** Begin Patch\n*** Add File: src/new.py\n+one\n+\n+  two\n*** Delete File: old.py\n"
        "*** Update File: a.py\n*** Move to: b.py\n@@ class A:\n@@   def f():\n keep\n-old\n+new\n@@\n+last\n"
        "*** End of File\n*** Update File: c d.py\n*** Move to: e.py\n*** End Patch"
    )
    assert parse_patch(text) == (
        AddFile("src/new.py", ("one", "", "  two")),
        DeleteFile("old.py"),
        UpdateFile(
            "a.py",
            "b.py",
            (
                Hunk(("class A:", "  def f():"), ((" ", "keep"), ("-", "old"), ("+", "new")), at_end=False, line=9),
                Hunk((), (("+", "last"),), at_end=True, line=14),
            ),
        ),
        UpdateFile("c d.py", "e.py", ()),
    )


@pytest.mark.parametrize(
    "text",
    [
        PATCH,
        PATCH.strip(),
        PATCH.replace("\n", "\r\n"),
        f" {PATCH}",
        f"*** Begin Patch  \n{BODY}  *** End Patch",
        PATCH.replace("*** Update", "  *** Update"),
        PATCH.replace("*** End", "\n\n*** End"),
    ],
)
def test_white_space_around_the_markers(text: str) -> None:
    [operation] = parse_patch(text)
    assert operation == UpdateFile("a.py", None, (HUNK,))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("<<'EOF'\n", "EOF\n"),
        ('<<"EOF"\n', "EOF"),
        ("apply_patch <<EOF\n", "EOF"),
        ("apply_patch\n", ""),
        ("bash -lc \"apply_patch <<'PATCH'\n", 'PATCH"\n'),
        ("```patch\n", "```\n"),
        ("```\napply_patch <<-'EOF'\n", "EOF\n```"),
    ],
)
def test_what_models_wrap_a_patch_in(before: str, after: str) -> None:
    [operation] = parse_patch(before + PATCH + after)
    assert isinstance(operation, UpdateFile)
    assert operation.hunks[0].lines == HUNK.lines


def test_markers_with_a_prefix_are_content() -> None:
    [operation] = parse_patch(
        "*** Begin Patch\n*** Update File: a\n@@\n *** End Patch\n-old tail\n+new tail\n+*** End Patch\n*** End Patch"
    )
    assert isinstance(operation, UpdateFile)
    assert operation.hunks[0].lines == (
        (" ", "*** End Patch"),
        ("-", "old tail"),
        ("+", "new tail"),
        ("+", "*** End Patch"),
    )


def test_first_hunk_without_a_header_and_unified_headers() -> None:
    [operation] = parse_patch(
        "*** Begin Patch\n*** Update File: a\n-x\n+y\n@@ -1,2 +3 @@ def f():\n+z\n@@ -1 +1 @@\n+w\n*** End Patch"
    )
    assert isinstance(operation, UpdateFile)
    assert [hunk.hints for hunk in operation.hunks] == [(), ("def f():",), ()]


def test_empty_lines_inside_a_hunk_are_context_and_at_its_end_are_not() -> None:
    [operation] = parse_patch("*** Begin Patch\n*** Update File: a\n@@\n x\n\n-y\n\n\n@@\n+z\n\n*** End Patch")
    assert isinstance(operation, UpdateFile)
    assert [hunk.lines for hunk in operation.hunks] == [((" ", "x"), (" ", ""), ("-", "y")), (("+", "z"),)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: there is no line"),
        ("*** Update File: a\n-x\n", "line 1: there is no line '... Begin Patch'"),
        ("*** Begin Patch\n*** Add File: a\n+x", "perhaps it was cut off"),
        (f"*** End Patch\n{PATCH}", "line 1: there is something before"),
        (f"Here you are:\n{PATCH}", "line 1: there is something before"),
        (PATCH + "-more\n", "line 8: there is something after"),
        (PATCH + PATCH, "line 8: there is something after"),
        ("*** Begin Patch\n*** End Patch", "holds no operation"),
        ("*** Begin Patch\nhello\n*** End Patch", "line 2: expected one of"),
        ("*** Begin Patch\n*** Add File: \n*** End Patch", "line 2: .* lacks a path"),
        ("*** Begin Patch\n*** Add File: a\n+x\ny\n*** End Patch", "line 4: every line of an added file"),
        ("*** Begin Patch\n*** Delete File: a\n-x\n*** End Patch", "line 3: expected one of"),
        ("*** Begin Patch\n*** Update File: a\n*** End Patch", "line 2: .* has no hunks"),
        ("*** Begin Patch\n*** Update File: a\n@@\nx\n*** End Patch", "line 4: a line of a hunk begins with"),
        ("*** Begin Patch\n*** Update File: a\n@@\n x\n*** End Patch", "line 3: the hunk neither adds"),
        ("*** Begin Patch\n*** Update File: a\n@@ x\n*** End Patch", "line 3: the hunk neither adds"),
        ("*** Begin Patch\n*** Update File: a\n*** Frobnicate\n*** End Patch", "line 3: .* can't stand here"),
        ("*** Begin Patch\n*** Update File: a\n+x\n*** Move to: b\n*** End Patch", "line 4: .* can't stand here"),
    ],
)
def test_anything_else_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(PatchSyntaxError, match=message):
        parse_patch(text)


@given(st.lists(st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]), max_size=8), max_size=6))
def test_added_lines_come_back_as_they_are(lines: list[str]) -> None:
    text = "\n".join(["*** Begin Patch", "*** Add File: a", *(f"+{line}" for line in lines), "*** End Patch"])
    assert parse_patch(text) == (AddFile("a", tuple(lines)),)


@given(
    st.lists(
        st.sampled_from(
            [
                "*** Begin Patch",
                "*** End Patch",
                "*** Add File: a",
                "*** Update File: a",
                "*** Move to: b",
                "*** Delete File: a",
                "@@",
                "@@ x",
                "+a",
                "-b",
                " c",
                "",
                "*** End of File",
                "EOF",
                "```",
            ]
        ),
        max_size=12,
    )
)
def test_nonsense_is_parsed_or_refused_but_never_hangs_or_crashes(lines: list[str]) -> None:
    with suppress(PatchSyntaxError):
        assert parse_patch("\n".join(lines))
