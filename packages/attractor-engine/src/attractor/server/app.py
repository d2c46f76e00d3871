"""The server's application: what it is made of, and in which order a request passes through it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from attractor.server import schemas
from attractor.server.auth import Authority
from attractor.server.deadlines import POLL_SECONDS, Deadlines
from attractor.server.drawing import Drawing
from attractor.server.event_tail import Tails
from attractor.server.guard import LOOPBACK, Guard, Hosts
from attractor.server.histories import Histories
from attractor.server.launch import FixedLauncher, Launcher
from attractor.server.login import Login
from attractor.server.metrics import Metrics
from attractor.server.openapi import describe
from attractor.server.operations import Answer, Operation
from attractor.server.pipelines import Pipelines
from attractor.server.problem import EXCEPTION_HANDLERS
from attractor.server.questions import Questions
from attractor.server.redaction import RedactedAnswers, Redactor
from attractor.server.requests import MAX_BODY
from attractor.server.run_contents import RunContents
from attractor.server.run_index import RunIndex
from attractor.server.runs import MAX_RUNS, Runs
from attractor.server.sse import KEEP_ALIVE_SECONDS, PATIENCE_SECONDS

WEB = Path(__file__).parent / "web"


def create_app(
    root: Path,
    launcher: Launcher | None = None,
    *,
    token: str | None = None,
    hosts: Hosts = LOOPBACK,
    redactor: Redactor | None = None,
    max_body: int = MAX_BODY,
    max_runs: int = MAX_RUNS,
    poll: float = POLL_SECONDS,
    keep_alive: float = KEEP_ALIVE_SECONDS,
    patience: float = PATIENCE_SECONDS,
    routes: Sequence[BaseRoute] = (),
) -> Starlette:
    """The application for the runs in the directory `root`. `routes` are further ones, behind the same guard.

    Whoever may ask it can run commands: without a `token` serve it on loopback only. `hosts` are the names that it goes
    by. `max_body` is in bytes, `max_runs` how many runs may be executed at once. In seconds: `keep_alive` is the
    silence after which a stream of events gets a comment, `patience` how long a reader may take nothing before it is
    dropped, `poll` how often it is looked whether a question's time is over in a run that nobody executes. The
    application's lifespan must be served: runs end with it. `app.state.stop()` lets all streams end, and refuses what
    has half come.
    """
    redactor = redactor or Redactor([token] if token else [])
    runs = Runs(root, launcher or FixedLauncher(), max_runs)
    index, tails, authority = RunIndex(runs), Tails(redactor.redact_json), Authority(token)
    histories = Histories()
    metrics = Metrics(runs, index, tails)
    login = Login(authority, WEB / "index.html")
    operations = (
        *Pipelines(runs, index, tails, histories, keep_alive=keep_alive, patience=patience).list_operations(),
        *Questions(runs).list_operations(),
        *RunContents(runs, histories).list_operations(),
        *Drawing(runs, histories).list_operations(),
        *login.list_operations(),
        *metrics.list_operations(),
        _health_operation(),
    )

    app = Starlette(
        routes=[*_list_routes(operations, login), *routes],
        middleware=[
            Middleware(metrics.count_requests),
            Middleware(Guard, authority=authority, hosts=hosts, max_body=max_body),
            Middleware(RedactedAnswers, redactor=redactor),
        ],
        exception_handlers=EXCEPTION_HANDLERS,
        lifespan=partial(_live, runs, Deadlines(runs, index), poll),
    )
    # A path with a slash too many is another path, and no reason to send anybody elsewhere.
    app.router.redirect_slashes = False
    app.state.root, app.state.max_body, app.state.coming = runs.root, max_body, set[anyio.CancelScope]()
    app.state.stop = partial(_stop, tails, app.state.coming)
    return app


@asynccontextmanager
async def _live(runs: Runs, deadlines: Deadlines, poll: float, app: Starlette) -> AsyncIterator[None]:
    async with runs.opened(), anyio.create_task_group() as tasks:
        tasks.start_soon(deadlines.watch, poll)
        yield
        tasks.cancel_scope.cancel()


def _stop(tails: Tails, coming: set[anyio.CancelScope]) -> None:
    tails.stop()
    for body in list(coming):
        body.cancel()


def _list_routes(operations: Sequence[Operation], login: Login) -> Sequence[BaseRoute]:
    return (
        *(operation.to_route() for operation in operations),
        _document_route(operations),
        Route("/", login.show_page, methods=["GET"]),
        Mount("/static", StaticFiles(directory=WEB, check_dir=False)),
    )


def _document_route(operations: Sequence[Operation]) -> Route:
    document = describe(operations)

    async def get_openapi(request: Request) -> Response:
        return JSONResponse(document)

    return Route("/openapi.json", get_openapi, methods=["GET"])


def _health_operation() -> Operation:
    async def get_health(request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    return Operation(
        method="GET",
        path="/health",
        endpoint=get_health,
        summary="Whether the server works; needs no token.",
        answers={200: Answer(description="It does.", schema=schemas.HEALTH)},
    )
