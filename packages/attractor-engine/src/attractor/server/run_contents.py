"""What lies in a run's directory, over HTTP: its state, and the files of its stages."""

import os
import stat
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from attractor.server import schemas
from attractor.server.histories import Histories
from attractor.server.operations import Answer, Operation
from attractor.server.problem import ProblemError
from attractor.server.runs import Runs
from attractor.state.artifacts import ARTIFACTS_NAME
from attractor.state.checkpoint import encode_checkpoint
from attractor.state.json_values import encode_json
from attractor.state.run_directory import restart_path, stage_path
from attractor.state.suspensions import load_last_checkpoint

MAX_FILE = 8_000_000
"""Bytes of a file that are sent; of a longer one, the first."""


class RunContents:
    """The operations that read what a run keeps."""

    def __init__(self, runs: Runs, histories: Histories) -> None:
        self._runs = runs
        self._histories = histories

    def list_operations(self) -> Sequence[Operation]:
        files = {200: Answer(description="The files.", schema=schemas.FILES)}
        content = {200: Answer(description="Its text.", schema={"type": "string"}, media_type="text/plain")}
        return (
            self._reading("checkpoint", self.get_checkpoint, "A run's current checkpoint.", schemas.CHECKPOINT),
            self._reading("context", self.get_context, "A run's context, by key.", schemas.CONTEXT),
            self._reading("stages", self.list_stages, "The visits of each node.", schemas.STAGES),
            Operation(
                method="GET",
                path="/pipelines/{id}/stages/{node_id}/files",
                endpoint=self.list_stage_files,
                summary="The files of a stage: prompt.md, response.md, tool_output.txt and others.",
                answers=files,
            ),
            Operation(
                method="GET",
                path="/pipelines/{id}/stages/{node_id}/files/{name}",
                endpoint=self.get_stage_file,
                summary="A file of a stage.",
                answers=content,
            ),
            Operation(
                method="GET",
                path="/pipelines/{id}/artifacts",
                endpoint=self.list_artifacts,
                summary="The artifacts of a run.",
                answers=files,
            ),
            Operation(
                method="GET",
                path="/pipelines/{id}/artifacts/{name}",
                endpoint=self.get_artifact,
                summary="An artifact of a run.",
                answers=content,
            ),
        )

    def _reading(self, name: str, endpoint: Any, summary: str, schema: schemas.Schema) -> Operation:
        answers = {200: Answer(description=summary, schema=schema)}
        return Operation(
            method="GET", path=f"/pipelines/{{id}}/{name}", endpoint=endpoint, summary=summary, answers=answers
        )

    async def get_checkpoint(self, request: Request) -> Response:
        path = self._runs.find(request.path_params["id"])

        def read() -> str:
            checkpoint = load_last_checkpoint(path)
            return encode_checkpoint(checkpoint, encode_json(checkpoint.context_values))

        return Response(await run_sync(read), media_type="application/json")

    async def get_context(self, request: Request) -> Response:
        path = self._runs.find(request.path_params["id"])
        checkpoint = await run_sync(load_last_checkpoint, path)
        return Response(encode_json(checkpoint.context_values), media_type="application/json")

    async def list_stages(self, request: Request) -> Response:
        path = self._runs.find(request.path_params["id"])
        stages = await run_sync(self._histories.list_stages, path, time.time())
        return JSONResponse({"stages": stages})

    async def list_stage_files(self, request: Request) -> Response:
        return await self._list(self._find_stage(request))

    async def get_stage_file(self, request: Request) -> Response:
        return await self._send(self._find_stage(request), request.path_params["name"])

    async def list_artifacts(self, request: Request) -> Response:
        return await self._list(self._runs.find(request.path_params["id"]) / ARTIFACTS_NAME)

    async def get_artifact(self, request: Request) -> Response:
        return await self._send(
            self._runs.find(request.path_params["id"]) / ARTIFACTS_NAME, request.path_params["name"]
        )

    def _find_stage(self, request: Request) -> Path:
        path, node_id = self._runs.find(request.path_params["id"]), request.path_params["node_id"]
        if not node_id:
            raise ProblemError(404, "there is no stage without a name")
        restarts = load_last_checkpoint(path).restarts
        return stage_path(restart_path(path, restarts), node_id)

    async def _list(self, folder: Path) -> Response:
        return JSONResponse({"files": await run_sync(lambda: list(_list_files(folder)))})

    async def _send(self, folder: Path, name: str) -> Response:
        data, size = await run_sync(_read_file, folder, name)
        return Response(data.decode("utf-8", "replace"), media_type="text/plain", headers={"x-file-size": str(size)})


def _list_files(folder: Path) -> Iterator[dict[str, Any]]:
    """The plain files of a folder, which may be missing. No link is followed."""
    if folder.is_symlink() or not folder.is_dir():
        return
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.is_file(follow_symlinks=False):
            found = entry.stat(follow_symlinks=False)
            yield {"name": entry.name, "size": found.st_size, "modified_at": round(found.st_mtime, 3)}


def _read_file(folder: Path, name: str) -> tuple[bytes, int]:
    """The beginning of a plain file of a folder, and its size. Raises ProblemError 404 for anything else.

    Neither the folder nor the file may be a link, so that what a stage makes there leads nowhere else.
    """
    missing = ProblemError(404, f"there is no file {name!r}")
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise missing
    try:
        inside = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            # A pipe must not keep the server waiting.
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=inside)
        finally:
            os.close(inside)
    except (OSError, ValueError):
        raise missing from None
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise missing
        return file.read(MAX_FILE), found.st_size
