"""How many tokens a call takes: what the provider reports, and an estimate where it reports nothing. Pure."""

from pydantic_core import to_json

from unified_llm.spec.events import StreamEvent, StreamEventType
from unified_llm.spec.messages import ContentPart
from unified_llm.spec.request import Request
from unified_llm.spec.response import Usage

# Rules of thumb: English and code run at about four characters a token, and pictures at about a thousand tokens.
CHARACTERS_PER_TOKEN = 4
TOKENS_PER_MEDIUM = 1_000


def estimate_input_tokens(request: Request) -> int:
    """The size of the prompt in tokens, tools included, by rule of thumb and never below 1."""
    characters = sum(_characters(part) for message in request.messages for part in message.content)
    for tool in request.tools or ():
        characters += len(tool.name) + len(tool.description) + len(to_json(tool.parameters))
    media = sum(
        part.image is not None or part.audio is not None or part.document is not None
        for message in request.messages
        for part in message.content
    )
    return max(1, characters // CHARACTERS_PER_TOKEN + media * TOKENS_PER_MEDIUM)


def _characters(part: ContentPart) -> int:
    if part.text is not None:
        return len(part.text)
    if part.tool_result is not None:
        content = part.tool_result.content
        return len(content) if isinstance(content, str) else len(to_json(content))
    if part.tool_call is not None:
        arguments = part.tool_call.raw_arguments or part.tool_call.arguments
        return len(arguments) if isinstance(arguments, str) else len(to_json(arguments))
    return len(part.thinking.text) if part.thinking is not None else 0


def total_tokens(usage: Usage) -> int:
    """Input and output together, also where the total was left out."""
    return max(usage.total_tokens, usage.input_tokens + usage.output_tokens)


class StreamMeter:
    """Counts one stream. `process()` takes every event; `usage()` may be asked at any time."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._reported: Usage | None = None
        self._characters = 0
        self.model: str | None = None

    def process(self, event: StreamEvent) -> None:
        """Take the next event."""
        if event.delta is not None:
            self._characters += len(event.delta)
        elif event.reasoning_delta is not None:
            self._characters += len(event.reasoning_delta)
        elif event.type == StreamEventType.FINISH:
            self._reported = event.usage or (event.response.usage if event.response is not None else None)
            self.model = event.response.model if event.response is not None else None

    def usage(self) -> Usage:
        """What the provider reported at the end. A stream that broke off is estimated, for it is billed all the same;
        one that brought nothing counts nothing.
        """
        if self._reported is not None:
            return self._reported
        if not self._characters:
            return Usage()
        input_tokens = estimate_input_tokens(self._request)
        output_tokens = -(-self._characters // CHARACTERS_PER_TOKEN)
        return Usage(input_tokens=input_tokens, output_tokens=output_tokens, total_tokens=input_tokens + output_tokens)
