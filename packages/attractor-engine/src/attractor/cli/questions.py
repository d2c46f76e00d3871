"""What runs ask people: the command `answer`, and how questions are shown."""

import json
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from attractor.cli.completion import complete_answers, complete_questions, complete_runs
from attractor.cli.failure import SUCCESS
from attractor.cli.output import resume_command, write_json, write_note, write_result
from attractor.cli.parameters import Place
from attractor.errors import QuestionError
from attractor.interviewers import AskedQuestion, QuestionStore
from attractor.interviewers.matching import strip_accelerator
from attractor.state.run_directory import is_in_use, read_manifest
from attractor.state.suspensions import give_value, list_suspensions
from attractor.suspension import Suspension


@click.command()
@click.argument("run_dir", metavar="DIR", type=Place(path_type=Path), shell_complete=complete_runs)
@click.argument("key", metavar="[KEY]", required=False, shell_complete=complete_answers)
@click.option(
    "--question",
    "question_id",
    metavar="ID",
    default="",
    shell_complete=complete_questions,
    help="Which question, if several are open.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the questions, or the answered one, as JSON.")
def answer(run_dir: Path, key: str | None, question_id: str, as_json: bool) -> int:
    """Answer a question of a run, or list its questions. DIR is its run directory.

    KEY is the key or the label of a choice, text where text is asked for, or the value, JSON or text, that a stage
    waits for. Without it the open questions are listed. The first answer counts, whoever gives it. A run that goes on
    takes it up at once; one that waits must be resumed.

    \b
    Example: attractor answer ~/.local/state/attractor/runs/20261201T093015-demo-3f9a2c Y
    """
    read_manifest(run_dir)
    store = QuestionStore(run_dir)
    questions = store.list_open()
    others = [found for found in list_suspensions(run_dir) if not found.question]
    if key is None:
        _list(questions, others, as_json)
        return SUCCESS
    wanted = question_id or _choose_only([*(asked.id for asked in questions), *(found.id for found in others)], run_dir)
    if any(found.id == wanted for found in others):
        give_value(run_dir, wanted, _read_value(key))
        record: dict[str, Any] = {"id": wanted, "given": _read_value(key)}
    else:
        record = store.answer(wanted, key, "attractor answer").to_record()
    if as_json:
        write_json(record)
    if not is_in_use(run_dir):
        write_note(f"Answered. To go on: {resume_command(run_dir)}")
    return SUCCESS


def describe_questions(questions: Iterable[AskedQuestion], others: Iterable[Suspension]) -> Iterator[str]:
    """A line for each question, and for each suspended stage that needs a value."""
    for asked in questions:
        options = ", ".join(f"[{option.key}] {strip_accelerator(option.label)}" for option in asked.question.options)
        until = time.strftime("  until %Y-%m-%d %H:%M:%S", time.localtime(asked.deadline)) if asked.deadline else ""
        place = "/".join(f"{fan_out}#{number}" for fan_out, number in asked.branch)
        stage = f"{place}/{asked.question.stage}" if place else asked.question.stage
        text = " ".join(asked.question.text.split())
        yield f"{asked.id}  {stage}  {text}  {options or asked.question.type.value}{until}"
    for found in others:
        yield f"{found.id}  {found.node_id}  {json.dumps(found.payload, ensure_ascii=False)}  a JSON value"


def _list(questions: list[AskedQuestion], others: list[Suspension], as_json: bool) -> None:
    if as_json:
        records = [asked.to_record() for asked in questions]
        write_json({"questions": records, "suspensions": [found.to_record() for found in others]})
        return
    for line in describe_questions(questions, others):
        write_result(line)
    if not questions and not others:
        write_note("The run asks nothing.")


def _choose_only(ids: list[str], run_dir: Path) -> str:
    if not ids:
        raise QuestionError(f"{run_dir} has no open question")
    if len(ids) > 1:
        raise QuestionError(f"{run_dir} has several open questions; name one with --question: {', '.join(ids)}")
    return ids[0]


def _read_value(text: str) -> Any:
    """JSON, or else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text
