"""Which commands there are, and what the process does when one of them fails.

A command's module is imported when that command runs, so that `attractor --help` costs next to nothing.
"""

import errno
import importlib
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from typing import NoReturn

import click

from attractor.cli.failure import FAILED, SUCCESS, CommandError, report_failure
from attractor.cli.output import abandon, prepare_streams

COMMANDS = {
    "init": ("attractor.cli.init", "Write a pipeline to start from."),
    "run": ("attractor.cli.run", "Run a pipeline from a DOT file."),
    "resume": ("attractor.cli.run", "Go on with a run that was stopped, killed or failed, or that waits."),
    "runs": ("attractor.cli.runs", "List runs."),
    "show": ("attractor.cli.runs", "Show what happened in a run."),
    "logs": ("attractor.cli.logs", "Print the events of a run."),
    "answer": ("attractor.cli.questions", "Answer a question of a run, or list its questions."),
    "lint": ("attractor.cli.source", "Check pipelines without running them."),
    "parse": ("attractor.cli.source", "Print a pipeline's nodes and edges as JSON."),
    "fmt": ("attractor.cli.source", "Rewrite pipelines in the one layout."),
    "graph": ("attractor.cli.source", "Draw a pipeline as SVG."),
    "serve": ("attractor.cli.serve", "Serve pipelines over HTTP, with a page to watch them."),
    "memory": ("attractor.cli.memory", "Keep a memory of how you work."),
    "doctor": ("attractor.cli.doctor", "Check what this machine offers to pipelines."),
    "completion": ("attractor.cli.completion", "Teach your shell to complete commands and runs."),
}
"""Command -> the module that defines a function of that name, and the line that `attractor --help` shows."""
_SERVER_PACKAGES = ("starlette", "uvicorn")


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports one when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _ = COMMANDS[cmd_name]
        try:
            command = getattr(importlib.import_module(module), cmd_name)
        except ModuleNotFoundError as error:
            if error.name not in _SERVER_PACKAGES:
                raise
            raise CommandError(
                f"attractor {cmd_name} needs packages that are not installed: pip install 'attractor-engine[server]'"
            ) from error
        assert isinstance(command, click.Command)
        for one in (command, *getattr(command, "commands", {}).values()):
            if not any(option.name == "debug" for option in one.params):
                one.params.append(_debug_option())
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            near = get_close_matches(name, COMMANDS, 1)
            raise click.UsageError(f"No such command {name!r}." + (f" Did you mean {near[0]!r}?" if near else ""), ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


def _debug_option() -> click.Option:
    def remember(ctx: click.Context, _: click.Parameter, value: bool) -> None:
        if value:
            ctx.meta["attractor.debug"] = True

    return click.Option(
        ["--debug"],
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=remember,
        help="Show the traceback of an unexpected error.",
    )


@click.command(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    params=[_debug_option()],
)
@click.version_option(package_name="attractor-engine", prog_name="attractor")
def app() -> None:
    """Pipelines of language model stages, tools and people, written as Graphviz DOT graphs.

    \b
    Example: attractor run pipeline.dot --simulate

    Exit codes: 0 the pipeline succeeded (lint: no errors), 1 it failed (lint: errors), 2 bad usage or unreadable
    input, 3 waiting for an answer, 130 interrupted. Results and data go to stdout, everything else to stderr.
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and leave the process with its exit code; `arguments` default to the process's own."""
    prepare_streams()
    arguments = sys.argv[1:] if arguments is None else arguments
    stdout = sys.stdout
    try:
        result = app.main(list(arguments), prog_name="attractor", standalone_mode=False)
        code = result if isinstance(result, int) else 0
    except SystemExit as ended:
        # So does click leave, with another stdout in place, when nobody reads its help any more, which is no failure.
        unread = sys.stdout is not stdout
        code = SUCCESS if unread else ended.code if isinstance(ended.code, int) else FAILED
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC and error.filename is None and sys.stdout:
            abandon(sys.stdout)
            error = click.ClickException(f"the output can't be written: {error.strerror}.")
        code = report_failure(error, debug="--debug" in arguments)
    except KeyboardInterrupt as error:
        code = report_failure(error, debug=False)
    raise SystemExit(code)
