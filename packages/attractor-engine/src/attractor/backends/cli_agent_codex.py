"""Codex: `codex exec --json`, an event a line, a turn ending with `turn.completed` or `turn.failed`."""

from collections.abc import Mapping, Sequence

from unified_llm import SDKError, Usage

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

_EFFORTS = {"max": "xhigh"}


class CodexFormat:
    """Files in the work directory may be changed, and commands run, in its own sandbox."""

    executable = "codex"
    provider = "openai"
    install = "npm install -g @openai/codex"
    login = "log in with `codex login`, or set CODEX_API_KEY"
    counts_threads = True
    exit_errors: Mapping[int, type[SDKError]] = {}

    def write_arguments(self, call: CliCall) -> list[str]:
        arguments = ["exec", "--json", "--skip-git-repo-check", "--sandbox", "workspace-write"]
        if call.model:
            arguments += ["--model", call.model]
        if call.effort:
            arguments += ["--config", f'model_reasoning_effort="{_EFFORTS.get(call.effort, call.effort)}"']
        if call.stage_dir:
            arguments += ["--add-dir", call.stage_dir]
        # Options of `exec` stand before its subcommand; the dash is stdin.
        return [*arguments, *call.options, *(["resume", call.session] if call.session else []), "-"]

    def read_use(self, event: Event) -> CliUse | None:
        """It tells at the end."""
        return None

    def read_events(self, events: Sequence[Event]) -> CliAnswer:
        session = text = trouble = ""
        usage: Usage | None = None
        error: SDKError | None = None
        complete = False
        for event in events:
            match event.get("type"):
                case "thread.started":
                    session = text_of(event.get("thread_id"))
                case "item.completed":
                    text = _read_text(mapping_of(event.get("item"))) or text
                case "turn.completed":
                    usage, complete, error = _read_usage(mapping_of(event.get("usage"))), True, None
                case "turn.failed":
                    failure = text_of(mapping_of(event.get("error")).get("message"))
                    error = classify(failure or trouble or "the turn failed")
                case "error":
                    # It tells of reconnecting in such events too, so that one alone is no failure.
                    trouble = text_of(event.get("message"))
        if error is None and not complete and trouble:
            error = classify(trouble)
        return CliAnswer(text=text, session=session, usage=usage, complete=complete, error=error)


def _read_text(item: Event) -> str:
    kind = item.get("type") or item.get("item_type")
    return text_of(item.get("text")) if kind in ("agent_message", "assistant_message") else ""


def _read_usage(usage: Event) -> Usage | None:
    return make_usage(
        count_of(usage.get("input_tokens")),
        count_of(usage.get("output_tokens")),
        cached=count_of(usage.get("cached_input_tokens")),
    )
