"""Commands that look at runs, finished or going on: `runs` and `show`."""

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from attractor.cli.completion import complete_runs
from attractor.cli.failure import SUCCESS, CommandError
from attractor.cli.output import write_json, write_note, write_result
from attractor.cli.parameters import Place
from attractor.cli.progress import Progress, format_seconds, format_usage
from attractor.cli.questions import describe_questions
from attractor.cli.screen import ResultScreen
from attractor.cli.stages import draw_stages, summarize_stages
from attractor.cli.timeline import draw_timeline
from attractor.dot import parse_dot
from attractor.errors import AttractorError, CheckpointError
from attractor.event_log import read_events
from attractor.graph import Graph
from attractor.interviewers import AskedQuestion, QuestionStore
from attractor.outcome import Outcome
from attractor.state.checkpoint import Checkpoint
from attractor.state.run_directory import default_runs_root, is_in_use, read_manifest, read_source
from attractor.state.step import RunStatus
from attractor.state.suspensions import load_last_checkpoint
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
    questions: list[AskedQuestion]
    outcomes: Mapping[str, Outcome]
    error: str = ""

    def to_record(self) -> dict[str, Any]:
        return {
            "run_directory": str(self.directory),
            "name": self.name,
            "started_at": self.started,
            "status": self.status,
            "current_node": self.current_node,
            "usage": self.usage.to_record() if self.usage else None,
            "questions": [asked.to_record() for asked in self.questions],
            "error": self.error or None,
        }


@click.command()
@click.option("--logs", type=Place(path_type=Path), help="Where the run directories are.")
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
        write_result(_draw_row(row, time.time()))
        for line in describe_questions(row.questions, ()):
            write_result(f"    {line}")
    if not rows:
        write_note(f"There are no runs under {root}.")
    return SUCCESS


@click.command()
@click.argument("run_dir", metavar="DIR", type=Place(path_type=Path), shell_complete=complete_runs)
@click.option("--json", "as_json", is_flag=True, help="Print the run and its events as JSON.")
def show(run_dir: Path, as_json: bool) -> int:
    """Show what happened in a run, stage by stage. DIR is its run directory.

    \b
    Example: attractor show ~/.local/state/attractor/runs/20261201T093015-demo-3f9a2c
    """
    row = _describe(run_dir)
    if as_json:
        found = list(read_events(run_dir))
        stages = [stage.to_record() for stage in summarize_stages(found, row.outcomes)]
        write_json({**row.to_record(), "stages": stages, "events": [event.to_record() for event in found]})
        return SUCCESS
    source = read_source(run_dir)
    progress = Progress(ResultScreen(), parse_dot(source) if source else Graph(row.name, {}, ()))
    events = list(read_events(run_dir))
    for event in events:
        progress.show(event)
    for line in (*draw_timeline(events), *draw_stages(summarize_stages(events, row.outcomes))):
        write_result(line)
    used = f"\nused    {format_usage(row.usage)}" if row.usage else ""
    asked = "".join(f"\nasks    {line}" for line in describe_questions(row.questions, ()))
    write_result(f"{row.status}{used}{asked}\nrun     {run_dir}")
    return SUCCESS


def _draw_row(row: _Row, now: float) -> str:
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(row.started))
    age = f"{format_seconds(max(now - row.started, 0), whole=True)} ago"
    used = f"  {format_usage(row.usage)}" if row.usage else ""
    if row.error:
        return f"{when}  {age:>15}  {row.status:<11}  {row.directory}  {row.error}"
    return f"{when}  {age:>15}  {row.status:<11}  {row.name}{used}  {row.directory}"


def _find_runs(root: Path) -> Iterator[_Row]:
    try:
        manifests = [folder / "manifest.json" for folder in root.iterdir()] if root.is_dir() else []
    except OSError as error:
        raise CommandError(f"{root} can't be read: {error.strerror}.") from error
    for manifest in manifests:
        try:
            if manifest.is_file():
                yield _describe(manifest.parent)
        except (AttractorError, OSError) as error:
            yield _describe_damaged(manifest.parent, str(error))


def _describe(directory: Path) -> _Row:
    manifest = read_manifest(directory)
    error = ""
    try:
        checkpoint = load_last_checkpoint(directory)
        status = checkpoint.status.value
    except CheckpointError as damage:
        checkpoint, status, error = Checkpoint(), "damaged", str(damage)
    if checkpoint.status in (RunStatus.RUNNING, RunStatus.RESTARTED) and not error:
        status = "running" if is_in_use(directory) else "interrupted"
    questions = QuestionStore(directory).list_open() if status != RunStatus.COMPLETED else []
    started = manifest.get("started_at", 0.0)
    return _Row(
        directory,
        str(manifest.get("name", "")),
        started if isinstance(started, int | float) else 0.0,
        status,
        checkpoint.current_node,
        checkpoint.usage,
        questions,
        _gather_outcomes(checkpoint),
        error,
    )


def _describe_damaged(directory: Path, error: str) -> _Row:
    """A directory that was a run, by its file's time."""
    try:
        started = directory.stat().st_mtime
    except OSError:
        started = 0.0
    return _Row(directory, "", started, "damaged", "", None, [], {}, error)


def _gather_outcomes(checkpoint: Checkpoint) -> dict[str, Outcome]:
    """Those of branches that are under way, too."""
    branches = (_gather_outcomes(branch) for branch in checkpoint.branches.values())
    return {**{name: one for found in branches for name, one in found.items()}, **checkpoint.node_outcomes}
