"""The OpenAPI document: made from the operations themselves, so that it says what they do."""

import re
from collections.abc import Iterable
from http import HTTPStatus
from importlib.metadata import version
from typing import Any

from attractor.server import schemas
from attractor.server.operations import Answer, Operation

_PROBLEM = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
_PARAMETERS = {
    "id": "The id of a run, as submitting it answered.",
    "qid": "The id of a question.",
    "sid": "The id of a suspended stage.",
    "node_id": "The id of a node, percent-encoded.",
    "name": "The name of a file, percent-encoded.",
}
_EXPLANATIONS = {
    400: "The request can't be understood.",
    401: "The token is missing or wrong.",
    403: "The request comes from another site, or asks for a name that isn't the server's.",
    404: "There is no such thing.",
    409: "As things stand this can't be done.",
    413: "The body is too large.",
    415: "The body is not application/json.",
    422: "What was sent can't be used; `diagnostics` says where a pipeline is wrong.",
    500: "The server can't do it, and its log says why.",
    501: "This server can't draw graphs.",
    503: "The server is being stopped.",
}


def describe(operations: Iterable[Operation]) -> dict[str, Any]:
    """The document, in version 3.1 of OpenAPI."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _describe_operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Attractor",
            "version": version("attractor-engine"),
            "description": "Pipelines of language model stages, tools and people. Answers may have more fields than "
            "are named here, and unknown fields of requests are ignored.",
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": {"Problem": schemas.PROBLEM},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": "attractor_session"},
            },
        },
        "security": [{}, {"token": []}, {"session": []}],
    }


def _describe_operation(operation: Operation) -> dict[str, Any]:
    names = re.findall(r"\{(\w+)\}", operation.path)
    described: dict[str, Any] = {
        "operationId": operation.operation_id,
        "summary": operation.summary,
        "parameters": [
            *({"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names),
            *({"name": name, "in": "query", "schema": schema} for name, schema in operation.query.items()),
        ],
        "responses": {
            **{str(status): _describe_answer(answer) for status, answer in operation.answers.items()},
            **{str(status): _describe_problem(status) for status in list_problems(operation)},
        },
    }
    for parameter in described["parameters"]:
        if parameter["in"] == "path":
            parameter["description"] = _PARAMETERS[parameter["name"]]
    if operation.body is not None:
        described["requestBody"] = {
            "required": bool(operation.body["required"]),
            "content": {"application/json": {"schema": operation.body}},
        }
    return described


def list_problems(operation: Operation) -> list[int]:
    """The statuses of the errors that an operation may answer."""
    missing = (404,) if "{" in operation.path else ()
    sends = (413, 415) if operation.method == "POST" else ()
    return sorted({400, 401, 403, 500, *missing, *sends, *operation.problems})


def _describe_answer(answer: Answer) -> dict[str, Any]:
    described: dict[str, Any] = {"description": answer.description}
    if answer.schema is not None:
        kinds = [kind for kind in (answer.media_type, answer.or_media_type) if kind]
        described["content"] = {kind: {"schema": answer.schema} for kind in kinds}
    return described


def _describe_problem(status: int) -> dict[str, Any]:
    return {"description": _EXPLANATIONS.get(status, HTTPStatus(status).phrase), "content": _PROBLEM}
