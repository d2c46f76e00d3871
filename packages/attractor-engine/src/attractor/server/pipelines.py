"""Pipelines over HTTP: submitted, listed, looked at, cancelled, resumed, steered (section 9.5)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from attractor.diagnostics import Severity, to_json
from attractor.server import schemas
from attractor.server.drawing import lint_source
from attractor.server.event_tail import Tails, find_end
from attractor.server.histories import Histories
from attractor.server.launch import Wishes
from attractor.server.operations import Answer, Operation
from attractor.server.problem import ProblemError
from attractor.server.requests import read_body, read_flag, read_number, take, to_number
from attractor.server.run_index import RunIndex
from attractor.server.runs import Runs
from attractor.server.sse import TERMINAL, EventStream
from attractor.server.views import view_run
from attractor.state.run_directory import restart_path, stage_path
from attractor.state.steering import write_steering

_RUN = {200: Answer(description="The run.", schema=schemas.RUN)}


class Pipelines:
    """The operations on whole runs. `index` lists them, `tails` serve events, `histories` tell which stages work."""

    def __init__(
        self, runs: Runs, index: RunIndex, tails: Tails, histories: Histories, *, keep_alive: float, patience: float
    ) -> None:
        self._runs = runs
        self._index = index
        self._tails = tails
        self._histories = histories
        self._keep_alive = keep_alive
        self._patience = patience

    def list_operations(self) -> Sequence[Operation]:
        return (*self._list_reading(), *self._list_changing())

    def _list_reading(self) -> Sequence[Operation]:
        return (
            Operation(
                method="GET",
                path="/pipelines",
                endpoint=self.list_pipelines,
                summary="List the runs, the latest first.",
                query={"limit": schemas.LIMIT, "offset": schemas.OFFSET},
                answers={200: Answer(description="The runs.", schema=schemas.RUN_LIST)},
            ),
            Operation(
                method="GET",
                path="/pipelines/{id}",
                endpoint=self.get_pipeline,
                summary="A run's status and progress.",
                answers=_RUN,
            ),
            Operation(
                method="GET",
                path="/pipelines/{id}/events",
                endpoint=self.stream_events,
                summary="A run's events, those to come included, as server-sent events.",
                query={"last_event_id": schemas.EVENT_NUMBER, "follow": schemas.FOLLOW},
                answers={
                    200: Answer(description="The events.", schema=schemas.EVENT, media_type="text/event-stream"),
                    204: Answer(description="The run has ended, and nothing follows the event that was named."),
                },
            ),
        )

    def _list_changing(self) -> Sequence[Operation]:
        return (
            Operation(
                method="POST",
                path="/pipelines",
                endpoint=self.submit_pipeline,
                summary="Submit a DOT source and start it.",
                body=schemas.SUBMISSION,
                answers={201: Answer(description="It was started.", schema=schemas.SUBMITTED)},
                problems=(422, 503),
            ),
            Operation(
                method="POST",
                path="/pipelines/{id}/cancel",
                endpoint=self.cancel_pipeline,
                summary="Stop a run, its commands included.",
                answers=_RUN,
                problems=(409,),
            ),
            Operation(
                method="POST",
                path="/pipelines/{id}/resume",
                endpoint=self.resume_pipeline,
                summary="Go on with a run that was stopped, killed or failed.",
                body=schemas.RESUMPTION,
                answers=_RUN,
                problems=(409, 422, 503),
            ),
            Operation(
                method="POST",
                path="/pipelines/{id}/steer",
                endpoint=self.steer_pipeline,
                summary="Tell stages at work what to do differently.",
                body=schemas.STEERING,
                answers={200: Answer(description="The stages that were told.", schema=schemas.STEERED)},
                problems=(409,),
            ),
        )

    async def list_pipelines(self, request: Request) -> Response:
        limit, offset = read_number(request, "limit", 200), read_number(request, "offset")
        records = await run_sync(self._index.list_records)
        return JSONResponse({"pipelines": records[offset : offset + limit], "total": len(records)})

    async def submit_pipeline(self, request: Request) -> Response:
        body = await read_body(request)
        source = take(body, "dot_source", str, "the pipeline, a text in DOT")
        wishes = Wishes(
            simulate=take(body, "simulate", bool, "true or false", False),
            dry_run=take(body, "dry_run", bool, "true or false", False),
            auto_approve=take(body, "auto_approve", bool, "true or false", False),
            context=take(body, "context", dict, "an object", {}),
        )
        findings = await run_sync(lint_source, source)
        refuse_errors(findings)
        run_id = await self._runs.start(source, wishes)
        return JSONResponse(
            {"pipeline_id": run_id, "status": "running", "diagnostics": [to_json(found) for found in findings]},
            201,
            headers={"location": f"/pipelines/{run_id}"},
        )

    async def get_pipeline(self, request: Request) -> Response:
        return await self._answer(self._runs.find(request.path_params["id"]))

    async def _answer(self, path: Path) -> Response:
        return JSONResponse(await run_sync(_detail, path))

    async def stream_events(self, request: Request) -> Response | EventStream:
        path = self._runs.find(request.path_params["id"])
        after = read_number(request, "last_event_id")
        if name := request.headers.get("last-event-id", "").strip():
            after = to_number(name, "the header Last-Event-ID")
        if after and not self._runs.is_live(path.name):
            end = await run_sync(find_end, path / "events.jsonl")
            if end.name in TERMINAL and end.number <= after:
                # A browser that came back for more takes this for a reason to stop asking.
                return Response(status_code=204)
        return EventStream(
            path,
            self._tails,
            after=after,
            follow=read_flag(request, "follow", True),
            keep_alive=self._keep_alive,
            patience=self._patience,
        )

    async def cancel_pipeline(self, request: Request) -> Response:
        await read_body(request)
        path = self._runs.find(request.path_params["id"])
        view = await run_sync(view_run, path)
        if view.status == "completed" or (view.status == "failed" and not view.interrupted):
            raise ProblemError(409, f"pipeline {path.name} has {view.status} already")
        if view.status != "cancelled" or view.executed:
            await self._runs.cancel(path.name)
        return await self._answer(path)

    async def resume_pipeline(self, request: Request) -> Response:
        body = await read_body(request)
        path = self._runs.find(request.path_params["id"])
        view = await run_sync(view_run, path)
        if view.status == "completed" and not body.get("from_node"):
            raise ProblemError(409, f"pipeline {path.name} has completed; name a node in from_node to go on from there")
        self._runs.refuse_too_many()
        await self._runs.resume(path.name, take(body, "from_node", str, "the id of a node", ""))
        return await self._answer(path)

    async def steer_pipeline(self, request: Request) -> Response:
        body = await read_body(request)
        path = self._runs.find(request.path_params["id"])
        text = take(body, "text", str, "what to tell")
        node_id = take(body, "node_id", str, "the id of a node", "")
        if not text.strip():
            raise ProblemError(400, "the field 'text' is empty")
        told = await run_sync(_steer, path, self._histories, node_id, text)
        return JSONResponse({"stages": told})


def refuse_errors(findings: Sequence[Any]) -> None:
    """Raises ProblemError 422, with all findings, if one is an error."""
    errors = [found for found in findings if found.severity is Severity.ERROR]
    if errors:
        more = f", and {len(errors) - 1} more" if len(errors) > 1 else ""
        raise ProblemError(
            422,
            f"the pipeline has errors and was not run: {errors[0].message}{more}",
            diagnostics=[to_json(found) for found in findings],
        )


def _detail(path: Path) -> Mapping[str, Any]:
    return view_run(path).to_detailed_record(path)


def _steer(path: Path, histories: Histories, node_id: str, text: str) -> list[str]:
    """Tell the stage, or all that are at work; raises ProblemError 409 if it isn't, or none is."""
    view = view_run(path)
    working = histories.find_working(path) if view.executed else []
    told = [name for name in working if name == node_id or not node_id]
    if not told:
        what = f"the stage {node_id!r} is not at work" if node_id else "no stage is at work"
        raise ProblemError(409, f"{what} in pipeline {path.name}")
    for name in told:
        write_steering(stage_path(restart_path(path, view.checkpoint.restarts), name), text)
    return told
