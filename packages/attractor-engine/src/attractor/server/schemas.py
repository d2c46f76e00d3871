"""The shapes of what is sent and answered, as JSON Schema. Answers may have more fields than are named here."""

from typing import Any

Schema = dict[str, Any]


def _object(required: dict[str, Schema], optional: dict[str, Schema] | None = None) -> Schema:
    return {"type": "object", "properties": {**required, **(optional or {})}, "required": list(required)}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _text(description: str = "") -> Schema:
    return {"type": "string", "description": description} if description else {"type": "string"}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


NUMBER: Schema = {"type": "number"}
COUNT: Schema = {"type": "integer", "minimum": 0}
FLAG: Schema = {"type": "boolean"}
ANYTHING: Schema = {}

LIMIT: Schema = {**COUNT, "default": 200, "description": "How many at most."}
OFFSET: Schema = {**COUNT, "default": 0, "description": "How many of the latest to leave out."}
EVENT_NUMBER: Schema = {**COUNT, "default": 0, "description": "Leave out events up to this number."}
FOLLOW: Schema = {**FLAG, "default": True, "description": "Whether to wait for the events to come."}

DIAGNOSTIC = _object(
    {
        "rule": _text(),
        "severity": {"enum": ["error", "warning", "info"]},
        "message": _text(),
        "line": _or_null(COUNT),
        "column": _or_null(COUNT),
        "node": _or_null(_text()),
        "edge": _or_null(_list(_text())),
        "fix": _or_null(_text()),
    }
)
FINDINGS = _object({"diagnostics": _list(DIAGNOSTIC)})
SOURCE = _object({"dot_source": _text("The pipeline in DOT.")})
SUBMISSION = _object(
    {"dot_source": _text("The pipeline in DOT.")},
    {
        "simulate": {**FLAG, "description": "Call no model; tool commands run for real."},
        "dry_run": {**FLAG, "description": "Call no model and run no command either."},
        "auto_approve": {**FLAG, "description": "Answer human gates with their first choice."},
        "context": {"type": "object", "description": "Values that the run's context starts with."},
    },
)
SUBMITTED = _object({"pipeline_id": _text(), "status": _text(), "diagnostics": _list(DIAGNOSTIC)})
RESUMPTION = _object({}, {"from_node": _text("The node to go on from, instead of where the run stopped.")})
STEERING = _object(
    {"text": {**_text("What to tell."), "minLength": 1}},
    {"node_id": _text("Which stage; by default all that are at work.")},
)
STEERED = _object({"stages": _list(_text())})
USAGE = _object({"input_tokens": COUNT, "output_tokens": COUNT, "cost": _or_null(NUMBER)})
OPTION = _object({"key": _text(), "label": _text()})
QUESTION = _object(
    {
        "qid": _text(),
        "stage": _text(),
        "text": _text(),
        "type": {"enum": ["yes_no", "multiple_choice", "freeform", "confirmation"]},
        "options": _list(OPTION),
        "asked_at": NUMBER,
        "deadline": _or_null(NUMBER),
        "ending": _or_null({"enum": ["answered", "timed_out", "withdrawn"]}),
        "answer": _or_null(_text()),
    }
)
QUESTIONS = _object({"questions": _list(QUESTION)})
ANSWER = _object(
    {"value": {"type": ["string", "boolean", "number"], "description": "Key or label of an option, or a text."}}
)
VALUE = _object({"value": {"description": "Any JSON."}})
GIVEN = _object({"id": _text(), "given": ANYTHING})
STATUS: Schema = {"enum": ["running", "waiting", "completed", "failed", "cancelled"]}
_SUMMARY: dict[str, Schema] = {
    "pipeline_id": _text(),
    "status": STATUS,
    "name": _text(),
    "label": _text(),
    "goal": _text(),
    "started_at": NUMBER,
    "updated_at": NUMBER,
    "elapsed": NUMBER,
    "current_node": _text(),
    "next_node": _text(),
    "failure_reason": _text(),
    "interrupted": FLAG,
    "resumable": FLAG,
    "executed": FLAG,
    "dry_run": FLAG,
    "simulate": FLAG,
    "usage": _or_null(USAGE),
    "restarts": COUNT,
}
RUN_SUMMARY = _object({**_SUMMARY, "questions": COUNT})
RUN_LIST = _object({"pipelines": _list(RUN_SUMMARY), "total": COUNT})
RUN = _object(
    {
        **_SUMMARY,
        "questions": _list(QUESTION),
        "suspensions": _list(_object({"id": _text(), "node": _text(), "payload": ANYTHING})),
        "completed_nodes": _list(_text()),
        "node_outcomes": {"type": "object", "additionalProperties": _text()},
        "node_retries": {"type": "object", "additionalProperties": COUNT},
    }
)
CHECKPOINT = _object(
    {
        "timestamp": NUMBER,
        "current_node": _text(),
        "completed_nodes": _list(_text()),
        "node_retries": {"type": "object", "additionalProperties": COUNT},
        "context": {"type": "object"},
        "logs": _list(_text()),
    }
)
CONTEXT: Schema = {"type": "object"}
_VISIT = _object(
    {
        "index": COUNT,
        "status": {"enum": ["running", "retrying", "completed", "failed", "suspended", "interrupted"]},
        "attempts": COUNT,
        "started_at": NUMBER,
        "ended_at": _or_null(NUMBER),
        "duration": NUMBER,
        "error": _text(),
        "activity": _text(),
        "input_tokens": _or_null(COUNT),
        "output_tokens": _or_null(COUNT),
        "cost": _or_null(NUMBER),
    }
)
STAGES = _object({"stages": _list(_object({"node_id": _text(), "status": _text(), "visits": _list(_VISIT)}))})
FILES = _object({"files": _list(_object({"name": _text(), "size": COUNT, "modified_at": NUMBER}))})
HEALTH = _object({"status": _text()})
LOGIN = _object({"token": _text("The server's token.")})
PROBLEM = _object(
    {"type": _text(), "title": _text(), "status": COUNT, "detail": _text()}, {"diagnostics": _list(DIAGNOSTIC)}
)
EVENT = _object(
    {
        "id": _text("Its number in the run."),
        "event": _text("The name of its record, such as StageStarted."),
        "data": _text("The record, as JSON."),
    }
)
"""One of a stream."""
