"""What runs ask people, over HTTP (section 6)."""

from collections.abc import Sequence
from typing import Any

from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from attractor.errors import AnsweredError, QuestionError
from attractor.interviewers import QuestionStore
from attractor.server import schemas
from attractor.server.operations import Answer, Operation
from attractor.server.problem import ProblemError
from attractor.server.requests import read_body, read_flag, take
from attractor.server.runs import Runs
from attractor.server.views import RunView, view_run
from attractor.state.suspensions import give_value

_SOURCE = "HTTP"
_WORDS = {True: "yes", False: "no"}


class Questions:
    """The operations on questions. An answer makes a run go on, even if nobody executes it any more."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    def list_operations(self) -> Sequence[Operation]:
        return (
            Operation(
                method="GET",
                path="/pipelines/{id}/questions",
                endpoint=self.list_questions,
                summary="The questions of a run that wait for an answer.",
                query={"all": {"type": "boolean", "default": False, "description": "Those that have ended, too."}},
                answers={200: Answer(description="The questions.", schema=schemas.QUESTIONS)},
            ),
            Operation(
                method="POST",
                path="/pipelines/{id}/questions/{qid}/answer",
                endpoint=self.answer_question,
                summary="Answer a question: the first answer counts.",
                body=schemas.ANSWER,
                answers={200: Answer(description="The question with its answer.", schema=schemas.QUESTION)},
                problems=(409, 422),
            ),
            Operation(
                method="POST",
                path="/pipelines/{id}/suspensions/{sid}/value",
                endpoint=self.give_value,
                summary="Give a suspended stage the value that it waits for.",
                body=schemas.VALUE,
                answers={200: Answer(description="What was given.", schema=schemas.GIVEN)},
                problems=(409,),
            ),
        )

    async def list_questions(self, request: Request) -> Response:
        path = self._runs.find(request.path_params["id"])
        if read_flag(request, "all", False):
            asked = await run_sync(lambda: QuestionStore(path).list_all())
        else:
            asked = list((await run_sync(view_run, path)).questions)
        return JSONResponse({"questions": [one.to_record() for one in asked]})

    async def answer_question(self, request: Request) -> Response:
        body = await read_body(request)
        path, question_id = self._runs.find(request.path_params["id"]), request.path_params["qid"]
        said = _to_text(take(body, "value", object, "the key or label of an option, or a text"))
        store = QuestionStore(path)
        view = await run_sync(view_run, path)
        await run_sync(_refuse_closed, store, question_id, view)
        try:
            asked = await run_sync(store.answer, question_id, said, _SOURCE)
        except AnsweredError as error:
            raise ProblemError(409, str(error)) from error
        except QuestionError as error:
            raise ProblemError(409 if store.has_ended(question_id) else 422, str(error)) from error
        await self._go_on(path.name)
        return JSONResponse(asked.to_record())

    async def give_value(self, request: Request) -> Response:
        body = await read_body(request)
        path, suspension_id = self._runs.find(request.path_params["id"]), request.path_params["sid"]
        value = take(body, "value", object, "a JSON value")
        try:
            await run_sync(give_value, path, suspension_id, value)
        except AnsweredError as error:
            raise ProblemError(409, str(error)) from error
        except QuestionError as error:
            raise ProblemError(404, str(error)) from error
        await self._go_on(path.name)
        return JSONResponse({"id": suspension_id, "given": value})

    async def _go_on(self, run_id: str) -> None:
        """Resume the run unless somebody executes it, who then takes up the answer."""
        view = await run_sync(view_run, self._runs.find(run_id))
        if view.executed or self._runs.is_live(run_id):
            return
        try:
            await self._runs.resume(run_id)
        except ProblemError as error:
            # Another answer has resumed it meanwhile.
            if error.status != 409:
                raise


def _refuse_closed(store: QuestionStore, question_id: str, view: RunView) -> None:
    """Raises ProblemError 404 if there is no such question, 409 if its run has ended without the answer."""
    try:
        asked = store.get(question_id)
    except QuestionError as error:
        raise ProblemError(404, str(error)) from error
    if asked.ending is None and view.status not in ("running", "waiting"):
        raise ProblemError(409, f"pipeline {view.id} is {view.status}; resume it, and it will ask again")


def _to_text(value: Any) -> str:
    match value:
        case str():
            return value
        case bool():
            return _WORDS[value]
        case int() | float():
            return f"{value}"
        case _:
            raise ProblemError(400, "the field 'value' must be the key or label of an option, or a text")
