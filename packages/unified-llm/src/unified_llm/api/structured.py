"""Answers that are JSON of a given schema (sections 4.5 and 4.6)."""

import re
from collections.abc import AsyncIterator, Generator
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self, Unpack

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from unified_llm.api.call import Call, CallOptions, prepare_call
from unified_llm.api.generate import GenerateResult, run_call
from unified_llm.api.json_schema import check_schema, check_value
from unified_llm.api.stream import StreamResult
from unified_llm.provider_utils.json_body import read_json
from unified_llm.spec.errors import ConfigurationError, NoObjectGeneratedError
from unified_llm.spec.events import StreamEventType
from unified_llm.spec.request import ResponseFormat
from unified_llm.spec.response import Response

Schema = dict[str, Any] | type[BaseModel]

# Models that have no native JSON mode like to wrap JSON in a Markdown fence.
_FENCE_START = re.compile(r"\s*```[a-zA-Z]*[ \t]*(?:\r?\n|$)")
_FENCE = re.compile(r"\s*```[a-zA-Z]*[ \t]*\r?\n(.*?)\r?\n?```\s*", re.DOTALL)


async def generate_object(
    model: str, prompt: str | None = None, *, schema: Schema, strict: bool = True, **options: Unpack[CallOptions]
) -> GenerateResult:
    """`generate()` whose result has `output`: the answer, parsed and validated.

    `schema` is a JSON Schema of an object, or a pydantic model class whose instance becomes the output. Raises
    NoObjectGeneratedError, without retrying, when the answer is not such JSON. `strict` asks the provider to enforce
    the schema while it generates.
    """
    target = _Target.of(schema)
    result = await run_call(_prepare(target, model, prompt, strict, options))
    return replace(result, output=target.parse(result.response))


def stream_object(
    model: str, prompt: str | None = None, *, schema: Schema, strict: bool = True, **options: Unpack[CallOptions]
) -> "StreamObjectResult":
    """`generate_object()` that yields the object as it grows, unvalidated; `object()` returns it whole and valid."""
    target = _Target.of(schema)
    return StreamObjectResult(StreamResult(_prepare(target, model, prompt, strict, options)), target)


@dataclass(frozen=True, slots=True)
class _Target:
    """What the answer must become."""

    schema: dict[str, Any]
    model: type[BaseModel] | None

    @classmethod
    def of(cls, schema: Schema) -> Self:
        if isinstance(schema, type) and issubclass(schema, BaseModel):
            return cls(_rooted(schema.model_json_schema()), schema)
        if not isinstance(schema, dict):
            raise ConfigurationError(f"schema must be a JSON Schema or a pydantic model class, but is {schema!r:.100}")
        if (fault := check_schema(schema)) is not None:
            raise ConfigurationError(f"schema is not a valid JSON Schema, {fault}")
        return cls(_rooted(schema), None)

    def parse(self, response: Response) -> Any:
        """The object in the response's text; raises NoObjectGeneratedError."""
        text = response.text
        if fenced := _FENCE.fullmatch(text):
            text = fenced[1]
        try:
            if self.model is not None:
                return self.model.model_validate_json(text)
            value = read_json(text)
        except (ValueError, RecursionError) as error:
            fault = _describe(error) if isinstance(error, ValidationError) else f"it is not JSON: {error}"
            raise _no_object(response, fault, error) from error
        if (mismatch := check_value(value, self.schema)) is not None:
            raise _no_object(response, f"it doesn't match the schema: {mismatch}")
        return value


def _describe(error: ValidationError) -> str:
    first = error.errors()[0]
    place = ".".join(map(str, first["loc"]))
    return f"it doesn't match {error.title}: {place + ': ' if place else ''}{first['msg']}"


def _no_object(response: Response, fault: str, cause: BaseException | None = None) -> NoObjectGeneratedError:
    if not response.text:
        fault = "it has no text"
    reason = response.finish_reason.reason
    ended = "" if reason == "stop" else f" (the model stopped because of {reason!r})"
    return NoObjectGeneratedError(
        f"the model's answer is not the object asked for: {fault}{ended}",
        cause=cause,
        provider=response.provider,
        raw={"text": response.text, "finish_reason": reason},
    )


def _rooted(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema; raises ConfigurationError if it asks for a list, a number or anything else that is no object."""
    if (root := schema.get("type", "object")) != "object":
        raise ConfigurationError(f"schema must have an object at its root, as providers want it, but has {root!r}")
    return schema


def _prepare(target: _Target, model: str, prompt: str | None, strict: bool, options: CallOptions) -> Call:
    if options.get("response_format") is not None:
        raise ConfigurationError("response_format and schema are both given; give only the schema")
    shaped = ResponseFormat(type="json_schema", json_schema=target.schema, strict=strict)
    shaped_options: CallOptions = {**options, "response_format": shaped}
    return prepare_call(model, prompt, **shaped_options)


class StreamObjectResult:
    """The growing object. Each value is parsed afresh from the text so far; equal ones are skipped.

    Closing, failing and `await` work as in StreamResult, which is at `stream`.
    """

    def __init__(self, stream: StreamResult, target: _Target) -> None:
        self.stream = stream
        self._target = target
        self._partials = self._run()

    def __aiter__(self) -> AsyncIterator[Any]:
        return self._partials

    def __await__(self) -> Generator[Any, None, Self]:
        async def itself() -> Self:
            return self

        return itself().__await__()

    async def object(self) -> Any:
        """The complete, validated object. Reads the rest of the stream first; raises NoObjectGeneratedError."""
        return self._target.parse(await self.stream.response())

    async def response(self) -> Response:
        """The response that the object came in."""
        return await self.stream.response()

    async def aclose(self) -> None:
        """Stop, and release the connection."""
        await self.stream.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _run(self) -> AsyncIterator[Any]:
        text, last = "", None
        async for event in self.stream:
            match event.type:
                case StreamEventType.TEXT_DELTA:
                    text += event.delta or ""
                case StreamEventType.STEP_FINISH:
                    text = ""
                    continue
                case _:
                    continue
            value = parse_partial(text)
            if value is not None and value != last:
                last = value
                yield value


def parse_partial(text: str) -> Any:
    """What an incomplete JSON text says so far; None as long as that is nothing."""
    if fence := _FENCE_START.match(text):
        text = text[fence.end() :]
    try:
        return from_json(text.rstrip("`") if fence else text, allow_partial="trailing-strings")
    except ValueError:
        return None
