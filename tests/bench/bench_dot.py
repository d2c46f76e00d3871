"""What reading DOT costs, beside the least that the same parser generator needs for the specification's grammar."""

import time
from collections.abc import Iterator
from statistics import median

from attractor.dot import format_source, parse_dot
from attractor.validation import validate
from lark import Lark

Row = tuple[str, float, str, float | None, float | None]
ROUNDS = 3

PLAIN = r"""
document: "digraph" NAME "{" (node | edge)* "}"
node: NAME list ";"
edge: NAME ("->" NAME)+ list ";"
list: "[" NAME "=" value ("," NAME "=" value)* "]"
?value: TEXT | NUMBER | NAME
TEXT: /"[^"\\]*(\\.[^"\\]*)*"/
NUMBER: /\d+[a-z]*/
NAME: /[A-Za-z_]\w*/
%ignore /\s+/
"""


def make_source(nodes: int) -> str:
    """A chain whose nodes and edges have the usual attributes; a node's prompt has 200 characters."""
    task = "read what the last stage wrote, and improve it until the tests pass. ".ljust(180, ".")
    lines = [
        f'n{number} [label="Step {number}", shape=box, prompt="{number}: {task}", max_retries=2, timeout=90s];'
        for number in range(nodes)
    ]
    lines += [
        f'n{number} -> n{number + 1} [label="next", condition="outcome=success", weight={number % 7}];'
        for number in range(nodes - 1)
    ]
    return "\n".join(["digraph g {", "start [shape=Mdiamond];", "exit [shape=Msquare];", *lines, "}"])


def measure(work: object, source: str) -> float:
    """Milliseconds of CPU."""
    assert callable(work)
    begun = time.process_time()
    work(source)
    return (time.process_time() - begun) * 1000


def rows() -> Iterator[Row]:
    """In turns, so that a busy moment hits all."""
    few, many = make_source(1000), make_source(10_000)
    plain = Lark(PLAIN, start="document", parser="lalr").parse
    rounds = [
        (measure(plain, many), measure(parse_dot, few), measure(parse_dot, many), measure(format_source, many))
        for _ in range(ROUNDS)
    ]
    graph = parse_dot(many)
    lint = min(measure(lambda _: validate(graph), "") for _ in range(ROUNDS))
    yield "DOT: floor, plain lark LALR, 10,000 nodes", median(row[0] for row in rounds), "ms", None, None
    parsed = median(row[2] for row in rounds)
    yield "DOT: parse 10,000 nodes, to plain lark", parsed, "ms", median(row[2] / row[0] for row in rounds), 2.0
    growth = median(row[2] / row[1] / 10 for row in rounds)
    yield "DOT: a node of 10,000, to one of 1,000", parsed / 10_000, "ms", growth, 1.3
    yield "DOT: format 10,000 nodes", median(row[3] for row in rounds), "ms", None, None
    yield "DOT: lint 10,000 nodes, to parsing them", lint, "ms", lint / parsed, 1.0
