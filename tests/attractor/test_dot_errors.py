"""What can't be read is refused with its place, its line, a caret and a hint."""

import pytest
from attractor.dot import parse_dot
from attractor.dot.lexer import MAX_DEPTH
from attractor.errors import DotSyntaxError


def error_of(source: str | bytes, file_name: str = "") -> DotSyntaxError:
    with pytest.raises(DotSyntaxError) as caught:
        parse_dot(source, file_name)
    return caught.value


def test_golden_rendering() -> None:
    error = error_of('digraph G {\n\ta -> b\n\tb [label="say "hi" now"]\n}\n', "flow.dot")
    assert str(error) == (
        "flow.dot:3:17: the string of label ends before this\n"
        '    \tb [label="say "hi" now"]\n'
        "    \t               ^\n"
        '  hint: a double quote inside a string is written \\"'
    )
    assert (error.line, error.column, error.source_line) == (3, 17, '\tb [label="say "hi" now"]')


def test_golden_rendering_without_hint_or_file() -> None:
    assert str(error_of("digraph { -> b }")) == (
        "<dot>:1:11: no node stands before this arrow\n    digraph { -> b }\n              ^"
    )


@pytest.mark.parametrize(
    ("source", "place", "message", "hint"),
    [
        # refused on purpose
        ("graph G { a -- b }", (1, 1), "undirected graphs", "digraph"),
        ("digraph G { a -- b }", (1, 15), "undirected edges", "->"),
        ("strict digraph G {}", (1, 1), "strict graphs", "remove"),
        ("digraph A {}\ndigraph B {}", (2, 1), "one graph", "file of its own"),
        ("digraph { a [label=<b>x</b>] }", (1, 20), "HTML", "double quotes"),
        ("digraph { label = <x> }", (1, 19), "HTML", "double quotes"),
        ("digraph { a:n -> b }", (1, 12), "ports", "quote"),
        ("digraph { a -> b:n:ne }", (1, 17), "ports", "quote"),
        ('digraph { a [label="say "hi""] }', (1, 26), "string of label ends", '\\"'),
        ('digraph { a [prompt="x" + "y"] }', (1, 25), "joined with +", "one string"),
        ('digraph { a [prompt="x"+"y"] }', (1, 24), "joined with +", "one string"),
        ("digraph { a }\n;", (2, 1), "; stands behind the end", "remove it"),
        # keywords as ids
        ("digraph { start -> node }", (1, 20), "node is a keyword", '"node"'),
        ("digraph { graph }", (1, 17), "follow the keywords", '"node"'),
        ("digraph { edge -> a }", (1, 16), "follow the keywords", '"node"'),
        # unfinished
        ("", (1, 1), "empty", "digraph"),
        (" \n // nothing\n", (3, 1), "empty", "digraph"),
        ("digraph", (1, 8), "ends before {", ""),
        ("digraph G {\n  a -> b\n", (3, 1), "before a closing }", ""),
        ("digraph {\n a [label=x\n b -> c }", (2, 4), "never closed", "]"),
        ('digraph {\n a [label="x\n}', (2, 11), "string is never closed", "double quote"),
        ("digraph { /* a }", (1, 11), "comment is never closed", "*/"),
        ("digraph { a -> }", (1, 16), "a node should stand here", ""),
        ("digraph { a -> ; b }", (1, 16), "a node should stand here", ""),
        ("digraph { a [x=] }", (1, 16), "no value", '""'),
        ("digraph { a [x] }", (1, 14), "x has no value", "x=value"),
        ("digraph { a } }", (1, 15), "behind the end", "too many"),
        # bare where quotes are needed
        ("digraph { my-node -> b }", (1, 13), "-node can't be part of a bare id", '"my-node"'),
        ("digraph { a->b-c }", (1, 15), "-c can't be part of a bare id", '"b-c"'),
        ("digraph { 1a -> b }", (1, 11), "begins with a digit", '"1a"'),
        ("digraph { a1 -> my-1 }", (1, 19), "-1 can't be part of a bare id", '"my-1"'),
        ("digraph { a\u200b -> b }", (1, 12), r"'\u200b' can't stand here, and can't be seen", "remove"),
        ("DiGraph { a }", (1, 1), "lower case", "digraph"),
        ("digraph { a -> b.c }", (1, 16), "because of its dots", '"b.c"'),
        ("digraph { a [model=google/gemini] }", (1, 26), "/gemini can't be part", "double quotes"),
        ("digraph { a [v=1.2.3] }", (1, 19), ".3 can't be part", "double quotes"),
        ("digraph { a [timeout=5x] }", (1, 22), "5x is neither a number nor a duration", "ms, s, m, h and d"),
        ("digraph { a [max-retries=3] }", (1, 14), "max-", "double quotes"),
        ("digraph { a [color=#fff] }", (1, 20), "# is not a value", "double quotes"),
        ("digraph { a [x='y'] }", (1, 16), "double quotes", "single"),
        ("digraph { a # note\n }", (1, 13), "start of a line", "//"),
        ("digraph { a, b }", (1, 12), "commas", "own line"),
        ("digraph my graph { }", (1, 12), "graph is a keyword", ""),
        ("digraph my flow { }", (1, 12), "{ is missing", "several words"),
        ("subgraph x {}", (1, 1), "begins with the word digraph", "digraph name"),
        ("<html>", (1, 1), "HTML", ""),
        # text that is no text
        ("digraph { a [x=\"\0\"] }", (1, 17), "NUL", "UTF-8"),
        (b"digraph {\n  a \xff }", (2, 5), "0xff is not valid UTF-8", "UTF-8"),
        ('digraph { a [x="\ud800"] }', (1, 17), "half of a pair", ""),
        ("digraph { a [x=" + "9" * 5000 + "] }", (1, 16), "neither a number", "text"),
        ("digraph { a [x=" + "9" * 400 + ".5] }", (1, 16), "neither a number", "text"),
    ],
)  # fmt: skip
def test_refused(source: str | bytes, place: tuple[int, int], message: str, hint: str) -> None:
    error = error_of(source)
    assert message in error.message
    assert (error.line, error.column) == place
    assert hint in error.hint
    assert len(str(error)) < 500


