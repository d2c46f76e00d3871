"""The command `memory`: a small memory of how a person works, in a file."""

import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import anyio
import click
from agent_loop import SavedHistoryError, load_history
from agent_loop.personalization import (
    AlreadySeededError,
    ClaudeProcessEngine,
    Comparison,
    Ingested,
    NotSeededError,
    PersonalizationError,
    PersonalMemory,
    build_context,
    compare_engines,
    open_store,
    render_conversation,
)

from attractor.cli.failure import SUCCESS, CommandError
from attractor.cli.memory_engine import EngineChoice, open_engine
from attractor.cli.memory_view import draw_comparison, draw_history, draw_state
from attractor.cli.output import write_json, write_note, write_result
from attractor.cli.parameters import Place
from attractor.state.run_directory import default_runs_root

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

_ENGINE_OPTIONS = [
    click.option(
        "--engine",
        "kind",
        type=click.Choice(["client", "claude"]),
        default="client",
        help="Ask a provider, or the program claude on this machine. [default: client]",
    ),
    click.option("--provider", metavar="NAME", default="", help="Provider to ask: local, anthropic, ..."),
    click.option("--model", metavar="NAME", default="", help="Model to ask; a provider but local needs one."),
]
_MEMORY = click.option(
    "--memory",
    "path",
    type=Place(dir_okay=False, path_type=Path),
    help="The memory's file, SQLite if it ends in .db. [default: memory.json in $XDG_STATE_HOME/attractor]",
)
_SUBJECT = click.option(
    "--subject", metavar="NAME", default="the user", help="Who it is about, as the block calls them."
)


def _with(*options: Callable[[F], F]) -> Callable[[F], F]:
    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def _json(what: str) -> Callable[[F], F]:
    return click.option("--json", "as_json", is_flag=True, help=f"Print {what} as JSON.")


@click.group()
def memory() -> None:
    """Keep a memory of how you work, and show it to agents and pipelines.

    It holds a few basins, which are modes of working, each with a weight. A model proposes how a conversation should
    change them, and fixed rules decide.

    \b
    Example: attractor memory ingest conversation.txt --provider local
    """


@memory.command(short_help="Begin a memory with a few basins.")
@click.argument("file", metavar="FILE", type=click.File("r", encoding="utf-8"))
@click.option("--force", is_flag=True, help="Replace a memory that is there already.")
@_with(_MEMORY, _json("the state"))
def seed(file: Any, path: Path | None, force: bool, as_json: bool) -> int:
    """Begin a memory with the basins of a JSON file, or of stdin with -.

    FILE holds a list of {"label": ..., "description": ..., "keywords": [...]}; the label is enough.

    \b
    Example: echo '[{"label": "Planning"}, {"label": "Debugging"}]' | attractor memory seed -
    """
    try:
        seeds = json.load(file)
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{file.name} is not JSON: {error}.") from error
    if not isinstance(seeds, list):
        raise CommandError(f"{file.name} must hold a list of basins, but holds {type(seeds).__name__}.")
    if not seeds:
        raise CommandError(f'{file.name} holds an empty list; name a basin at least, such as {{"label": "Planning"}}.')
    place = _place(path)
    state = _run(PersonalMemory(store=open_store(place)).seed, seeds, force=force)
    if as_json:
        write_json(state.to_record())
    else:
        write_result(f"{place}\n{draw_state(state)}")
    return SUCCESS


@memory.command(short_help="Take in a conversation.")
@click.argument("file", metavar="[FILE]", required=False, type=click.File("rb"))
@click.option("--summary", default="", metavar="TEXT", help="Take in this summary; no FILE is read or summarized.")
@click.option("--vibe", "vibes", multiple=True, metavar="WORD", help="A word for its mood or pace; may be repeated.")
@_with(*_ENGINE_OPTIONS, _MEMORY, _SUBJECT, _json("the state, the update and remarks"))
def ingest(
    file: Any, summary: str, vibes: tuple[str, ...], path: Path | None, subject: str, as_json: bool, **engine: Any
) -> int:
    """Take in a conversation: from a text file, from the saved history of a session (.jsonl), or from stdin with -.

    The model is asked for a summary first, and then how that should change the memory.

    \b
    Example: attractor memory ingest conversation.txt --provider local
    """
    conversation = "" if summary else _read_conversation(file)
    choice = EngineChoice(**engine)

    async def work() -> Ingested:
        async with open_engine(choice) as opened:
            known = PersonalMemory(
                store=open_store(_place(path)),
                engine=opened.engine,
                model=opened.model,
                subject=subject,
                max_conversation=opened.max_conversation,
            )
            await known.load()
            if summary:
                return await known.ingest(summary, vibes)
            found = await known.summarize(conversation)
            return await known.ingest(found.text, [*vibes, *found.vibes])

    done = _run(work)
    for remark in done.remarks:
        write_note(f"not used: {remark}")
    if as_json:
        write_json({"state": done.state.to_record(), "update": done.update.to_record(), "remarks": done.remarks})
    else:
        write_result(draw_state(done.state))
    return SUCCESS


