"""A file of recorded exchanges that people can read and edit: JSON, indented, as plain as it can be.

    {
      "cassette": 1,
      "exchanges": [
        {
          "request": {
            "model": "claude-sonnet-4-5",
            "messages": [{"role": "user", "content": "Say hello."}],
            "provider": "anthropic"
          },
          "response": "Hello!"
        }
      ]
    }

`response` is a text, or a Response as JSON, or left out for an exchange that failed, which has `error` instead (class
name as `type`, `message`, and the error's facts) and may have `partial`, what a stream brought before it broke.
Recorded are fields that are set, without `raw`, and without secrets.
"""

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from unified_llm.client.middlewares.redaction import redact_json, redact_options
from unified_llm.client.middlewares.request_json import request_to_json
from unified_llm.spec import errors
from unified_llm.spec.errors import ConfigurationError, SDKError
from unified_llm.spec.messages import Message
from unified_llm.spec.request import Request
from unified_llm.spec.response import FinishReason, Response

FORMAT = 1

# Half a character, which a model may answer and JSON can escape, but no file can hold.
_SURROGATE = re.compile("[\ud800-\udfff]")

_ERROR_FACTS = ("provider", "status_code", "error_code", "retryable", "retry_after")


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request as JSON, and how it ended: an answer, or an error after as much of a stream as there was.

    `content` is all of it as it stands in the file.
    """

    request: dict[str, Any]
    response: Response | None
    error: SDKError | None
    content: dict[str, Any]


def read_cassette(path: Path) -> list[Exchange]:
    """All exchanges of the file. Raises ConfigurationError that names the place if it can't be used."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"can't read the cassette {path}: {error.strerror or error}", cause=error) from error
    except ValueError as error:
        raise ConfigurationError(f"the cassette {path} is not valid JSON: {error}", cause=error) from error
    if not isinstance(content, dict) or not isinstance(content.get("exchanges"), list):
        raise ConfigurationError(f"the cassette {path} must be an object with a list `exchanges`")
    if content.get("cassette") != FORMAT:
        raise ConfigurationError(f'the cassette {path} must say "cassette": {FORMAT}, the format of this version')
    exchanges = []
    for index, item in enumerate(content["exchanges"]):
        try:
            exchanges.append(_parse_exchange(item))
        except (ValidationError, ValueError, TypeError) as error:
            raise ConfigurationError(
                f"the cassette {path}, exchanges[{index}]: {_reason(error)}", cause=error
            ) from error
    return exchanges


def write_cassette(path: Path, exchanges: Sequence[str]) -> None:
    """Replace the file by one of these rendered exchanges: afterwards it is the new one or the old one, whole."""
    text = f'{{\n  "cassette": {FORMAT},\n  "exchanges": [\n' + ",\n".join(exchanges) + "\n  ]\n}\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def record_exchange(
    request: dict[str, Any], response: Response | None, error: SDKError | None = None, secrets: Sequence[str] = ()
) -> Exchange:
    """The exchange of a plain request, ready to be written."""
    content: dict[str, Any] = {"request": request}
    if error is not None:
        facts = {name: getattr(error, name) for name in _ERROR_FACTS}
        content["error"] = {
            "type": type(error).__name__,
            "message": error.message,
            **{name: value for name, value in facts.items() if value is not None},
        }
    if response is not None:
        content["response" if error is None else "partial"] = _plain_response(response)
    return Exchange(request, response, error, redact_json(content, secrets))


def render_exchange(exchange: Exchange) -> str:
    """The exchange as the text that stands in the file."""
    text = json.dumps(exchange.content, ensure_ascii=False, indent=2)
    text = _SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", text)
    return "\n".join(f"    {line}" for line in text.split("\n"))


def plain_request(request: Request, secrets: Sequence[str] = ()) -> dict[str, Any]:
    """The request as a cassette has it: only what is set, plain messages as text, no secrets."""
    content = request_to_json(request)
    for field in ("provider_options", "metadata"):
        if field in content:
            content[field] = redact_options(content[field], secrets)
    content["messages"] = [_plain_message(message) for message in content["messages"]]
    plain: dict[str, Any] = redact_json(content, secrets)
    return plain


def differences(recorded: Any, asked: Any, place: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Where two JSON values differ: the place, what is recorded there and what is asked; a missing value is None."""
    match recorded, asked:
        case dict(), dict():
            for name in [*recorded, *(name for name in asked if name not in recorded)]:
                inner = f"{place}.{name}" if place else str(name)
                yield from differences(recorded.get(name), asked.get(name), inner)
        case list(), list():
            for index in range(max(len(recorded), len(asked))):
                yield from differences(
                    recorded[index] if index < len(recorded) else None,
                    asked[index] if index < len(asked) else None,
                    f"{place}[{index}]",
                )
        case _ if recorded != asked:
            yield place, recorded, asked


def _plain_message(message: dict[str, Any]) -> dict[str, Any]:
    match message:
        case {"content": [{"kind": "text", "text": str(text), **rest}]} if not rest:
            return {**message, "content": text}
    return message


def _plain_response(response: Response) -> dict[str, Any]:
    content = response.model_dump(mode="json", exclude_defaults=True, exclude={"raw": True, "usage": {"raw"}})
    return {**content, "message": _plain_message(content["message"])}


def _parse_exchange(item: Any) -> Exchange:
    response, error = None, None
    match item:
        case {"request": dict(request), "response": str(text), **rest} if not rest:
            response = _text_response(text, request)
        case {"request": dict(request), "response": dict(content), **rest} if not rest:
            response = Response.model_validate(content)
        case {"request": dict(request), "error": dict(facts), "partial": dict(partial), **rest} if not rest:
            response, error = Response.model_validate(partial), _parse_error(facts)
        case {"request": dict(request), "error": dict(facts), **rest} if not rest:
            error = _parse_error(facts)
        case _:
            raise ValueError("it needs a `request` and either a `response` or an `error`, which may have a `partial`")
    # As this version would record it, whoever wrote it.
    return Exchange(plain_request(Request.model_validate(request)), response, error, item)


def _text_response(text: str, request: dict[str, Any]) -> Response:
    return Response(
        id="cassette",
        model=str(request.get("model", "")),
        provider=str(request.get("provider", "")),
        message=Message.assistant(text),
        finish_reason=FinishReason(reason="stop"),
    )


def _parse_error(content: dict[str, Any]) -> SDKError:
    facts = {**content}
    kind, message = facts.pop("type", None), facts.pop("message", "")
    error_class = getattr(errors, str(kind), None)
    if not (isinstance(error_class, type) and issubclass(error_class, SDKError)):
        raise ValueError(f"the error's type must be one of unified_llm's error classes, but is {kind!r}")
    if unknown := sorted(facts.keys() - set(_ERROR_FACTS)):
        raise ValueError(f"an error has no {unknown[0]!r}; it has type, message, {', '.join(_ERROR_FACTS)}")
    return error_class(message, **facts)


def _reason(error: Exception) -> str:
    if isinstance(error, ValidationError):
        fault = error.errors()[0]
        return f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}"
    return str(error)
