"""Commands that look at runs, finished or going on: `runs` and `show`."""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from attractor.cli.failure import SUCCESS, CommandError
from attractor.cli.output import write_json, write_note, write_result
from attractor.cli.progress import Progress, format_usage
from attractor.cli.screen import ResultScreen
from attractor.dot import parse_dot
from attractor.errors import AttractorError, CheckpointError, RunDirectoryError
from attractor.event_log import read_events
from attractor.graph import Graph
from attractor.state.checkpoint import Checkpoint
from attractor.state.journal import has_checkpoint, load_checkpoint
from attractor.state.run_directory import (
    RunDirectory,
    default_runs_root,
    read_manifest,
    read_source,
    restart_path,
)
from attractor.state.step import RunStatus
from attractor.state.usage import TokenUsage


@dataclass(frozen=True, slots=True)
class _Row:
    """A run in a few words. `started` is in seconds since the epoch."""

    directory: Path
    name: str
    started: float
    status: str
    current_node: str
    usage: TokenUsage | None

    def to_record(self) -> dict[str, Any]:
        return {
            "run_directory": str(self.directory),
            "name": self.name,
            "started_at": self.started,
            "status": self.status,
            "current_node": self.current_node,
            "usage": self.usage.to_record() if self.usage else None,
        }


@click.command()
@click.option("--logs", type=click.Path(path_type=Path), help="Where the run directories are.")
@click.option("--json", "as_json", is_flag=True, help="Print the runs as JSON.")
def runs(logs: Path | None, as_json: bool) -> int:
    """List runs, the latest first, by default those under $XDG_STATE_HOME/attractor/runs.

    \b
    Example: attractor runs
    """
    root = logs or default_runs_root(os.environ)
    if logs and not logs.is_dir():
        raise CommandError(f"{logs} is {'a file' if logs.exists() else 'not there'}; name a directory of runs.")
    rows = sorted(_find_runs(root), key=lambda row: row.started, reverse=True)
    if as_json:
        write_json([row.to_record() for row in rows])
    for row in () if as_json else rows:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(row.started))
        write_result(f"{when}  {row.status:<11}  {row.name}  {row.directory}")
    if not rows:
        write_note(f"There are no runs under {root}.")
    return SUCCESS


@click.command()
@click.argument("run_dir", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the run and its events as JSON.")
def show(run_dir: Path, as_json: bool) -> int:
    """Show what happened in a run, stage by stage. DIR is its run directory.

    \b
    Example: attractor show ~/.local/state/attractor/runs/20261201T093015-demo-3f9a2c
    """
    row = _describe(run_dir)
    if as_json:
        write_json({**row.to_record(), "events": [event.to_record() for event in read_events(run_dir)]})
        return SUCCESS
    source = read_source(run_dir)
    progress = Progress(ResultScreen(), parse_dot(source) if source else Graph(row.name, {}, ()))
    for event in read_events(run_dir):
        progress.show(event)
    used = f"\nused    {format_usage(row.usage)}" if row.usage else ""
    write_result(f"{row.status}{used}\nrun     {run_dir}")
    return SUCCESS


def _find_runs(root: Path) -> Iterator[_Row]:
    for manifest in root.glob("*/manifest.json"):
        try:
            yield _describe(manifest.parent)
        except AttractorError as error:
            write_note(f"skipped: {error}")


def _describe(directory: Path) -> _Row:
    manifest = read_manifest(directory)
    try:
        checkpoint = _load_last(directory)
        status = checkpoint.status.value
    except CheckpointError:
        checkpoint = Checkpoint()
        status = "damaged"
    if checkpoint.status in (RunStatus.RUNNING, RunStatus.RESTARTED) and status != "damaged":
        status = "running" if _is_going_on(directory) else "interrupted"
    started = manifest.get("started_at", 0.0)
    return _Row(directory, str(manifest.get("name", "")), started, status, checkpoint.current_node, checkpoint.usage)


def _load_last(directory: Path) -> Checkpoint:
    """The state after the last restart; an empty one of a run that did not get as far as its first checkpoint."""
    checkpoint = load_checkpoint(directory) if has_checkpoint(directory) else Checkpoint()
    while checkpoint.status is RunStatus.RESTARTED:
        folder = restart_path(directory, checkpoint.restarts + 1)
        if not has_checkpoint(folder):
            break
        checkpoint = load_checkpoint(folder)
    return checkpoint


def _is_going_on(directory: Path) -> bool:
    try:
        RunDirectory.open(directory).close()
    except RunDirectoryError:
        return True
    return False