@memory.command(short_help="Draw the basins.")
@_with(_MEMORY, _json("the state"))
def show(path: Path | None, as_json: bool) -> int:
    """Draw the basins: weights as bars, how the last update moved them, what they go with.

    \b
    Example: attractor memory show
    """
    state = _run(PersonalMemory(store=open_store(_place(path))).load)
    if as_json:
        write_json(state.to_record())
    else:
        write_result(draw_state(state))
    return SUCCESS


@memory.command(short_help="List the last ten changes.")
@_with(_MEMORY, _json("the snapshots"))
def history(path: Path | None, as_json: bool) -> int:
    """List the last ten changes: when, by which engine and model, and the weights after each.

    \b
    Example: attractor memory history
    """
    snapshots = _run(open_store(_place(path)).history)
    if as_json:
        write_json([snapshot.to_record() for snapshot in snapshots])
    elif snapshots:
        write_result(draw_history(snapshots))
    else:
        write_note("Nothing is remembered yet.")
    return SUCCESS


@memory.command(short_help="Show where two engines differ.")
@click.argument("file", metavar="[FILE]", required=False, type=click.File("rb"))
@click.option("--summary", default="", metavar="TEXT", help="Compare on this summary; no FILE is read or summarized.")
@click.option("--vibe", "vibes", multiple=True, metavar="WORD", help="A word for its mood or pace; may be repeated.")
@click.option("--claude-model", metavar="NAME", default="", help="Model of the program claude.")
@_with(*_ENGINE_OPTIONS[1:], _MEMORY, _json("proposals and differences"))
def compare(
    file: Any,
    summary: str,
    vibes: tuple[str, ...],
    path: Path | None,
    provider: str,
    model: str,
    claude_model: str,
    as_json: bool,
) -> int:
    """Ask a provider and the program claude about the same conversation, and show where they differ.

    Nothing is stored. The provider summarizes the conversation for both.

    \b
    Example: attractor memory compare conversation.txt --provider anthropic --model claude-sonnet-4-5
    """
    conversation = "" if summary else _read_conversation(file)

    async def work() -> Comparison:
        async with open_engine(EngineChoice(kind="client", provider=provider, model=model)) as opened:
            known = PersonalMemory(
                store=open_store(_place(path)),
                engine=opened.engine,
                model=opened.model,
                max_conversation=opened.max_conversation,
            )
            state = await known.load()
            text, words = summary, list(vibes)
            if not text:
                found = await known.summarize(conversation)
                text, words = found.text, [*vibes, *found.vibes]
            engines = [(opened.engine, opened.model), (ClaudeProcessEngine(), claude_model)]
            return await compare_engines(engines, state, text, words)

    result = _run(work)
    if as_json:
        write_json(result.to_record())
    else:
        write_result(draw_comparison(result))
    return SUCCESS


@memory.command(short_help="Have a model abstract keywords.")
@click.argument("basins", metavar="[BASIN]...", nargs=-1)
@_with(*_ENGINE_OPTIONS, _MEMORY, _json("whose keywords were consolidated"))
def consolidate(basins: tuple[str, ...], path: Path | None, as_json: bool, **engine: Any) -> int:
    """Have a model abstract keywords: of the named basins, by default of those that ran out of room.

    \b
    Example: attractor memory consolidate planning --provider local
    """

    async def work() -> list[str]:
        async with open_engine(EngineChoice(**engine)) as opened:
            known = PersonalMemory(store=open_store(_place(path)), engine=opened.engine, model=opened.model)
            return await known.consolidate(basins or None)

    done = _run(work)
    if as_json:
        write_json({"consolidated": done})
    else:
        write_result("\n".join(done) if done else "No basin was consolidated.")
    return SUCCESS


@memory.command(short_help="Print the block for a system prompt.")
@_with(_MEMORY, _SUBJECT, _json("the block"))
def context(path: Path | None, subject: str, as_json: bool) -> int:
    """Print the block that a system prompt gets.

    \b
    Example: attractor memory context >> AGENTS.md
    """
    block = build_context(_run(PersonalMemory(store=open_store(_place(path))).load), subject=subject)
    if as_json:
        write_json({"context": block})
    else:
        write_result(block)
    return SUCCESS


def _place(path: Path | None) -> Path:
    return path or default_runs_root(os.environ).parent / "memory.json"


def _read_conversation(file: Any) -> str:
    """The conversation as text. Raises CommandError if there is none, or it can't be read."""
    if file is None:
        raise click.UsageError("name a FILE with a conversation, or give a --summary.")
    try:
        text: str = file.read().decode("utf-8")
        if Path(file.name).suffix == ".jsonl":
            text = render_conversation(load_history(text))
    except (UnicodeDecodeError, SavedHistoryError) as error:
        raise CommandError(f"{file.name} is no conversation: {error}.") from error
    if not text.strip():
        raise CommandError(f"{file.name} holds no conversation.")
    return text


def _run(work: Callable[..., Awaitable[T]], *arguments: Any, **options: Any) -> T:
    """Run it to its end; its errors as those of a command."""

    async def run() -> T:
        return await work(*arguments, **options)

    try:
        return anyio.run(run)
    except NotSeededError as error:
        raise CommandError(f"{error}: attractor memory seed FILE.") from error
    except AlreadySeededError as error:
        raise CommandError(f"{error}: add --force.") from error
    except PersonalizationError as error:
        raise CommandError(f"{error}.") from error
