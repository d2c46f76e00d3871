"""The command line of a coding agent per stage: Claude Code, Codex or Gemini CLI, as installed and logged in here."""

import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import anyio
from agent_loop import EnvironmentPolicy, ExecResult, LocalExecutionEnvironment
from unified_llm import AuthenticationError, SDKError, StreamError, Usage, cost_of

from attractor.backends.cli_agent_answer import CliAnswer, CliCall, CliFormat, classify, make_usage, parse_events
from attractor.backends.cli_agent_claude import ClaudeFormat
from attractor.backends.cli_agent_codex import CodexFormat
from attractor.backends.cli_agent_gemini import GeminiFormat
from attractor.backends.cli_agent_output import CliOutput
from attractor.backends.threads import find_thread
from attractor.errors import PipelineConfigurationError
from attractor.graph import Graph, Node
from attractor.outcome import Outcome
from attractor.state.context import Context
from attractor.state.run_directory import STAGE_DIR_VARIABLE
from attractor.state.stage_files import open_text, read_file, write_file
from attractor.state.usage import TokenUsage

CLI_FORMATS: Mapping[str, CliFormat] = {"claude": ClaudeFormat(), "codex": CodexFormat(), "gemini": GeminiFormat()}
"""The command lines that can be called, by name."""
OUTPUT_NAME = "cli_output.txt"
ERRORS_NAME = "cli_errors.txt"
_PROMPT_NAME = "cli_prompt.md"
_REASON_CHARACTERS = 2_000
# The node's own timeout ends a stage, by cancelling it.
_NO_TIMEOUT_MS = 10 * 365 * 86_400_000
_LOST_SESSION = ("no conversation found", "no previous sessions", "invalid session", "session not found", "no rollout")


class CliAgentBackend:
    """Gives the stage's prompt to another program that is a coding agent, and waits until that has done the work.

    `name` is one of CLI_FORMATS. It works in `working_dir` with this process's environment, or `environ`, and as
    whoever is logged in to it; `options` are passed on to it as they are. The model is the node's, else the graph's,
    else `model`, else its own default. Stages of `full` fidelity and the same thread carry one conversation on.

    The agent reports by writing status.json, as it is told behind the prompt. If it doesn't, the stage succeeds when
    the agent ended by itself. What it writes goes to cli_output.txt and cli_errors.txt in the stage's directory as it
    comes. When a stage is cancelled, or runs out of time, or out of budget where the program tells what it uses while
    it works (claude does), the program and all that it started are ended; so is one that hasn't ended `linger` seconds
    after its answer.

    Raises PipelineConfigurationError where the program is not installed or serves another provider; errors of
    unified_llm for what it reports (AuthenticationError where nobody is logged in, RateLimitError and so on), and
    StreamError for an output without its end.
    """

    def __init__(
        self,
        name: str,
        *,
        executable: str = "",
        model: str = "",
        working_dir: str | Path | None = None,
        options: Sequence[str] = (),
        environ: Mapping[str, str] | None = None,
        linger: float = 60.0,
    ) -> None:
        if name not in CLI_FORMATS:
            raise PipelineConfigurationError(
                f"no command line is known as {name!r}; known are {', '.join(CLI_FORMATS)}"
            )
        self._format = CLI_FORMATS[name]
        self._executable = executable or self._format.executable
        self._model = model
        self._working_dir = Path(working_dir or ".").absolute()
        self._options = tuple(options)
        self._environ = os.environ if environ is None else environ
        self._linger = linger
        self._sessions: dict[tuple[str, str], str] = {}
        self._counted: dict[str, Usage] = {}

    async def run(self, node: Node, prompt: str, context: Context) -> str | Outcome:
        self._refuse_other_provider(node, context)
        model = node.llm_model or context.get_string("graph.llm_model") or self._model
        thread = find_thread(node, context)
        stage_dir = context.run.stage_dir
        call = CliCall(
            model=model,
            effort=node.reasoning_effort,
            session=self._sessions.get(thread, "") if thread else "",
            stage_dir=str(stage_dir or ""),
            options=self._options,
        )
        with _open_folder(stage_dir) as folder:
            text = prompt + (_explain_report(node, context.run.graph, stage_dir) if stage_dir else "")
            write_file(folder / _PROMPT_NAME, text.encode("utf-8", "replace"))
            ended = await self._execute(call, folder, context)
        if isinstance(ended, str):
            return Outcome.fail(f"stage {node.id!r} was stopped: {ended}", terminal=True)
        answer, result = ended
        if thread:
            self._keep_session(thread, answer)
        return self._judge(node, answer, result)

    def find_executable(self) -> str:
        """The program's path; raises PipelineConfigurationError, which says how to install it."""
        path = shutil.which(self._executable, path=self._environ.get("PATH"))
        if path is None:
            raise PipelineConfigurationError(
                f"the program {self._executable} is not installed, or not in PATH; install it with: "
                f"{self._format.install}"
            )
        return str(Path(path).absolute())

    async def _execute(self, call: CliCall, folder: Path, context: Context) -> tuple[CliAnswer, ExecResult] | str:
        """What the program answered and how it ended, or why it was stopped; what it used is counted in any case."""
        command = shlex.join([self.find_executable(), *self._format.write_arguments(call)])
        variables = {STAGE_DIR_VARIABLE: call.stage_dir} if call.stage_dir else {}
        environment = LocalExecutionEnvironment(
            self._working_dir, policy=EnvironmentPolicy.ALL, variables={**self._environ, **variables}
        )
        await environment.initialize()
        result: ExecResult | None = None
        files = {name: shlex.quote(str(folder / name)) for name in (_PROMPT_NAME, ERRORS_NAME)}
        with open_text(folder / OUTPUT_NAME) as file, open_text(folder / ERRORS_NAME):
            output = CliOutput(file, self._format, call.model, context, self._linger)
            try:
                with output.scope:
                    result = await environment.exec_command(
                        f"exec {command} < {files[_PROMPT_NAME]} 2> {files[ERRORS_NAME]}",
                        _NO_TIMEOUT_MS,
                        on_output=output.take,
                    )
            finally:
                text = _read_back(folder / OUTPUT_NAME) if result is None else result.stdout
                answer = self._format.read_events(parse_events(text))
                self._report_usage(answer, output, call, context)
                with anyio.CancelScope(shield=True):
                    await environment.cleanup()
        if result is None and not answer.complete:
            return output.refused
        # One that had answered, and didn't end by itself, was ended.
        exit_code = 0 if result is None else result.exit_code
        errors = _read_back(folder / ERRORS_NAME, _REASON_CHARACTERS)
        return answer, ExecResult(stdout=text, stderr=errors, exit_code=exit_code)

    def _refuse_other_provider(self, node: Node, context: Context) -> None:
        wanted = node.llm_provider or context.get_string("graph.llm_provider")
        if wanted and wanted != self._format.provider:
            raise PipelineConfigurationError(
                f"stage {node.id!r} asks for the provider {wanted!r}, and {self._executable} asks models of "
                f"{self._format.provider!r}; choose another backend, or drop llm_provider"
            )

    def _keep_session(self, thread: tuple[str, str], answer: CliAnswer) -> None:
        if answer.error and any(words in str(answer.error).lower() for words in _LOST_SESSION):
            self._sessions.pop(thread, None)
        elif answer.session:
            self._sessions[thread] = answer.session

    def _report_usage(self, answer: CliAnswer, output: CliOutput, call: CliCall, context: Context) -> None:
        """By the closing event; where none came, by what was told before."""
        usage = answer.usage
        if usage is None:
            if output.used is not None or answer.cost is not None:
                told = output.used or TokenUsage()
                context.run.add_usage(told if answer.cost is None else replace(told, cost=answer.cost))
            return
        if self._format.counts_threads and answer.session:
            usage = _subtract(usage, self._counted.get(answer.session) if call.session else None)
            self._counted[answer.session] = answer.usage or usage
        cost = answer.cost if answer.cost is not None else cost_of(usage, call.model) if call.model else None
        context.run.add_usage(TokenUsage(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, cost=cost))

    def _judge(self, node: Node, answer: CliAnswer, result: ExecResult) -> str | Outcome:
        if answer.cut_short:
            return Outcome.fail(
                f"stage {node.id!r}: the agent {answer.cut_short} before it was done", notes=answer.text
            )
        if answer.error is not None:
            raise self._explain(answer.error)
        if result.exit_code != 0:
            said = (result.stderr.strip() or result.stdout.strip())[-_REASON_CHARACTERS:]
            reason = f"{self._executable} exited with code {result.exit_code}" + (f": {said}" if said else "")
            raise self._explain(classify(reason, self._format.exit_errors.get(result.exit_code)))
        if not answer.complete:
            shown = result.stdout.strip()[-200:] or "nothing"
            raise StreamError(f"the output of {self._executable} broke off, or is none that is known; it ends: {shown}")
        return answer.text

    def _explain(self, error: SDKError) -> SDKError:
        """The error; for one of authentication, with what to do about it."""
        if isinstance(error, AuthenticationError):
            return AuthenticationError(f"{error.message} ({self._executable}: {self._format.login})")
        return error


