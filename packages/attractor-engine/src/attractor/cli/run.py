"""Commands that run pipelines: `run` and `resume`."""

import shlex
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import anyio
import click

from attractor.cli.completion import complete_runs, complete_stages
from attractor.cli.failure import FAILED, INTERRUPTED, SUCCESS, WAITING, CommandError
from attractor.cli.interrupt import run_with_interrupts
from attractor.cli.interview import TerminalInterviewer
from attractor.cli.models import BACKENDS, CLI_AGENTS, open_backend
from attractor.cli.output import resume_command, write_note
from attractor.cli.parameters import Amount, Place
from attractor.cli.progress import Progress
from attractor.cli.report import report_result
from attractor.cli.screen import Screen, open_screen
from attractor.cli.settings import Settings
from attractor.cli.source import display_name, read_source, render_diagnostic
from attractor.diagnostics import Severity
from attractor.dot import parse_dot
from attractor.graph import Graph
from attractor.interviewers import AutoApproveInterviewer, DeferringInterviewer, Interviewer
from attractor.pipeline import PipelineRunner, RunResult
from attractor.state import run_directory
from attractor.transforms import apply_transforms
from attractor.validation import validate

F = TypeVar("F", bound=Callable[..., Any])


def _shared_options(command: F) -> F:
    """The options of both commands."""
    options = [
        click.option("--simulate", is_flag=True, help="Call no model; tool commands run for real."),
        click.option("--dry-run", is_flag=True, help="Call no model and run no command either."),
        click.option(
            "--script",
            type=Place(exists=True, dir_okay=False, resolve_path=True),
            help="Call no model; take its stages' outcomes from this JSON file.",
        ),
        click.option(
            "--backend",
            type=click.Choice(BACKENDS),
            metavar="NAME",
            help="What a model stage is: work for an agent with tools (agent), one call to a model (llm), or work "
            "for a coding agent that is installed here (claude, codex, gemini). "
            "[default: agent, or llm with --provider local]",
        ),
        click.option(
            "--agent-options",
            metavar="OPTIONS",
            callback=_check_words,
            help="More options for the claude, codex or gemini of --backend, in one argument.",
        ),
        click.option("--provider", metavar="NAME", help="Provider for stages that name none: local, anthropic, ..."),
        click.option("--model", metavar="NAME", help="Model for stages that name none."),
        click.option(
            "--max-cost",
            type=Amount(),
            metavar="USD",
            help="Start no stage once the run cost this much; sets the graph's max_cost.",
        ),
        click.option("--auto-approve", is_flag=True, help="Answer human gates with their first choice."),
        click.option(
            "--detach",
            is_flag=True,
            help="Ask nobody: when only answers are missing, end with exit code 3, to be answered and resumed.",
        ),
        click.option(
            "--memory",
            type=Place(exists=True, dir_okay=False, resolve_path=True),
            help="Tell model stages how you work, from this memory (see attractor memory).",
        ),
        click.option(
            "--workdir",
            type=Place(exists=True, file_okay=False, resolve_path=True),
            help="Where tool commands run; the current directory by default.",
        ),
        click.option("--quiet", is_flag=True, help="Show no progress."),
        click.option("--json", "as_json", is_flag=True, help="Print the result as JSON."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def _read_assignments(ctx: click.Context, param: click.Parameter, pairs: tuple[str, ...]) -> dict[str, str]:
    for pair in pairs:
        if "=" not in pair or not pair.partition("=")[0].strip():
            raise click.BadParameter(f"{pair!r} is not KEY=VALUE.", ctx, param)
    return {key.strip(): value for key, _, value in (pair.partition("=") for pair in pairs)}


def _check_words(ctx: click.Context, param: click.Parameter, text: str | None) -> str | None:
    try:
        shlex.split(text or "")
    except ValueError as error:
        raise click.BadParameter(f"{text!r} can't be split into words: {error}.", ctx, param) from error
    return text


@click.command()
@click.argument("file", metavar="FILE")
@click.option("--logs", type=Place(file_okay=False, path_type=Path), help="The run directory, new or empty.")
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="KEY=VALUE",
    callback=_read_assignments,
    help="Set a graph attribute (such as goal) or else a context value; may be repeated.",
)
@_shared_options
def run(file: str, logs: Path | None, quiet: bool, as_json: bool, workdir: str | None, **flags: Any) -> int:
    """Run a pipeline from a DOT file. FILE may be - for stdin.

    The run directory is a new one under $XDG_STATE_HOME/attractor/runs unless --logs names another.

    \b
    Example: attractor run pipeline.dot --provider local --set goal="Write a haiku"
    """
    settings = _settings(workdir=workdir or str(Path.cwd()), **flags)
    graph = settings.apply(parse_dot(read_source(file), display_name(file)))
    _refuse_errors(graph)
    if logs:
        _refuse_foreign(logs)
    return _execute(graph, settings, lambda runner: runner.run(graph), logs, quiet=quiet, as_json=as_json)


@click.command()
@click.argument("run_dir", metavar="DIR", type=Place(path_type=Path), shell_complete=complete_runs)
@click.option(
    "--from",
    "from_node",
    metavar="NODE",
    default="",
    shell_complete=complete_stages,
    help="Go on at this node instead.",
)
@_shared_options
def resume(run_dir: Path, from_node: str, quiet: bool, as_json: bool, workdir: str | None, **flags: Any) -> int:
    """Go on with a run that was stopped, killed or failed, or that waits, from its last checkpoint.

    DIR is its run directory.

    Completed stages are not run again. The flags of the run still hold, except for those that are given again.

    \b
    Example: attractor resume ~/.local/state/attractor/runs/20261201T093015-demo-3f9a2c
    """
    recorded = Settings.from_record(run_directory.read_manifest(run_dir).get("options", {}))
    settings = recorded.updated(_settings(workdir=workdir or "", assignments={}, **flags))
    if settings.workdir and not Path(settings.workdir).is_dir():
        raise CommandError(f"the run's work directory {settings.workdir} is gone; name another with --workdir.")
    source = run_directory.read_source(run_dir)
    if not source:
        raise CommandError(
            f"{run_dir} holds no pipeline.dot, or an empty one; put it back, or resume a run whose graph was made in "
            "Python from there."
        )
    graph = settings.apply(parse_dot(source, str(run_dir / "pipeline.dot")))

    def start(runner: PipelineRunner) -> Awaitable[RunResult]:
        return runner.resume(run_dir, graph=graph, from_node=from_node)

    return _execute(graph, settings, start, run_dir, quiet=quiet, as_json=as_json)


def _settings(*, assignments: dict[str, str], max_cost: float | None = None, **flags: Any) -> Settings:
    if max_cost is not None:
        assignments = {**assignments, "max_cost": f"{max_cost:g}"}
    flags = {name: value for name, value in flags.items() if value is not None}
    settings = Settings(assignments=assignments, **flags)
    if settings.simulated and (settings.backend or settings.provider):
        raise click.UsageError("--simulate and --dry-run call no model: drop --backend and --provider, or drop them.")
    if settings.backend in CLI_AGENTS and settings.provider:
        raise click.UsageError(
            f"{settings.backend} knows its own provider: drop --provider, or take another --backend."
        )
    if settings.agent_options and settings.backend not in CLI_AGENTS:
        raise click.UsageError(f"--agent-options are for --backend {', '.join(CLI_AGENTS)}: name one, or drop them.")
    return settings


def _refuse_errors(graph: Graph) -> None:
    """Show what lint finds; raises ClickException, which exits 1, if the pipeline must not run."""
    diagnostics = validate(apply_transforms(graph))
    worth_showing = [item for item in diagnostics if item.severity is not Severity.INFO]
    for diagnostic in worth_showing:
        write_note(render_diagnostic(diagnostic, graph.source))
    if any(item.severity is Severity.ERROR for item in diagnostics):
        raise click.ClickException("the pipeline has errors and was not run.")


def _refuse_foreign(logs: Path) -> None:
    """Raises CommandError for a directory of other things, which a run's files would get mixed up with.

    One that is a run already is told as such when it is locked.
    """
    names = {entry.name for entry in logs.iterdir()} if logs.is_dir() else set()
    if names - {".lock"} and not names & {"manifest.json", "checkpoint.json", "journal.jsonl"}:
        raise CommandError(f"{logs} is neither new nor empty: name another directory with --logs.")


def _execute(
    graph: Graph,
    settings: Settings,
    start: Callable[[PipelineRunner], Awaitable[RunResult]],
    logs: Path | None,
    *,
    quiet: bool,
    as_json: bool,
) -> int:
    """Run or resume, show it, and return the exit code."""
    run_id = run_directory.new_run_id(graph.name, time.time())
    place = logs or run_directory.default_runs_root() / run_id

    async def work() -> int:
        screen = open_screen(quiet=quiet)
        progress = Progress(screen, graph)
        try:
            async with open_backend(graph, settings, screen) as answering:
                runner = PipelineRunner(
                    backend=answering.backend,
                    handlers=answering.handlers,
                    interviewer=_choose_interviewer(settings, screen, progress),
                    logs_root=place,
                    run_id=run_id,
                    context=settings.context,
                    working_dir=settings.workdir or None,
                    dry_run=settings.dry_run,
                    options=settings.to_record(),
                )
                runner.on_event = progress.show
                go_on = f"To go on: {resume_command(place)}"
                result = await run_with_interrupts(lambda: start(runner), runner.cancel, screen, go_on)
        finally:
            screen.close()
        await report_result(graph, result, as_json=as_json)
        return _exit_code(result)

    return anyio.run(work)


def _choose_interviewer(settings: Settings, screen: Screen, progress: Progress) -> Interviewer:
    if settings.auto_approve:
        return AutoApproveInterviewer()
    return DeferringInterviewer() if settings.detach else TerminalInterviewer(screen, progress)


def _exit_code(result: RunResult) -> int:
    if result.cancelled or result.waiting:
        return WAITING if result.waiting else INTERRUPTED
    return SUCCESS if result.status.is_success else FAILED
