"""Which error a provider's answer becomes, and how long it says to wait."""

import json
from datetime import UTC, datetime

import pytest
from unified_llm.provider_utils.error_mapping import error_from_event, error_from_response
from unified_llm.spec import errors

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)


def from_response(status, body=None, *, headers=None, text=None):
    text = json.dumps(body) if text is None else text
    return error_from_response(provider="acme", status=status, headers=headers or {}, body=body, text=text, now=NOW)


def openai(message="", **fields):
    return {"error": {"message": message, **fields}}


def google(code, status, *details):
    return {"error": {"code": code, "message": "no", "status": status, "details": list(details)}}


@pytest.mark.parametrize(
    ("status", "name", "retryable"),
    [
        (400, "InvalidRequestError", False),
        (401, "AuthenticationError", False),
        (402, "QuotaExceededError", False),
        (403, "AccessDeniedError", False),
        (404, "NotFoundError", False),
        (408, "RequestTimeoutError", False),
        (413, "ContextLengthError", False),
        (422, "InvalidRequestError", False),
        (429, "RateLimitError", True),
        *((status, "ServerError", True) for status in (500, 502, 503, 504, 505, 529, 599)),
        (418, "ProviderError", True),
        (409, "ProviderError", True),
    ],
)
def test_statuses(status, name, retryable):
    error = from_response(status, text="")
    assert type(error).__name__ == name
    assert (error.retryable, error.status_code, error.provider) == (retryable, status, "acme")
    assert f"acme answered {status}" in str(error)


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("NOT_FOUND", "NotFoundError"),
        ("INVALID_ARGUMENT", "InvalidRequestError"),
        ("UNAUTHENTICATED", "AuthenticationError"),
        ("PERMISSION_DENIED", "AccessDeniedError"),
        ("RESOURCE_EXHAUSTED", "RateLimitError"),
        ("UNAVAILABLE", "ServerError"),
        ("DEADLINE_EXCEEDED", "RequestTimeoutError"),
        ("INTERNAL", "ServerError"),
    ],
)
def test_grpc_codes(code, name):
    assert type(from_response(418, google(418, code))).__name__ == name
    assert type(error_from_event(provider="acme", payload={"error": {"status": code}})).__name__ == name


@pytest.mark.parametrize(
    ("status", "body", "name"),
    [
        # The code is more telling than the status ...
        (429, openai(code="insufficient_quota", type="rate_limit_error"), "QuotaExceededError"),
        (429, openai("You exceeded your current quota, check billing", code="rate_limit_exceeded"), "RateLimitError"),
        (413, openai("tokens per minute", type="tokens", code="rate_limit_exceeded"), "RateLimitError"),
        (400, openai("no such thing", code="model_not_found"), "NotFoundError"),
        (400, openai("too long", code="context_length_exceeded"), "ContextLengthError"),
        (400, openai("bad", code="content_policy_violation"), "ContentFilterError"),
        (400, google(400, "INVALID_ARGUMENT", {"reason": "API_KEY_INVALID"}), "AuthenticationError"),
        (529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "ServerError"),
        # ... unless it is one that a server sends with everything.
        (401, openai("Unauthorized", type="api_error"), "AuthenticationError"),
        (500, openai("no", type="invalid_request_error"), "ServerError"),
        # Where neither says enough, the message does.
        (400, {"code": "invalid-argument", "error": "Incorrect API key provided."}, "AuthenticationError"),
        (400, openai("Your credit balance is too low"), "QuotaExceededError"),
        (400, openai("the tool foo was not found"), "NotFoundError"),
        (400, openai("blocked by our content filter"), "ContentFilterError"),
        (400, openai("violates the safety policy"), "ContentFilterError"),
        (400, openai("unknown field safety_settings"), "InvalidRequestError"),
        (400, openai("prompt is too long: 210000 tokens > 200000 maximum"), "ContextLengthError"),
        (400, openai("exceed context limit: 174167 + 64000 > 200000"), "ContextLengthError"),
        (400, openai("maximum context length is 8192 tokens"), "ContextLengthError"),
        (400, openai("max_tokens: 99999 > 64000, the maximum number of output tokens"), "InvalidRequestError"),
        (403, openai("not found"), "AccessDeniedError"),
        # Odd shapes.
        (400, [google(400, "INVALID_ARGUMENT", {"reason": "API_KEY_INVALID"})], "AuthenticationError"),
        (400, {"detail": "model 'x' does not exist"}, "NotFoundError"),
        (422, {"detail": [{"loc": ["body"], "msg": "field required"}]}, "InvalidRequestError"),
        (400, {"object": "error", "message": "no", "type": "BadRequestError", "code": 400}, "InvalidRequestError"),
        (503, {"error": "overloaded"}, "ServerError"),
        (500, {"error": None}, "ServerError"),
        (500, {"error": {"code": None, "message": None, "details": "none"}}, "ServerError"),
        (500, [], "ServerError"),
        (500, "text", "ServerError"),
    ],
)  # fmt: skip
def test_bodies(status, body, name):
    assert type(from_response(status, body)).__name__ == name


