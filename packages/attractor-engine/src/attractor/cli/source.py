"""Commands on pipeline sources: `lint`, `parse`, `fmt`, `graph`; and how every command reads a source."""

import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import anyio
import click

from attractor.cli.failure import BAD_USAGE, FAILED, SUCCESS, CommandError
from attractor.cli.output import write_data, write_json, write_note, write_result
from attractor.cli.parameters import Place
from attractor.diagnostics import Diagnostic, Severity, Span
from attractor.dot import format_source, parse_dot, render_svg
from attractor.errors import DotSyntaxError, DrawingError, point_at
from attractor.event_log import read_events
from attractor.graph import Duration, Graph, Value
from attractor.stage_states import StageState, read_states
from attractor.state.run_directory import read_manifest
from attractor.state.run_directory import read_source as read_run_source
from attractor.transforms import apply_transforms
from attractor.validation import validate
from attractor.validation.sarif import to_sarif

STDIN = "-"


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@click.option("--sarif", "as_sarif", is_flag=True, help="Print the findings as SARIF 2.1.0, for code hosts.")
@click.option("--strict", is_flag=True, help="Count warnings as errors.")
def lint(files: tuple[str, ...], as_json: bool, as_sarif: bool, strict: bool) -> int:
    """Check pipelines without running them. FILE may be - for stdin.

    Exits 0 if there are no errors, 1 if there are, 2 if a file can't be read.

    \b
    Example: attractor lint pipelines/*.dot --strict
    """
    if as_json and as_sarif:
        raise click.UsageError("--json and --sarif are two ways to print the same: drop one of them.")
    found: list[Diagnostic] = []
    sources: dict[str, str] = {}
    unreadable = 0
    for file in files:
        try:
            source = read_source(file)
        except CommandError as error:
            write_note(f"error: {error.format_message()}")
            unreadable += 1
            continue
        diagnostics = _check(source, file)
        found += diagnostics
        sources[display_name(file)] = source.removeprefix("\ufeff")
        if not (as_json or as_sarif):
            for diagnostic in diagnostics:
                write_result(render_diagnostic(diagnostic, source))
    errors, warnings, notes = (sum(item.severity is level for item in found) for level in Severity)
    if as_sarif:
        write_json(to_sarif(found, root=Path.cwd(), sources=sources))
    if as_json:
        write_json({"diagnostics": [_to_json(item) for item in found], "errors": errors, "warnings": warnings})
    counts = f"{_count(errors, 'error')}, {_count(warnings, 'warning')}, {_count(notes, 'note')}"
    write_note(f"{counts} in {_count(len(files) - unreadable, 'file')}")
    if unreadable:
        return BAD_USAGE
    return FAILED if errors or (strict and warnings) else SUCCESS


@click.command()
@click.argument("file", metavar="FILE")
def parse(file: str) -> int:
    """Print a pipeline's nodes and edges as JSON, as written: no transform is applied. FILE may be - for stdin.

    \b
    Example: attractor parse pipeline.dot | jq '.nodes[].id'
    """
    graph = parse_dot(read_source(file), display_name(file))
    write_json(
        {
            "name": graph.name,
            "attributes": _attributes(graph.attrs),
            "nodes": [
                {"id": node.id, "attributes": _attributes(node.attrs), "classes": list(node.classes)}
                for node in graph.nodes.values()
            ],
            "edges": [
                {"source": edge.source, "target": edge.target, "attributes": _attributes(edge.attrs)}
                for edge in graph.edges
            ],
        }
    )
    return SUCCESS


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--check", is_flag=True, help="Change nothing; exit 1 if a file would change.")
def fmt(files: tuple[str, ...], check: bool) -> int:
    """Rewrite pipelines in the one layout, comments kept. FILE may be - for stdin, which goes to stdout.

    \b
    Example: attractor fmt pipelines/*.dot --check
    """
    changed = 0
    unusable = 0
    for file in files:
        try:
            changed += _format(file, check)
        except (CommandError, DotSyntaxError) as error:
            write_note(f"error: {error}")
            unusable += 1
    if unusable:
        return BAD_USAGE
    return FAILED if check and changed else SUCCESS


def _format(file: str, check: bool) -> bool:
    """Whether the file is not in the one layout; unless only to `check`, now it is."""
    source = read_source(file)
    formatted = format_source(source, display_name(file))
    if file == STDIN and not check:
        write_data(formatted.rstrip("\n"))
        return False
    if formatted == source:
        return False
    if not check:
        _rewrite(Path(file).resolve(), formatted)
    write_note(f"{'would reformat' if check else 'reformatted'} {display_name(file)}")
    return True