@contextmanager
def _open_folder(stage_dir: Path | None) -> Iterator[Path]:
    if stage_dir is not None:
        yield stage_dir
        return
    with tempfile.TemporaryDirectory(prefix="attractor-") as folder:
        yield Path(folder)


def _read_back(path: Path, most: int | None = None) -> str:
    """What a program wrote, or the end of it; nothing where the program has done away with the file."""
    try:
        start = 0 if most is None else max(path.lstat().st_size - most, 0)
        return read_file(path, start).decode("utf-8", "replace")
    except OSError:
        return ""


def _explain_report(node: Node, graph: Graph | None, stage_dir: Path) -> str:
    """What the agent is told of the status.json contract (Appendix C)."""
    edges = graph.outgoing_edges(node.id) if graph else ()
    conditions = "; ".join(edge.condition for edge in edges if edge.condition)
    labels = ", ".join(edge.label for edge in edges if edge.label)
    return (
        "\n\n---\nThis is one stage of a pipeline. When it is done, report how it went: write the file "
        f"{stage_dir}/status.json, a JSON object with `outcome` (success, partial_success, fail or retry, or another "
        "word that the pipeline asks for) and perhaps `preferred_label`, `notes` and `context_updates` (what later "
        "stages need)."
        + (f" What follows depends on: {conditions}." if conditions else "")
        + (f" Labels of the ways on: {labels}." if labels else "")
    )


def _subtract(total: Usage, before: Usage | None) -> Usage:
    """What a conversation used since; the whole of it, if it counts less than before."""
    if before is None or total.input_tokens < before.input_tokens or total.output_tokens < before.output_tokens:
        return total
    cached = max(0, (total.cache_read_tokens or 0) - (before.cache_read_tokens or 0))
    difference = make_usage(
        total.input_tokens - before.input_tokens, total.output_tokens - before.output_tokens, cached=cached
    )
    return difference or Usage(input_tokens=0, output_tokens=0, total_tokens=0)
