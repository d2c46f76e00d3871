"""Gemini CLI: `gemini --output-format stream-json`, an event a line, the last one of type `result`."""

from collections.abc import Mapping, Sequence

from unified_llm import (
    AuthenticationError,
    ConfigurationError,
    InvalidRequestError,
    SDKError,
    Usage,
    cost_of,
)

from attractor.backends.cli_agent_answer import (
    CliAnswer,
    CliCall,
    CliUse,
    Event,
    classify,
    count_of,
    make_usage,
    mapping_of,
    text_of,
)

_TURN_LIMIT = "FatalTurnLimitedError"


class GeminiFormat:
    """Edits are accepted; what else may run is for the user's settings and options to say (`--approval-mode`)."""

    executable = "gemini"
    provider = "gemini"
    install = "npm install -g @google/gemini-cli"
    login = "log in with `gemini`, or set GEMINI_API_KEY"
    counts_threads = False
    exit_errors: Mapping[int, type[SDKError]] = {
        41: AuthenticationError,
        42: InvalidRequestError,
        52: ConfigurationError,
    }

    def write_arguments(self, call: CliCall) -> list[str]:
        """It takes no effort: that is a setting of its models."""
        arguments = ["--output-format", "stream-json", "--approval-mode", "auto_edit", "--skip-trust"]
        if call.model:
            arguments += ["--model", call.model]
        if call.session:
            arguments += ["--resume", call.session]
        if call.stage_dir:
            arguments += ["--include-directories", call.stage_dir]
        return [*arguments, *call.options]

    def read_use(self, event: Event) -> CliUse | None:
        """It tells at the end."""
        return None

    def read_events(self, events: Sequence[Event]) -> CliAnswer:
        session = ""
        pieces: list[str] = []
        stopped = ""
        for event in events:
            match event.get("type"):
                case "init":
                    session = text_of(event.get("session_id"))
                case "message" if event.get("role") == "assistant":
                    pieces.append(text_of(event.get("content")))
                case "tool_use":
                    # What it said before it went to work isn't its answer.
                    pieces.clear()
                case "error" if event.get("severity") == "error":
                    stopped = text_of(event.get("message"))
                case "result":
                    return _read_result(event, session, "".join(pieces), stopped)
        return CliAnswer(text="".join(pieces), session=session, error=classify(stopped) if stopped else None)


def _read_result(event: Event, session: str, text: str, stopped: str) -> CliAnswer:
    stats = mapping_of(event.get("stats"))
    failure = mapping_of(event.get("error"))
    kind, message = text_of(failure.get("type")), text_of(failure.get("message"))
    error: SDKError | None = None
    cut_short = f"was stopped ({stopped})" if stopped else ""
    if kind == _TURN_LIMIT:
        cut_short = "reached its limit of turns"
    elif event.get("status") != "success":
        cut_short = ""
        error = classify(message or stopped or kind or "it failed", AuthenticationError if "Auth" in kind else None)
    return CliAnswer(
        text=text,
        session=session,
        usage=_read_usage(stats),
        cost=_price(mapping_of(stats.get("models"))),
        complete=True,
        cut_short=cut_short,
        error=error,
    )


def _read_usage(stats: Event) -> Usage | None:
    """Its total has the thoughts, which are output, and its output tokens have not."""
    prompt = count_of(stats.get("input_tokens"))
    output = max(count_of(stats.get("output_tokens")), count_of(stats.get("total_tokens")) - prompt)
    return make_usage(prompt, output, cached=count_of(stats.get("cached")))


def _price(models: Event) -> float | None:
    costs = []
    for name, stats in models.items():
        usage = _read_usage(mapping_of(stats))
        costs.append(0.0 if usage is None else cost_of(usage, name))
    known = [cost for cost in costs if cost is not None]
    return sum(known) if costs and len(known) == len(costs) else None
