"""Hunks on random files, against a model that knows which lines are meant (appendix A)."""

import pytest
from agent_loop.tools.patch_application import HunkError, apply_hunks
from agent_loop.tools.patch_parser import Hunk, UpdateFile, parse_patch
from hypothesis import assume, given
from hypothesis import strategies as st

ENDINGS = st.sampled_from(["\n", "\r\n"])


def hunks(body: str) -> tuple[Hunk, ...]:
    [operation] = parse_patch(f"*** Begin Patch\n*** Update File: f\n{body}\n*** End Patch")
    assert isinstance(operation, UpdateFile)
    return operation.hunks


def patch(text: str, body: str) -> str:
    return apply_hunks(text, hunks(body)).text


@st.composite
def edits(draw: st.DrawFn) -> tuple[list[str], list[tuple[int, int, list[str]]]]:
    """Lines that are all different, and replacements of ranges of them, ascending, with a line between any two."""
    count = draw(st.integers(1, 20))
    lines = [f"{draw(st.sampled_from(['', ' ', '    ', chr(9)]))}line {number}" for number in range(count)]
    found = []
    position = 0
    while position < count and len(found) < 4:
        start = draw(st.integers(position, count))
        end = draw(st.integers(start, min(count, start + 3)))
        added = draw(st.lists(st.text("abc *@+-\\", max_size=4), max_size=3))
        if start < count and (added or end > start):
            found.append((start, end, added))
        position = end + 2
    assume(found)
    return lines, found


def write_hunk(lines: list[str], start: int, end: int, added: list[str], before: int, after: int) -> str:
    rows = ["@@"]
    rows += [f" {line}" for line in lines[max(start - before, 0) : start]]
    rows += [f"-{line}" for line in lines[start:end]]
    rows += [f"+{line}" for line in added]
    rows += [f" {line}" for line in lines[end : end + after]]
    return "\n".join(rows)


