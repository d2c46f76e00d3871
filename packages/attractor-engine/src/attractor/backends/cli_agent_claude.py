"""Claude Code: `claude -p --output-format stream-json`, a JSON object a line, the last one of type `result`."""

from collections.abc import Mapping, Sequence

from unified_llm import (
    AuthenticationError,
    InvalidRequestError,
    QuotaExceededError,
    RateLimitError,
    SDKError,
    ServerError,
    Usage,
)

from attractor.backends.cli_agent_answer import (
    CliAnswer,
    CliCall,
    CliUse,
    Event,
    classify,
    cost_in,
    count_of,
    make_usage,
    mapping_of,
    text_of,
)

_EFFORTS = {"none": "low", "minimal": "low"}
_ERRORS: Mapping[str, type[SDKError]] = {
    "authentication_failed": AuthenticationError,
    "billing_error": QuotaExceededError,
    "rate_limit": RateLimitError,
    "invalid_request": InvalidRequestError,
    "server_error": ServerError,
}
_CUT_SHORT = {
    "error_max_turns": "reached its limit of turns",
    "error_max_budget_usd": "reached its budget",
}


class ClaudeFormat:
    """Edits are accepted; what else may run is for the user's settings and options to say (`--allowedTools`)."""

    executable = "claude"
    provider = "anthropic"
    install = "npm install -g @anthropic-ai/claude-code"
    login = "log in with `claude`, or set ANTHROPIC_API_KEY"
    counts_threads = False
    exit_errors: Mapping[int, type[SDKError]] = {}

    def write_arguments(self, call: CliCall) -> list[str]:
        arguments = ["-p", "--output-format", "stream-json", "--verbose", "--permission-mode", "acceptEdits"]
        if call.model:
            arguments += ["--model", call.model]
        if call.effort:
            arguments += ["--effort", _EFFORTS.get(call.effort, call.effort)]
        if call.session:
            arguments += ["--resume", call.session]
        if call.stage_dir:
            arguments += ["--add-dir", call.stage_dir]
        return [*arguments, *call.options]

    def read_events(self, events: Sequence[Event]) -> CliAnswer:
        session = said = code = ""
        for event in events:
            session = text_of(event.get("session_id")) or session
            match event.get("type"):
                case "assistant":
                    said = _read_text(event) or said
                    code = text_of(event.get("error")) or code
                case "result":
                    return _read_result(event, session, said, code)
        return CliAnswer(text=said, session=session, error=classify(said, _ERRORS.get(code)) if code else None)

    def read_use(self, event: Event) -> CliUse | None:
        """Each block of an answer is an event of its own, with what the answer used until then."""
        message = mapping_of(event.get("message"))
        usage = _read_usage(mapping_of(message.get("usage"))) if event.get("type") == "assistant" else None
        if usage is None:
            return None
        return CliUse(call=text_of(message.get("id")), usage=usage, model=text_of(message.get("model")))


def _read_text(event: Event) -> str:
    content = mapping_of(event.get("message")).get("content")
    parts = [mapping_of(part) for part in content] if isinstance(content, list) else []
    return "".join(text_of(part.get("text")) for part in parts if part.get("type") == "text")


def _read_result(event: Event, session: str, said: str, code: str) -> CliAnswer:
    subtype = text_of(event.get("subtype"))
    text = text_of(event.get("result")) or said
    error = None
    if subtype not in _CUT_SHORT and (event.get("is_error") or subtype != "success"):
        errors = event.get("errors")
        listed = "; ".join(map(str, errors)) if isinstance(errors, list) else ""
        error = classify(listed or text or subtype, _ERRORS.get(code))
    return CliAnswer(
        text=text,
        session=session,
        usage=_read_usage(mapping_of(event.get("usage"))),
        cost=cost_in(event.get("total_cost_usd")),
        complete=True,
        cut_short=_CUT_SHORT.get(subtype, ""),
        error=error,
    )


def _read_usage(usage: Event) -> Usage | None:
    """Its input tokens are those beside the cache."""
    cached, written = (count_of(usage.get(f"cache_{what}_input_tokens")) for what in ("read", "creation"))
    fresh, output = count_of(usage.get("input_tokens")), count_of(usage.get("output_tokens"))
    return make_usage(fresh + cached + written, output, cached=cached, written=written)
