"""docs/cli.md tells what the commands themselves tell. As a script this writes its generated part anew."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click
from attractor.cli.app import COMMANDS, app

PAGE = Path(__file__).parent.parent.parent / "docs/cli.md"
MARK = "<!-- What follows is written by tests/attractor/test_cli_reference.py. -->\n"


def reference() -> str:
    """Every command's help as Markdown."""
    parent = click.Context(app, info_name="attractor", **app.context_settings)
    return "\n".join(block for name in COMMANDS for block in _describe(app, name, parent))


def _describe(group: click.Group, name: str, parent: click.Context) -> Iterator[str]:
    command = group.get_command(parent, name)
    assert command is not None
    context = click.Context(command, info_name=name, parent=parent)
    formatter = click.HelpFormatter(width=100, max_width=100)
    command.format_help(context, formatter)
    yield f"\n## {context.command_path}\n"
    yield f"```text\n{formatter.getvalue().rstrip()}\n```"
    if isinstance(command, click.Group):
        for below in command.commands:
            yield from _describe(command, below, context)


def test_reference_is_that_of_the_commands() -> None:
    hand_written, _, generated = PAGE.read_text("utf-8").partition(MARK)
    assert hand_written
    assert generated.strip() == reference().strip(), f"out of date: python {Path(__file__).name} writes it anew"


def test_every_command_has_an_example_and_a_summary() -> None:
    for name, (_, summary) in COMMANDS.items():
        command = app.get_command(click.Context(app), name)
        assert command is not None
        assert command.help is not None
        assert re.search(r"Example: attractor " + name, command.help), name
        assert summary.endswith(".")
        for option in command.params:
            if isinstance(option, click.Option):
                assert option.help, f"{name} {option.opts}"


if __name__ == "__main__":
    text = PAGE.read_text("utf-8").partition(MARK)[0]
    PAGE.write_text(text + MARK + reference() + "\n", "utf-8")
    sys.exit()
