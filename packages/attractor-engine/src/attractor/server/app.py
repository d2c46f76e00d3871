"""The server's application: what it is made of, and in which order a request passes through it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from attractor.errors import AttractorError
from attractor.server import schemas
from attractor.server.drawing import Drawing
from attractor.server.event_tail import Tails
from attractor.server.launch import FixedLauncher, Launcher
from attractor.server.operations import Answer, Operation
from attractor.server.pipelines import Pipelines
from attractor.server.problem import ProblemError, answer_http_exception, answer_problem, make_problem
from attractor.server.questions import Questions
from attractor.server.redaction import Redactor
from attractor.server.requests import MAX_BODY
from attractor.server.run_contents import RunContents
from attractor.server.runs import Runs
from attractor.server.sse import KEEP_ALIVE_SECONDS, PATIENCE_SECONDS

WEB = Path(__file__).parent / "web"


def create_app(
    root: Path,
    launcher: Launcher | None = None,
    *,
    redactor: Redactor | None = None,
    max_body: int = MAX_BODY,
    keep_alive: float = KEEP_ALIVE_SECONDS,
    patience: float = PATIENCE_SECONDS,
    routes: Sequence[BaseRoute] = (),
) -> Starlette:
    """The application for the runs in the directory `root`. `routes` are further ones.

    `keep_alive` is after how many seconds of silence a stream of events gets a comment, `patience` after how many a
    reader who takes nothing is dropped. The lifespan of the application must be served: runs end with it.
    """
    redactor = redactor or Redactor()
    runs = Runs(root, launcher or FixedLauncher())
    tails = Tails(redactor.redact_json)
    operations = [
        *Pipelines(runs, tails, keep_alive=keep_alive, patience=patience).list_operations(),
        *Questions(runs).list_operations(),
        *RunContents(runs, redactor).list_operations(),
        *Drawing(runs).list_operations(),
        _health_operation(runs),
    ]

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with runs.opened():
            yield

    app = Starlette(
        routes=[*(operation.to_route() for operation in operations), *_page_routes(), *routes],
        exception_handlers={
            ProblemError: answer_problem,
            HTTPException: answer_http_exception,
            AttractorError: _answer_error,
            500: _answer_unexpected,
        },
        lifespan=lifespan,
    )
    app.state.max_body = max_body
    app.state.tails = tails
    app.state.runs = runs
    return app


def _page_routes() -> list[BaseRoute]:
    if not (WEB / "index.html").is_file():
        return []

    async def page(request: Request) -> Response:
        return FileResponse(WEB / "index.html")

    return [Route("/", page, methods=["GET"]), Mount("/static", StaticFiles(directory=WEB))]


def _health_operation(runs: Runs) -> Operation:
    async def get_health(request: Request) -> Response:
        return JSONResponse({"status": "ok", "version": version("attractor-engine"), "executed": runs.count_live()})

    return Operation(
        method="GET",
        path="/health",
        endpoint=get_health,
        summary="Whether the server works.",
        answers={200: Answer(description="It does.", schema=schemas.HEALTH)},
    )


async def _answer_error(request: Request, error: Exception) -> Response:
    """What the engine refuses."""
    return make_problem(409, str(error))


async def _answer_unexpected(request: Request, error: Exception) -> Response:
    return make_problem(500, "the server met an error that it did not expect; its log tells more")