@given(edits(), st.data(), ENDINGS, st.booleans())
def test_hunks_do_what_a_list_of_lines_would(
    example: tuple[list[str], list[tuple[int, int, list[str]]]], data: st.DataObject, ending: str, ended: bool
) -> None:
    lines, replacements = example
    text = ending.join(lines) + (ending if ended else "")
    ending = ending if "\n" in text else "\n"
    bodies = []
    expected = list(lines)
    for start, end, added in replacements:
        # A line of context at least, where nothing is removed; never one that the neighbouring hunk changes.
        before, after = (0, 1) if start == 0 else (1, data.draw(st.integers(0, 1)))
        bodies.append(write_hunk(lines, start, end, added, before, after))
    for start, end, added in reversed(replacements):
        expected[start:end] = added
    try:
        result = patch(text, "\n".join(data.draw(st.permutations(bodies))))
    except HunkError as error:
        # Two hunks may have a line of context in common.
        assert "changes too" in str(error)  # noqa: PT017
        return
    last_removed = not ended and any(
        end == len(lines) and end > start and not added for start, end, added in replacements
    )
    closing = ending if (ended or last_removed) and expected else ""
    assert result == ending.join(expected) + closing


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b", "", "  c", "x\u2028y", "z\x0c"]), ENDINGS), min_size=1, max_size=12)
)
def test_untouched_lines_keep_every_character(lines: list[tuple[str, str]]) -> None:
    lines.insert(len(lines) // 2, ("UNIQUE", "\n"))
    text = "".join(line + ending for line, ending in lines)
    assert patch(text, "@@\n-UNIQUE\n+changed") == text.replace("UNIQUE", "changed")


@given(
    st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=10),
    st.lists(st.sampled_from("abc"), min_size=1, max_size=3),
)
def test_a_hunk_without_hint_matches_one_place_or_is_refused(lines: list[str], old: list[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)
    places = [index for index in range(len(lines)) if lines[index : index + len(old)] == old]
    body = "@@\n" + "\n".join(f"-{line}" for line in old) + "\n+new"
    if len(places) == 1:
        expected = [*lines[: places[0]], "new", *lines[places[0] + len(old) :]]
        assert patch(text, body) == "".join(f"{line}\n" for line in expected)
    else:
        with pytest.raises(HunkError, match="several places" if places else "matches nothing"):
            patch(text, body)


@pytest.mark.parametrize(
    ("text", "body", "expected"),
    [
        ("line1\nline2\nline3", "@@\n-line1\n+LINE1\n line2", "LINE1\nline2\nline3"),
        ("a\nb", "@@\n-b\n+B", "a\nB"),
        ("a\nb", "@@\n b\n+c", "a\nb\nc"),
        ("a\r\nb", "@@\n+c", "a\r\nb\r\nc"),
        ("a\nb", "@@\n-b", "a\n"),
        ("", "@@\n+a", "a\n"),
        ("a\n", "@@\n-a", ""),
        ("a\r\nb\nc\r\n", "@@\n b\n+x\n c", "a\r\nb\nx\nc\r\n"),
    ],
)
def test_line_endings(text: str, body: str, expected: str) -> None:
    assert patch(text, body) == expected


def test_hint_is_taken_from_the_specifications_examples() -> None:
    text = (
        'DEFAULT_TIMEOUT = 30\n\ndef load_config():\n    config = {}\n    config["debug"] = False\n    return config\n'
    )
    body = (
        "@@ DEFAULT_TIMEOUT = 30\n-DEFAULT_TIMEOUT = 30\n+DEFAULT_TIMEOUT = 60\n"
        '@@ def load_config():\n     config = {}\n-    config["debug"] = False\n+    config["debug"] = True'
    )
    assert patch(text, body) == text.replace("30", "60").replace("False", "True")
    assert patch(
        "import os\nimport sys\nimport old_dep\n", "@@ import os\n import sys\n-import old_dep\n+import new_dep"
    ) == ("import os\nimport sys\nimport new_dep\n")


TWO = "class A:\n    def run(self):\n        return 1\n\nclass B:\n    def run(self):\n        return 1\n"


def test_hints_choose_between_places() -> None:
    changed = TWO[:-2] + "2\n"
    for hints in (
        "@@ class B:",
        "@@ class B:\n@@     def run(self):",
        "@@ class B:\n\n@@ def run",
        "@@ -5,3 +5,3 @@ class B:",
    ):
        assert patch(TWO, f"{hints}\n-        return 1\n+        return 2") == changed
    for hints in ("@@", "@@ def run(self):"):
        with pytest.raises(HunkError, match="several places"):
            patch(TWO, f"{hints}\n-        return 1\n+        return 2")
    with pytest.raises(HunkError, match="'class C:' after @@, which is not in the file"):
        patch(TWO, "@@ class C:\n-        return 1\n+        return 2")


def test_end_of_file_marker_chooses_the_last_place() -> None:
    assert patch("x\ny\nx\n", "@@\n-x\n+z\n*** End of File") == "x\ny\nz\n"
    assert patch("x\ny\n", "@@ x\n+z\n*** End of File") == "x\ny\nz\n"


def test_order_decides_between_exact_matches() -> None:
    assert patch("a\nx\nb\nx\n", "@@\n a\n-x\n+1\n@@\n-x\n+2") == "a\n1\nb\n2\n"


def test_hunks_in_any_order_land_where_they_match() -> None:
    assert (
        patch("alpha\nbeta\ngamma\ndelta\n", "@@\n+omega\n@@\n-beta\n+b1\n+b2")
        == "alpha\nb1\nb2\ngamma\ndelta\nomega\n"
    )


def test_insertion_goes_below_its_hint() -> None:
    assert patch("def f():\n    pass\n", "@@ def f():\n+    x = 1") == "def f():\n    x = 1\n    pass\n"
    with pytest.raises(HunkError, match="in several places"):
        patch("a\na\n", "@@ a\n+b")


def test_overlapping_hunks_are_refused() -> None:
    with pytest.raises(HunkError, match="changes lines that the hunk at line 3 changes too"):
        patch("a\nb\nc\n", "@@\n a\n-b\n+x\n@@\n-b\n+y\n c")


def test_an_empty_line_is_empty_context() -> None:
    text = 'PRIMARY={\n "a":1,\n\n "b":2,\n}\nBACKUP={\n "a":1,\n "b":2,\n}\n'
    body = '@@ PRIMARY={\n  "a":1,\n\n- "b":2,\n+ "b":99,'
    assert patch(text, body) == text.replace('"b":2', '"b":99', 1)
    assert patch(text, body.replace("@@ PRIMARY={", "@@")) == text.replace('"b":2', '"b":99', 1)


def test_inexact_match_keeps_context_and_indents_what_is_added() -> None:
    text = "def f():\n    a = 1\n    b = 2  \n    return a\n"
    done = apply_hunks(text, hunks("@@\n   a = 1\n-   b = 2\n+   b = 3\n+      c = 4\n    return a"))
    assert done.text == "def f():\n    a = 1\n    b = 3\n       c = 4\n    return a\n"
    assert done.remarks == ("line 3: the hunk matched although white space differed",)
    done = apply_hunks("say(“hi”)\nnext – one\n", hunks('@@\n say("hi")\n-next - one\n+next'))
    assert done.text == "say(“hi”)\nnext\n"
    assert "punctuation" in done.remarks[0]


def test_inexact_match_must_be_the_only_one() -> None:
    with pytest.raises(HunkError, match="several places"):
        patch("if a:\n  x()\nif b:\n    x()\n", "@@\n-x()\n+y()")
    with pytest.raises(HunkError, match="indentation"):
        patch("if a:\n    x()\n", "@@\n-x()\n+  y()")
    with pytest.raises(HunkError, match="matches nothing"):
        patch("a()\ny = 2\nb()\n", "@@\n a()\n-y = 99\n b()")


@pytest.mark.parametrize("new", [r"\1 \g<0> \n \\ %r{[/\\]}", "$& $1 $$", "@@ x", "*** End Patch", "+++ b"])
def test_what_is_added_is_literal(new: str) -> None:
    assert patch("a\n  b\nc\n", f"@@\n a\n-  b\n+{new}") == f"a\n{new}\nc\n"
    assert patch("a\n  b\nc\n", f"@@\n a\n-   b\n+   {new}") == f"a\n  {new}\nc\n"


@pytest.mark.parametrize("end", ["", "\n*** End of File"])
def test_an_empty_line_below_the_last_one_is_the_end_of_the_file(end: str) -> None:
    assert patch("a\nb\na\nb\n", f"@@\n a\n-b\n+c\n {end}") == "a\nb\na\nc\n"
    assert patch("a\nb\n\nd\n", "@@\n a\n-b\n+c\n ") == "a\nc\n\nd\n"
    with pytest.raises(HunkError, match="matches nothing"):
        patch("a\nb\nc\n", f"@@\n a\n-b\n+c\n {end}")


SPACES = "\u00a0\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"


@pytest.mark.parametrize("typed", ["‘’‚‛", "“”„‟", "‐‑‒–—―−", SPACES])
def test_typographic_characters_match_those_of_a_keyboard(typed: str) -> None:
    plain = {"‘": "'", "“": '"', "‐": "-", "\u00a0": " "}[typed[0]]
    for char in typed:
        assert patch(f"x{char}y\nold\n", f"@@\n x{plain}y\n-old\n+new") == f"x{char}y\nnew\n"