@pytest.mark.parametrize(
    ("payload", "name"),
    [
        ({"type": "error", "error": {"type": "overloaded_error", "message": "x"}}, "ServerError"),
        ({"type": "error", "error": {"type": "rate_limit_error", "message": "x"}}, "RateLimitError"),
        ({"type": "error", "error": {"type": "api_error", "message": "x"}}, "ServerError"),
        ({"type": "error", "code": "server_is_overloaded", "message": "x"}, "ServerError"),
        ({"type": "error", "error": {"type": "invalid_request_error", "message": "x"}}, "InvalidRequestError"),
        ({"error": {"message": "x", "code": 429}}, "RateLimitError"),
        ({"error": {"message": "x", "type": "invalid_request_error", "status_code": 404}}, "NotFoundError"),
        ({"error": {"code": 503, "message": "x", "status": "UNAVAILABLE"}}, "ServerError"),
        ({"type": "response.failed", "response": {"error": {"code": "server_error", "message": "x"}}}, "ServerError"),
        ({"error": {"message": "something new", "code": "unheard_of"}}, "ProviderError"),
    ],
)
def test_errors_inside_a_200(payload, name):
    error = error_from_event(provider="acme", payload=payload)
    assert type(error).__name__ == name
    assert error.status_code is None
    assert error.raw == payload


def test_what_the_error_carries():
    body = openai("bad model", type="invalid_request_error", code="model_not_found")
    error = from_response(404, body)
    assert (error.error_code, error.raw) == ("model_not_found", body)
    assert str(error) == "acme answered 404 (model_not_found): bad model"
    assert from_response(429, google(429, "RESOURCE_EXHAUSTED")).error_code == "RESOURCE_EXHAUSTED"
    assert from_response(500, text="<html>oops</html>").raw == {"body": "<html>oops</html>"}
    assert len(from_response(500, text="x" * 10_000).raw["body"]) == 4096


def test_what_the_provider_behind_a_relay_said_is_in_the_message():
    body = openai("Provider returned error", code=400, metadata={"raw": "at most 1 image", "provider_name": "x"})
    assert "at most 1 image" in str(from_response(400, body))


def retry_info(delay):
    return google(429, "RESOURCE_EXHAUSTED", {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay})


@pytest.mark.parametrize(
    ("headers", "body", "seconds"),
    [
        ({}, None, None),
        ({"retry-after": "7"}, None, 7),
        ({"retry-after": "1.5"}, None, 1.5),
        ({"retry-after": "0"}, None, 0),
        ({"retry-after": "Mon, 30 Nov 2026 12:00:20 GMT"}, None, 20),
        ({"retry-after": "Mon, 30 Nov 2026 12:00:20 GMT", "date": "Mon, 30 Nov 2026 12:00:15 GMT"}, None, 5),
        ({"retry-after-ms": "1500"}, None, 1.5),
        ({"retry-after-ms": "0", "retry-after": "1"}, None, 1),
        ({"retry-after-ms": "2500", "retry-after": "1"}, None, 2.5),
        ({}, retry_info("48s"), 48),
        ({}, retry_info("45.837906927s"), 45.837906927),
        ({"retry-after": "10"}, retry_info("48s"), 48),
        ({"retry-after": "60"}, retry_info("48s"), 60),
        ({"retry-after": "86400"}, None, 86400),
        # Mistakes are ignored.
        ({"retry-after": "-1"}, None, None),
        ({"retry-after": "999999999"}, None, None),
        ({"retry-after": "inf"}, None, None),
        ({"retry-after": "nan", "retry-after-ms": "50"}, None, 0.05),
        ({"retry-after": "soon"}, None, None),
        ({"retry-after": ""}, None, None),
        ({"retry-after": "Mon, 30 Nov 2020 12:00:00 GMT"}, None, None),
        ({}, retry_info("-5s"), None),
        ({}, retry_info("later"), None),
        ({}, retry_info(None), None),
    ],
)
def test_how_long_to_wait(headers, body, seconds):
    error = from_response(429, body, headers=headers)
    assert error.retry_after == (None if seconds is None else pytest.approx(seconds))
    assert isinstance(error, errors.RateLimitError)
    assert error.retryable


@pytest.mark.parametrize("api", ["anthropic-messages", "openai-chat", "openai-responses", "gemini"])
def test_recorded_error_answers(api, replay, recordings):
    """Every answer with an error status, of every protocol; those inside a 200 are the adapters' business."""
    found = [item for item in replay.load(recordings, api) if item.status >= 400]
    assert found
    for item in found:
        text = item.content.decode()
        body = json.loads(text)
        headers = {name.lower(): value for name, value in item.headers.items()}
        error = error_from_response(provider="acme", status=item.status, headers=headers, body=body, text=text)
        assert replay.check(replay.Observed(error=error), item.expected) == [], item.id