@click.command()
@click.argument("file", metavar="[FILE]", required=False)
@click.option("-o", "--output", type=Place(dir_okay=False, path_type=Path), help="Write here instead of stdout.")
@click.option("--run", "run_dir", type=Place(path_type=Path), help="Colour the stages as in this run directory.")
def graph(file: str | None, output: Path | None, run_dir: Path | None) -> int:
    """Draw a pipeline as SVG. FILE may be - for stdin; without it, the run's own pipeline is drawn.

    Needs Graphviz (the program dot), or the extra svg.

    \b
    Example: attractor graph pipeline.dot -o pipeline.svg
    """
    if file is None and run_dir is None:
        raise click.UsageError("Name a FILE to draw, or a run directory with --run.")
    states: Mapping[str, StageState] = {}
    if run_dir is not None:
        read_manifest(run_dir)
    drawn = parse_dot(read_source(file), display_name(file)) if file else _parse_run(run_dir)
    if run_dir is not None:
        states = read_states(read_events(run_dir), drawn.nodes)
    try:
        svg = anyio.run(render_svg, drawn, states)
    except DrawingError as error:
        raise CommandError(f"{error}.") from error
    if output is None:
        write_data(svg.decode("utf-8").rstrip("\n"))
    else:
        _write(output, svg)
    return SUCCESS


def _parse_run(run_dir: Path | None) -> Graph:
    assert run_dir is not None, "checked by the command"
    source = read_run_source(run_dir)
    if not source:
        raise CommandError(f"{run_dir} holds no DOT source: its pipeline was made in Python; name a FILE to draw.")
    return parse_dot(source, str(run_dir / "pipeline.dot"))


def read_source(file: str) -> str:
    """The text of a DOT file, or of stdin for `-`. Raises CommandError."""
    name = display_name(file)
    if not file:
        raise CommandError("the name of the file is empty.")
    try:
        data = sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
    except FileNotFoundError:
        raise CommandError(f"{name} does not exist.{_suggest(Path(file))}") from None
    except IsADirectoryError:
        raise CommandError(f"{name} is a directory; name a DOT file in it.") from None
    except (OSError, ValueError) as error:
        raise CommandError(f"{name} can't be read: {getattr(error, 'strerror', None) or error}.") from None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise CommandError(
            f"{name} is not UTF-8 text (line {line}, byte {data[error.start]:#04x}); save it as UTF-8."
        ) from None


def _suggest(missing: Path) -> str:
    """A file beside it whose name is nearly the same, if there is one."""
    try:
        names = [path.name for path in missing.parent.iterdir()]
    except OSError:
        return ""
    near = get_close_matches(missing.name, names, 1)
    return f" Did you mean {missing.with_name(near[0])}?" if near else ""


def _rewrite(path: Path, text: str) -> None:
    """Give a file new content, whole or not at all; it keeps its mode."""
    aside = path.with_name(f".{path.name}.tmp")
    try:
        mode = path.stat().st_mode
        aside.write_bytes(text.encode("utf-8"))
        aside.chmod(mode)
        aside.replace(path)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise CommandError(f"{path} can't be written: {error.strerror}.") from error


def _write(path: Path, data: bytes) -> None:
    try:
        path.write_bytes(data)
    except OSError as error:
        raise CommandError(f"{path} can't be written: {error.strerror}.") from error


def display_name(file: str) -> str:
    """What messages call a file."""
    return "<stdin>" if file == STDIN else file


def render_diagnostic(diagnostic: Diagnostic, source: str) -> str:
    """A finding with the line it is about and a caret."""
    text, separator, fix = str(diagnostic).partition("\n  fix: ")
    line = _line(source, diagnostic.span)
    if diagnostic.span and line.strip():
        text += f"\n{point_at(line, diagnostic.span.column)}"
    return text + separator + fix


def _line(source: str, span: Span | None) -> str:
    lines = source.removeprefix("\ufeff").split("\n")
    return lines[span.line - 1].rstrip("\r") if span and span.line <= len(lines) else ""


def _check(source: str, file: str) -> Sequence[Diagnostic]:
    name = display_name(file)
    try:
        return validate(apply_transforms(parse_dot(source, name)))
    except DotSyntaxError as error:
        span = Span(error.line, error.column, 0, 0)
        return [
            Diagnostic(
                rule="syntax",
                severity=Severity.ERROR,
                message=error.message,
                fix=error.hint,
                file_name=name,
                span=span,
            )
        ]


def _attributes(attrs: Mapping[str, Value]) -> dict[str, Any]:
    return {key: str(value) if isinstance(value, Duration) else value for key, value in attrs.items()}


def _to_json(item: Diagnostic) -> dict[str, Any]:
    return {
        "file": item.file_name,
        "line": item.span.line if item.span else None,
        "column": item.span.column if item.span else None,
        "rule": item.rule,
        "severity": item.severity.value,
        "message": item.message,
        "node": item.node_id or None,
        "edge": list(item.edge) if item.edge else None,
        "fix": item.fix or None,
    }


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
