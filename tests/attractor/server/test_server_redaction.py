"""No secret in answers, events and logs."""

import json
import logging
from pathlib import Path

import pytest
from attractor.server.redaction import HIDDEN, RedactingFilter, Redactor
from hypothesis import given
from hypothesis import strategies as st

from .conftest import HELLO, Serve, command_pipeline

SECRET = 'pa"ss\\wörd-1234'
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.sampled_from(["Bearer abcdefgh1", "sk-" + "a" * 20, SECRET]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["password", "api_key", "authorization", "x"]) | st.text(), inner, max_size=4)
    ),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Authorization: Bearer abc.def-123", f"Authorization: {'Bearer '}{HIDDEN}"),
        ("curl -H 'authorization: token deadbeef99'", f"curl -H 'authorization: token {HIDDEN}'"),
        ("Bearer abcdefghijk", f"Bearer {HIDDEN}"),
        ('{"api_key": "0123456789"}', f'{{"api_key": "{HIDDEN}"}}'),
        ("x-api-key=0123456789", f"x-api-key={HIDDEN}"),
        ("key sk-ant-api03-abcdefgh12345", f"key {HIDDEN}"),
        ("AIza" + "x" * 35, HIDDEN),
        ("ghp_" + "a" * 36, HIDDEN),
        ("AKIAABCDEFGHIJKLMNOP", HIDDEN),
        ("postgres://ann:hunter2@db/x", f"postgres://ann:{HIDDEN}@db/x"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----", HIDDEN),
        (f"it is {SECRET}!", f"it is {HIDDEN}!"),
        ("the token of a sentence, a key idea, asia, http://localhost:7777/x@y", None),
        ("a risk-based approach, tokens: 1234", None),
    ],
)
def test_what_is_hidden(text: str, shown: str | None) -> None:
    assert Redactor([SECRET, "short"]).redact(text) == (text if shown is None else shown)


def test_variables_that_are_named_like_secrets_are_known() -> None:
    environ = {"OPENAI_API_KEY": "value-of-key-1", "EDITOR": "an-editor", "CI_JOB_TOKEN": "value-of-token"}
    redactor = Redactor.from_environment(environ, ["more-than-that"])
    text = " ".join([*environ.values(), "more-than-that"])
    assert redactor.redact(text) == f"{HIDDEN} an-editor {HIDDEN} {HIDDEN}"


@given(JSON)
def test_json_stays_json_and_tells_no_secret(value: object) -> None:
    redactor = Redactor([SECRET])
    for ascii_only in (True, False):
        told = redactor.redact_json(json.dumps(value, ensure_ascii=ascii_only))
        assert json.dumps(SECRET)[1:-1] not in json.dumps(json.loads(told))


def test_nothing_that_is_served_tells_a_secret(serve: Serve, tmp_path: Path) -> None:
    served = serve(redactor=Redactor(["super-secret-value"]))
    (tmp_path / "secret").write_text("super-secret-value and Bearer abcdefgh12345")
    source = command_pipeline(f"cat {tmp_path}/secret; cat {tmp_path}/secret >&2; exit 1").replace(
        "digraph one {", 'digraph one { goal="know super-secret-value"; '
    )
    run_id = served.submit(source, context={"password": "abcdefgh-password", "note": "super-secret-value"})
    run = served.wait_for(run_id, "failed")
    assert HIDDEN in run["goal"]
    assert served.get(run_id, "/context")["password"] == HIDDEN
    paths = [
        "",
        "/checkpoint",
        "/context",
        "/stages",
        "/source",
        "/graph",
        "/events",
        "/stages/build/files/tool_output.txt",
    ]
    for path in [*(f"/pipelines/{run_id}{path}" for path in paths), "/pipelines"]:
        answer = served.client.get(path)
        assert answer.status_code == 200, path
        for secret in ("super-secret-value", "abcdefgh12345", "abcdefgh-password"):
            assert secret not in answer.text, path


def test_logs_tell_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    caplog.handler.addFilter(RedactingFilter(Redactor(["super-secret-value"])))
    caplog.handler.setFormatter(logging.Formatter("%(message)s"))
    try:
        raise ValueError("super-secret-value")
    except ValueError:
        logging.getLogger("some.library").exception("with %s and %d", "super-secret-value", 3)
    assert "super-secret-value" not in caplog.text
    assert f"with {HIDDEN} and 3" in caplog.text
    assert f"ValueError: {HIDDEN}" in caplog.text


def test_no_answer_tells_where_runs_lie_on_the_disk(serve: Serve) -> None:
    served = serve()
    run_id = served.submit(HELLO)
    served.events(run_id)
    run = served.root / run_id
    for name in ("checkpoint.json", "journal.jsonl"):
        (run / name).write_text("{}\n")
    (run / "events.jsonl").write_text("{damaged\n")
    asked = [
        served.client.get(f"/pipelines/{run_id}{path}")
        for path in ("", "/checkpoint", "/context", "/stages", "/questions", "/graph", "/artifacts/none")
    ]
    asked.append(served.client.post(f"/pipelines/{run_id}/questions/none/answer", json={"value": "Y"}))
    asked.append(served.client.post(f"/pipelines/{run_id}/resume"))
    asked.append(served.client.get("/pipelines"))
    assert len({answer.status_code for answer in asked}) > 2
    assert not [answer.text for answer in asked if str(served.root) in answer.text]
