"""What a run came to, and where to look."""

import shlex
from pathlib import Path

from attractor.cli.output import resume_command, write_json, write_note, write_result
from attractor.cli.progress import format_seconds, format_usage
from attractor.cli.questions import describe_questions
from attractor.dot import render_svg
from attractor.errors import DrawingError, RunDirectoryError
from attractor.event_log import read_events
from attractor.graph import Graph
from attractor.interviewers import AskedQuestion, QuestionStore
from attractor.pipeline import RunResult
from attractor.stage_states import read_states
from attractor.state.run_directory import replace_file, stage_path

_LONGEST_ANSWER = 2000


async def report_result(graph: Graph, result: RunResult, *, as_json: bool) -> None:
    """Write the graph's picture into the run directory and the result to stdout; say on stderr how to go on."""
    answer = _find_answer(result)
    picture = await _draw(graph, result.logs_root)
    if as_json:
        write_json(
            {
                "status": "waiting" if result.waiting else result.status.value,
                "failure_reason": result.failure_reason,
                "run_id": result.run_id,
                "run_directory": str(result.logs_root),
                "answer_file": str(answer) if answer else None,
                "graph_file": str(picture) if picture else None,
                "completed_nodes": list(result.completed_nodes),
                "duration": result.duration,
                "usage": result.usage.to_record() if result.usage else None,
                "questions": [asked.to_record() for asked in _list_questions(result)],
                "suspensions": [found.to_record() for found in result.suspensions if not found.question],
            }
        )
    else:
        write_result(_summary(result, answer, picture))
    if result.waiting:
        write_note(
            f"To answer: attractor answer {shlex.quote(str(result.logs_root))} KEY\n"
            f"To go on then: {resume_command(result.logs_root)}"
        )
    elif not result.status.is_success:
        write_note(f"To go on from where it stopped: {resume_command(result.logs_root)}")


def _summary(result: RunResult, answer: Path | None, picture: Path | None) -> str:
    took = format_seconds(result.duration)
    match result:
        case RunResult(cancelled=True):
            lines = [f"interrupted after {took}"]
        case RunResult(waiting=True):
            others = (found for found in result.suspensions if not found.question)
            lines = [f"waiting after {took}", *describe_questions(_list_questions(result), others)]
        case RunResult(failure_reason=reason) if not result.status.is_success:
            lines = [f"fail after {took}: {reason}"]
        case _:
            lines = [f"{result.status.value} in {took}"]
    if answer:
        lines.insert(0, f"{_excerpt(answer)}\n")
        lines.append(f"answer  {answer}")
    lines.append(f"run     {result.logs_root}")
    if result.usage:
        lines.append(f"used    {format_usage(result.usage)}")
    if picture:
        lines.append(f"graph   {picture}")
    return "\n".join(lines)


def _list_questions(result: RunResult) -> list[AskedQuestion]:
    return QuestionStore(result.logs_root).list_open() if result.waiting else []


def _find_answer(result: RunResult) -> Path | None:
    """The last completed stage's response, if a model gave one."""
    for node_id in reversed(result.completed_nodes):
        response = stage_path(result.stages_root, node_id) / "response.md"
        if response.is_file():
            return response
    return None


def _excerpt(path: Path) -> str:
    text = path.read_text("utf-8", "replace").strip()
    return text if len(text) <= _LONGEST_ANSWER else f"{text[:_LONGEST_ANSWER]}…"


async def _draw(graph: Graph, logs_root: Path) -> Path | None:
    """The graph as SVG in the run directory, if this machine can draw it: the result counts without it."""
    try:
        svg = await render_svg(graph, read_states(read_events(logs_root), graph.nodes))
        path = logs_root / "graph.svg"
        replace_file(path, svg)
    except (OSError, RunDirectoryError) as error:
        write_note(f"The graph could not be drawn: {error}.")
    except DrawingError:
        return None
    else:
        return path
    return None