def test_a_string_that_swallowed_lines_says_where_it_begins() -> None:
    error = error_of('digraph {\n  a [label="A]\n  b [label="B"]\n}')
    assert error.message == "the string of label ends before this (it begins in line 2)"
    assert error.line == 3


def test_nesting_is_bounded() -> None:
    parse_dot("digraph {" + "{" * (MAX_DEPTH - 1) + "a" + "}" * MAX_DEPTH)
    assert f"more than {MAX_DEPTH} deep" in error_of("digraph {" + "{" * 100_000 + "a").message


def test_long_lines_are_cut_around_the_place() -> None:
    error = error_of("digraph { " + "a; " * 100_000 + "b -- c" + " ; d" * 100_000 + "}")
    place, excerpt, caret, hint = str(error).split("\n")
    assert "undirected edges" in place
    assert len(excerpt) < 200
    assert excerpt[caret.index("^") :].startswith("-- c")
    assert hint


@pytest.mark.parametrize("tail", ['"] }', "", '" } }'])
def test_huge_strings_are_read_or_refused_in_linear_time(tail: str) -> None:
    source = 'digraph { a [prompt="' + "x\\n\\\"'" * 2_000_000 + tail
    if tail == '"] }':
        assert len(parse_dot(source).nodes["a"].prompt) == 8_000_000
    else:
        assert len(str(error_of(source))) < 600


def test_a_product_of_subgraphs_that_is_too_large_is_refused() -> None:
    many = " ".join(f"n{number}" for number in range(1001))
    with pytest.raises(DotSyntaxError, match="with these 1,002,001 edges there are more than 1,000,000") as caught:
        parse_dot(f"digraph g {{\n  {{{many}}} -> {{{many}}}\n}}")
    assert (caught.value.line, caught.value.column) == (2, 3)
    assert len(parse_dot("digraph g { {a b c} -> {d e} -> f }").edges) == 8
