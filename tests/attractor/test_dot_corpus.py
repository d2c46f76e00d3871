"""Pipelines that others wrote: each is read, linted without error, and formatted to the same pipeline."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from attractor.diagnostics import Severity
from attractor.dot import format_graph, format_source, parse_dot
from attractor.dot.lexer import comments
from attractor.dot.parser import parse_document
from attractor.dot.source import Source
from attractor.transforms import apply_transforms
from attractor.validation import validate

ROOT = Path(__file__).parent.parent.parent
FOLDER = Path(os.environ.get("ATTRACTOR_PIPELINES", ROOT / "../shared/pipelines")).resolve()
FILES = sorted(FOLDER.glob("*.dot"))

pytestmark = pytest.mark.skipif(not FILES, reason=f"no pipelines at {FOLDER} (ATTRACTOR_PIPELINES names the directory)")


@pytest.fixture(params=FILES, ids=lambda path: path.stem[:60])
def source(request: pytest.FixtureRequest) -> bytes:
    path: Path = request.param
    return path.read_bytes()


def test_lint_finds_no_errors(source: bytes) -> None:
    graph = apply_transforms(parse_dot(source, "pipeline.dot"))
    findings = validate(graph)
    assert [str(found) for found in findings if found.severity is Severity.ERROR] == []
    lines = graph.source.split("\n")
    for found in findings:
        assert found.rule
        assert found.fix
        assert found.span is not None
        assert found.span.column <= len(lines[found.span.line - 1])


def test_format_keeps_pipeline_and_comments(source: bytes) -> None:
    document, text = parse_document(source)
    formatted = format_source(source)
    assert parse_dot(formatted) == parse_dot(source)
    assert format_source(formatted) == formatted
    assert words_of_comments(parse_document(formatted)[1]) == words_of_comments(text)
    assert document.statements


def words_of_comments(source: Source) -> list[list[str]]:
    """Each comment, in order. Its indentation is the formatter's, and so is its mark at the beginning of a line."""
    return [source.text[start:end].lstrip("#/").split() for start, end in comments(source)]


def test_graphviz_reads_what_is_written(source: bytes) -> None:
    program = shutil.which("dot")
    if program is None:
        pytest.skip("Graphviz is not installed")
    for written in (format_source(source), format_graph(parse_dot(source))):
        drawn = subprocess.run([program, "-Tcanon"], input=written.encode(), capture_output=True, check=False)
        assert drawn.returncode == 0, drawn.stderr


def test_format_of_the_graph_keeps_the_graph(source: bytes) -> None:
    graph = parse_dot(source)
    assert parse_dot(format_graph(graph)) == graph


def test_index_agrees() -> None:
    index = FOLDER / "INDEX.tsv"
    if not index.is_file():
        pytest.skip("the pipelines come without an index")
    header, *rows = (line.split("\t") for line in index.read_text(encoding="utf-8").splitlines())
    counts = header.index("nodes/edges")
    wanted = {row[0]: row[counts] for row in rows}
    for path in FILES:
        graph = parse_dot(path.read_bytes())
        assert f"{len(graph.nodes)}/{len(graph.edges)}" == wanted[path.name], path.name
