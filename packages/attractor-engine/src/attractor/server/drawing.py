"""Pipelines that need not run: lint and pictures of DOT sources, and the picture of a run's."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from attractor.diagnostics import Diagnostic, Severity, Span, to_json
from attractor.dot import parse_dot, render_svg
from attractor.errors import DotSyntaxError, DrawingError
from attractor.graph import Graph
from attractor.server import schemas
from attractor.server.histories import Histories
from attractor.server.operations import Answer, Operation
from attractor.server.problem import ProblemError
from attractor.server.requests import read_body, take
from attractor.server.runs import Runs
from attractor.stage_states import StageState
from attractor.state.run_directory import read_manifest, read_source
from attractor.transforms import apply_transforms
from attractor.validation import validate

SVG = "image/svg+xml"
DOT = "text/vnd.graphviz"
_DRAWING_HEADERS = {"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox"}


class Drawing:
    """The operations on DOT sources."""

    def __init__(self, runs: Runs, histories: Histories) -> None:
        self._runs = runs
        self._histories = histories

    def list_operations(self) -> Sequence[Operation]:
        picture = Answer(description="The picture.", schema={"type": "string"}, media_type=SVG)
        source = Answer(description="The DOT source.", schema={"type": "string"}, media_type=DOT)
        return (
            Operation(
                method="POST",
                path="/lint",
                endpoint=self.lint,
                summary="Check a DOT source without running it.",
                body=schemas.SOURCE,
                answers={200: Answer(description="What lint found.", schema=schemas.FINDINGS)},
            ),
            Operation(
                method="POST",
                path="/graph",
                endpoint=self.draw,
                summary="Draw a DOT source as SVG.",
                body=schemas.SOURCE,
                answers={200: picture},
                problems=(422, 501),
            ),
            Operation(
                method="GET",
                path="/pipelines/{id}/graph",
                endpoint=self.draw_pipeline,
                summary="A run's graph as SVG.",
                query={"format": {"type": "string", "enum": ["svg", "dot"], "default": "svg"}},
                answers={200: replace(picture, or_media_type=DOT)},
                problems=(422, 501),
            ),
            Operation(
                method="GET",
                path="/pipelines/{id}/source",
                endpoint=self.get_source,
                summary="The DOT source of a run.",
                answers={200: source},
            ),
        )

    async def lint(self, request: Request) -> Response:
        body = await read_body(request)
        findings = await run_sync(lint_source, take(body, "dot_source", str, "the pipeline, a text in DOT"))
        return JSONResponse({"diagnostics": [to_json(found) for found in findings]})

    async def draw(self, request: Request) -> Response:
        body = await read_body(request)
        return await _draw(take(body, "dot_source", str, "the pipeline, a text in DOT"))

    async def draw_pipeline(self, request: Request) -> Response:
        path = self._runs.find(request.path_params["id"])
        match request.query_params.get("format", "svg"):
            case "svg":
                states = await run_sync(self._histories.list_states, path)
                return await _draw(_read(path), str(read_manifest(path).get("file_name", "")), states)
            case "dot":
                return PlainTextResponse(_read(path), media_type=DOT)
            case other:
                raise ProblemError(400, f"the query parameter 'format' must be svg or dot, and it is {other!r}")

    async def get_source(self, request: Request) -> Response:
        return PlainTextResponse(_read(self._runs.find(request.path_params["id"])), media_type=DOT)


def lint_source(source: str) -> list[Diagnostic]:
    """What lint finds in a DOT source; what can't be read is a finding too."""
    try:
        return validate(apply_transforms(parse_dot(source)))
    except DotSyntaxError as error:
        return [to_finding(error)]


def to_finding(error: DotSyntaxError) -> Diagnostic:
    """A syntax error as lint would tell it."""
    return Diagnostic(
        rule="syntax",
        severity=Severity.ERROR,
        message=error.message,
        fix=error.hint,
        file_name=error.file_name,
        span=Span(error.line, error.column, 0, 0),
    )


def _read(path: Path) -> str:
    source = read_source(path)
    if not source:
        raise ProblemError(404, f"the graph of pipeline {path.name} was made in Python; there is no source")
    return source


async def _draw(source: str, file_name: str = "", states: Mapping[str, StageState] = MappingProxyType({})) -> Response:
    try:
        graph: Graph = await run_sync(parse_dot, source, file_name)
    except DotSyntaxError as error:
        raise ProblemError(
            422, f"the source can't be read: {error.message}", diagnostics=[to_json(to_finding(error))]
        ) from error
    try:
        svg = await render_svg(graph, states)
    except DrawingError as error:
        raise ProblemError(501, str(error)) from error
    return Response(svg, media_type=SVG, headers=_DRAWING_HEADERS)
