"""The command `completion`, and what a shell is told to complete."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import click
from click.shell_completion import CompletionItem, get_completion_class

from attractor.cli.failure import SUCCESS
from attractor.cli.output import write_result
from attractor.dot import parse_dot
from attractor.errors import AttractorError
from attractor.interviewers import QuestionStore
from attractor.state.run_directory import default_runs_root, read_source

_SHELLS = ("bash", "zsh", "fish")
_MOST = 50


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
def completion(shell: str) -> int:
    """Print a script that teaches a shell to complete commands, options, run directories, stages and answers.

    Put it where your shell looks: in ~/.bashrc or ~/.zshrc write eval "$(attractor completion bash)", with zsh for
    bash where that is yours; for fish write it to ~/.config/fish/completions/attractor.fish.

    \b
    Example: attractor completion bash >> ~/.bashrc
    """
    kind = get_completion_class(shell)
    assert kind is not None
    program = click.get_current_context().find_root().command
    # Printed as it is: asking bash for its version, as click's own way does, would need a bash.
    script = kind(program, {}, "attractor", "_ATTRACTOR_COMPLETE")
    write_result((script.source_template % script.source_vars()).strip())
    return SUCCESS


def complete_runs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The latest runs, by their whole path, and directories for any other."""
    try:
        found = sorted(default_runs_root(os.environ).glob("*/manifest.json"), reverse=True)
    except (OSError, AttractorError):
        found = []
    paths = [str(manifest.parent) for manifest in found]
    matching = [path for path in paths if path.startswith(incomplete) or Path(path).name.startswith(incomplete)]
    items = [CompletionItem(path, help=_read_name(Path(path))) for path in matching[:_MOST]]
    return [*items, CompletionItem(incomplete, type="dir")]


def complete_stages(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The nodes of the run that the command line names."""
    run_dir = _find_run_dir(ctx)
    try:
        nodes = parse_dot(read_source(run_dir)).nodes.values() if run_dir else ()
    except (AttractorError, OSError):
        return []
    return [CompletionItem(node.id, help=node.label) for node in nodes if node.id.startswith(incomplete)]


def complete_answers(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The keys of the choices that the run's open questions offer."""
    return [item for item in _find_answers(_find_run_dir(ctx)) if item.value.startswith(incomplete)]


def complete_questions(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The ids of the run's open questions."""
    run_dir = _find_run_dir(ctx)
    try:
        asked = QuestionStore(run_dir).list_open() if run_dir else []
    except (AttractorError, OSError):
        return []
    return [CompletionItem(one.id, help=one.question.text) for one in asked if one.id.startswith(incomplete)]


def _find_answers(run_dir: Path | None) -> Iterator[CompletionItem]:
    try:
        asked = QuestionStore(run_dir).list_open() if run_dir else []
    except (AttractorError, OSError):
        return
    for one in asked:
        yield from (CompletionItem(option.key, help=option.label) for option in one.question.options)


def _find_run_dir(ctx: click.Context) -> Path | None:
    """The run that the line names so far; where an option still lacks its value, click leaves the words as they are."""
    named: Path | None = ctx.params.get("run_dir")
    return named or (Path(ctx.args[0]) if ctx.args else None)


def _read_name(run_dir: Path) -> str:
    try:
        return str(json.loads((run_dir / "manifest.json").read_bytes()).get("name", ""))
    except (OSError, ValueError, AttributeError):
        return ""
