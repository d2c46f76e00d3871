"""Questions of every type from DOT, several at once, and what answers to them mean (sections 4.6 and 6)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from attractor import Answer, AnswerValue, AutoApproveInterviewer, Question, QuestionType, QueueInterviewer, parse_dot
from attractor.interviewers import DeferringInterviewer
from attractor.interviewers.questions import QuestionStore
from attractor.pipeline import PipelineRunner, RunResult
from attractor.validation import validate

GATE = """digraph g {{ start [shape=Mdiamond]; exit [shape=Msquare]; gate [shape=hexagon, label="Deploy?" {attrs}]
    ship; hold; start -> gate; {edges} ship -> exit; hold -> exit }}"""
TWO = 'gate -> hold [label="No, hold"]; gate -> ship [label="[Y] Ship it"];'


class Person:
    """Answers in order, and remembers what was asked."""

    def __init__(self, *answers: Answer | str) -> None:
        self._answers = list(answers)
        self.asked: list[Question] = []

    async def ask(self, question: Question) -> Answer:
        self.asked.append(question)
        answer = self._answers.pop(0)
        return Answer(value=answer) if isinstance(answer, str) else answer


async def run(folder: Path, interviewer: Any, attrs: str = "", edges: str = TWO) -> RunResult:
    runner = PipelineRunner(interviewer=interviewer, logs_root=folder / "run")
    return await runner.run(GATE.format(attrs=f", {attrs}" if attrs else "", edges=edges))


@pytest.mark.parametrize("kind", ["yes_no", "confirmation", "yes-no"])
@pytest.mark.parametrize(("said", "way"), [(AnswerValue.YES, "ship"), (AnswerValue.NO, "hold"), ("n", "hold")])
async def test_dod_11_8_yes_and_no_lead_along_two_edges(tmp_path: Path, kind: str, said: str, way: str) -> None:
    person = Person(said)
    result = await run(tmp_path, person, f'"human.type"="{kind}"')
    assert (result.status, result.completed_nodes[2]) == ("success", way)
    [question] = person.asked
    assert (question.type, question.options) == (QuestionType(kind.replace("-", "_")), ())
    assert result.context["human.gate.answer"] == ("yes" if said == AnswerValue.YES else "no")


async def test_edges_without_such_names_are_yes_then_no(tmp_path: Path) -> None:
    edges = 'gate -> ship [label="Go"]; gate -> hold [label="Stop"];'
    assert (await run(tmp_path / "a", Person("yes"), '"human.type"=yes_no', edges)).completed_nodes[2] == "ship"
    assert (await run(tmp_path / "b", Person("no"), '"human.type"=yes_no', edges)).completed_nodes[2] == "hold"


async def test_yes_never_takes_the_edge_that_is_called_no(tmp_path: Path) -> None:
    edges = 'gate -> hold [label="No"]; gate -> ship [label="Ship"];'
    assert (await run(tmp_path, Person("yes"), '"human.type"=yes_no', edges)).completed_nodes[2] == "ship"


async def test_a_no_that_has_no_edge_fails_the_gate(tmp_path: Path) -> None:
    edges = 'gate -> ship; gate -> hold [condition="outcome=fail"];'
    result = await run(tmp_path, Person("no"), '"human.type"=confirmation', edges)
    assert result.completed_nodes == ("start", "gate", "hold", "exit")
    assert result.node_outcomes["gate"].failure_reason == "human gate 'gate': the answer was no"


async def test_dod_11_8_a_free_text_goes_to_the_context(tmp_path: Path) -> None:
    person = Person(Answer(value="skipped", text="skipped"))
    edges = 'gate -> ship [condition="context.human.gate.answer=skipped"]; gate -> hold;'
    result = await run(tmp_path, person, '"human.type"=freeform', edges)
    assert person.asked[0].type is QuestionType.FREEFORM
    assert result.context["human.gate.answer"] == "skipped", "who types the word didn't skip"
    assert result.completed_nodes[2] == "ship"


async def test_dod_11_8_multiple_choice_stays_the_default(tmp_path: Path) -> None:
    person = Person("y")
    result = await run(tmp_path, person)
    assert person.asked[0].type is QuestionType.MULTIPLE_CHOICE
    assert result.completed_nodes[2] == "ship"


async def test_nonsense_is_asked_again(tmp_path: Path) -> None:
    person = Person("perhaps", "yes")
    result = await run(tmp_path, person, '"human.type"=yes_no')
    assert (len(person.asked), result.completed_nodes[2]) == (2, "ship")


@pytest.mark.parametrize(
    ("kind", "default", "answer", "way"),
    [("yes_no", "no", "no", "hold"), ("yes_no", "ship", "yes", "ship"), ("freeform", "as ever", "as ever", "hold")],
)
async def test_defaults_of_every_type(tmp_path: Path, kind: str, default: str, answer: str, way: str) -> None:
    attrs = f'"human.type"={kind}, "human.default_choice"="{default}"'
    result = await run(tmp_path, Person(AnswerValue.TIMEOUT), attrs)
    assert (result.context["human.gate.answer"], result.completed_nodes[2]) == (answer, way)


async def test_auto_approval_says_yes(tmp_path: Path) -> None:
    result = await run(tmp_path, AutoApproveInterviewer(), '"human.type"=yes_no')
    assert result.completed_nodes[2] == "ship"


async def test_a_stored_question_of_each_type_is_answered_from_outside(tmp_path: Path) -> None:
    waiting = await run(tmp_path, DeferringInterviewer(), '"human.type"=yes_no')
    assert waiting.waiting
    store = QuestionStore(tmp_path / "run")
    [asked] = store.list_open()
    assert asked.question.type is QuestionType.YES_NO
    store.answer(asked.id, "n")
    result = await PipelineRunner(interviewer=DeferringInterviewer()).resume(tmp_path / "run")
    assert result.completed_nodes[2] == "hold"


class Together(Person):
    """Takes several questions at once."""

    async def ask_multiple(self, questions: Sequence[Question]) -> list[Answer]:
        self.asked += questions
        return [Answer(value=f"to {question.text}", text=f"to {question.text}") for question in questions]


QUESTIONS = r'"human.questions"="Which port?\nWhich host?"'


async def test_several_questions_are_asked_together(tmp_path: Path) -> None:
    person = Together()
    result = await run(tmp_path, person, QUESTIONS, "gate -> ship; gate -> hold [weight=-1];")
    assert [question.text for question in person.asked] == ["Which port?", "Which host?"]
    assert {question.type for question in person.asked} == {QuestionType.FREEFORM}
    assert result.context["human.gate.answers"] == ["to Which port?", "to Which host?"]
    assert result.completed_nodes[2] == "ship"


async def test_who_can_not_take_several_gets_one_after_the_other(tmp_path: Path) -> None:
    person = Person("perhaps", "y", "n")
    result = await run(tmp_path, person, QUESTIONS + ', "human.type"=yes_no', "gate -> ship; gate -> hold [weight=-1];")
    assert [question.text for question in person.asked] == ["Which port?", "Which host?", "Which port?"]
    assert result.context["human.gate.answers"] == ["no", "yes"]


async def test_several_questions_wait_and_are_answered_one_by_one(tmp_path: Path) -> None:
    edges = "gate -> ship; gate -> hold [weight=-1];"
    assert (await run(tmp_path, DeferringInterviewer(), QUESTIONS, edges)).waiting
    store = QuestionStore(tmp_path / "run")
    first, second = store.list_open()
    store.answer(first.id, "80")
    again = await PipelineRunner(interviewer=DeferringInterviewer()).resume(tmp_path / "run")
    assert again.waiting
    store.answer(second.id, "here")
    result = await PipelineRunner(interviewer=DeferringInterviewer()).resume(tmp_path / "run")
    assert result.context["human.gate.answers"] == ["80", "here"]
    assert len(store.list_all()) == 2


class Slow(Person):
    """Has no answer to the second question."""

    async def ask(self, question: Question) -> Answer:
        self.asked.append(question)
        if len(self.asked) > 1:
            await anyio.sleep_forever()
        return Answer(value="yes", text="yes")


@pytest.mark.parametrize(
    ("attrs", "way", "answers"),
    [
        ('"human.default_choice"=ship', "ship", ["yes", ""]),
        ('"human.type"=freeform, "human.default_choice"=8080', "hold", ["yes", "8080"]),
        ('"human.type"=yes_no, "human.default_choice"=no', "hold", ["yes", "no"]),
    ],
)
async def test_the_default_of_a_form_counts_when_its_time_is_over(
    tmp_path: Path, attrs: str, way: str, answers: list[str]
) -> None:
    """Which is the way on, or the answer to what has none (section 6.5)."""
    result = await run(tmp_path, Slow(), f'{QUESTIONS}, "human.timeout"="100ms", {attrs}')
    assert (result.status, result.completed_nodes[2]) == ("success", way)
    assert result.context["human.gate.answers"] == answers


async def test_a_form_without_a_default_asks_for_a_retry(tmp_path: Path) -> None:
    result = await run(tmp_path, Slow(), f'{QUESTIONS}, "human.timeout"="50ms"')
    assert "not every question was answered in time" in result.failure_reason


async def test_a_form_that_is_skipped_fails(tmp_path: Path) -> None:
    result = await run(tmp_path, QueueInterviewer([Answer(value="80", text="80")]), QUESTIONS)
    assert result.failure_reason == "human gate 'gate': human skipped interaction"


def test_lint_knows_the_types() -> None:
    def rules(attrs: str, edges: str = TWO) -> list[str]:
        return [found.rule for found in validate(parse_dot(GATE.format(attrs=f", {attrs}", edges=edges)))]

    assert "attribute_value" in rules('"human.type"=essay')
    assert "attribute_value" not in rules('"human.type"=confirmation')
    assert "human_default_choice" not in rules('"human.type"=yes_no, "human.default_choice"=no')
    assert "human_default_choice" in rules('"human.type"=yes_no, "human.default_choice"=perhaps')
    assert "human_type" in rules('"human.type"=yes_no', TWO + "gate -> exit [label=Other];")
    assert "human_type" not in rules('"human.type"=yes_no')
