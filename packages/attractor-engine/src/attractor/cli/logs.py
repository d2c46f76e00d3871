"""The command `logs`: a run's events as they happened, and as they happen."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from attractor.cli.completion import complete_runs
from attractor.cli.failure import SUCCESS
from attractor.cli.output import resume_command, write_json, write_note, write_result
from attractor.cli.parameters import Place, Whole
from attractor.event_log import EVENTS_NAME, EventReader
from attractor.events import Event, PipelineCompleted, PipelineFailed, PipelineWaiting
from attractor.state.run_directory import is_in_use, read_manifest

_POLL_SECONDS = 0.2
_ENDS = (PipelineCompleted, PipelineFailed, PipelineWaiting)


@click.command()
@click.argument("run_dir", metavar="DIR", type=Place(path_type=Path), shell_complete=complete_runs)
@click.option("--follow", "-f", is_flag=True, help="Go on with what happens, until the run ends.")
@click.option("--after", type=Whole(min=0), default=0, metavar="N", help="Leave out events up to number N.")
@click.option("--json", "as_json", is_flag=True, help="Print each event as a line of JSON.")
def logs(run_dir: Path, follow: bool, after: int, as_json: bool) -> int:
    """Print the events of a run, finished or going on. DIR is its run directory.

    \b
    Example: attractor logs ~/.local/state/attractor/runs/20261201T093015-demo-3f9a2c --follow
    """
    read_manifest(run_dir)
    events = _follow(run_dir) if follow else EventReader(run_dir / EVENTS_NAME).read_all()
    for event in events:
        if event.sequence > after:
            write_json(event.to_record(), indent=None) if as_json else write_result(_describe(event))
    return SUCCESS


def _follow(run_dir: Path) -> Iterator[Event]:
    """Events until the run ends, or nobody runs it any more."""
    reader, last = EventReader(run_dir / EVENTS_NAME), None
    while True:
        in_use = is_in_use(run_dir)
        for event in reader.read_all():
            last = event
            yield event
        if isinstance(last, _ENDS):
            return
        if not in_use:
            write_note(f"The run was interrupted. To go on: {resume_command(run_dir)}")
            return
        time.sleep(_POLL_SECONDS)


def _describe(event: Event) -> str:
    when = time.strftime("%H:%M:%S", time.localtime(event.time))
    fields = {key: value for key, value in event.to_record().items() if key not in ("type", "sequence", "time")}
    told = "  ".join(f"{key}={_to_text(value)}" for key, value in fields.items() if value not in (None, "", [], {}))
    return f"{when}  {event.sequence:>4}  {event.type:<24}  {told}".rstrip()


def _to_text(value: Any) -> str:
    if isinstance(value, str) and value.isprintable() and " " not in value:
        return value
    return json.dumps(value, ensure_ascii=False)
