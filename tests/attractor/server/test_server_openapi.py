"""The OpenAPI document says what the server does, and the server keeps to it."""

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from attractor.events import EVENT_TYPES, Event
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from .conftest import GATE, HELLO, Serve

PAGE = Path(__file__).parents[3] / "docs/server.md"
SPECIFIED = {
    ("POST", "/pipelines"),
    ("GET", "/pipelines/{id}"),
    ("GET", "/pipelines/{id}/events"),
    ("POST", "/pipelines/{id}/cancel"),
    ("GET", "/pipelines/{id}/graph"),
    ("GET", "/pipelines/{id}/questions"),
    ("POST", "/pipelines/{id}/questions/{qid}/answer"),
    ("GET", "/pipelines/{id}/checkpoint"),
    ("GET", "/pipelines/{id}/context"),
}

FEW = settings(
    max_examples=5,
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def operations(document: Any) -> set[tuple[str, str]]:
    return {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}


def test_9_5_every_endpoint_of_the_specification_is_there(serve: Serve) -> None:
    document = serve().client.get("/openapi.json").json()
    assert operations(document) >= SPECIFIED
    ids = [one["operationId"] for methods in document["paths"].values() for one in methods.values()]
    assert len(ids) == len(set(ids))


def test_the_page_of_the_documentation_names_every_operation(serve: Serve) -> None:
    document = serve().client.get("/openapi.json").json()
    rows = re.findall(r"^\| `(GET|POST) (/[^`?]*)`", PAGE.read_text("utf-8"), re.MULTILINE)
    assert set(rows) == operations(document)
    assert len(rows) == len(set(rows))


def test_the_page_of_the_documentation_names_every_event_with_its_fields() -> None:
    rows = re.findall(r"^\| `([A-Z][a-zA-Z]+)` \| ([^|]*) \|", PAGE.read_text("utf-8"), re.MULTILINE)
    told = {name: re.findall(r"`(\w+)`", listed) for name, listed in rows}
    shared = {field.name for field in fields(Event)}
    assert told == {
        name: [field.name for field in fields(kind) if field.name not in shared] for name, kind in EVENT_TYPES.items()
    }


@pytest.mark.xdist_group("schemathesis")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_server_answers_as_its_document_says(serve: Serve) -> None:
    """Whatever requests the document allows, and some that it doesn't."""
    served = serve()
    run_id, waiting = served.submit(HELLO), served.submit(GATE.replace("COUNT", "/dev/null"))
    served.wait_for(run_id, "completed")
    served.wait_for_question(waiting)
    document = served.client.get("/openapi.json").json()
    schema = schemathesis.openapi.from_dict(document)
    checks = [response_schema_conformance, status_code_conformance, content_type_conformance]
    asked: list[int] = []

    def explore(operation: Any, known: dict[str, str]) -> None:
        @FEW
        @given(case=operation.as_strategy())
        def ask(case: Any) -> None:
            if case.path_parameters:
                case.path_parameters = {name: known[name] for name in case.path_parameters}
            if case.path.endswith("/events"):
                case.query = {**(case.query or {}), "follow": "false"}
            asked.append(case.call_and_validate(base_url=served.url, checks=checks, timeout=20).status_code)

        ask()

    for result in schema.get_all_operations():
        for one in (run_id, waiting):
            explore(result.ok(), {"id": one, "qid": "q1", "sid": "s1", "node_id": "say", "name": "prompt.md"})
    assert len(asked) > 60
    assert {200, 204, 404, 409, 422} <= set(asked)
