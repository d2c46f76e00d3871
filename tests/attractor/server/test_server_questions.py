"""Human gates over HTTP: listed, answered once, and answered from wherever (sections 4.6, 6 and 9.5)."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from attractor import QuestionStore

from .conftest import GATE, Serve

TWO = """digraph two { start [shape=Mdiamond]; exit [shape=Msquare]; fork [shape=component]; join [shape=tripleoctagon]
    left [shape=hexagon, label="Left?"]; right [shape=hexagon, label="Right?"]; start -> fork -> {left right}
    left -> a [label="Go"]; right -> b [label="Go"]; {a b} -> join -> exit }"""


def typed(kind: str) -> str:
    return f"""digraph g {{ start [shape=Mdiamond]; exit [shape=Msquare]
        gate [shape=hexagon, label="Sure?", "human.type"="{kind}"]; start -> gate -> yes [label="Yes"]
        gate -> no [label="No"]; {{yes no}} -> exit }}"""


@pytest.mark.parametrize(
    ("said", "then"), [("Y", "ship"), ("y", "ship"), ("Yes", "ship"), ("N", "mend"), ("no, reject", "mend")]
)
def test_a_gate_is_answered_by_key_or_label(serve: Serve, tmp_path: Path, said: str, then: str) -> None:
    served = serve()
    run_id = served.submit(GATE.replace("COUNT", f"{tmp_path}/count"))
    question = served.wait_for_question(run_id)
    assert question["options"] == [{"key": "Y", "label": "[Y] Yes"}, {"key": "N", "label": "[N] No, reject"}]
    assert (question["text"], question["type"], question["stage"]) == ("Ship it?", "multiple_choice", "gate")
    assert served.get(run_id)["status"] == "waiting"
    answer = served.client.post(
        f"/pipelines/{run_id}/questions/{question['qid']}/answer", json={"value": said, "who": "ignored"}
    )
    assert (answer.status_code, answer.json()["ending"]) == (200, "answered")
    assert then in served.wait_for(run_id, "completed")["completed_nodes"]
    assert (tmp_path / "count").read_text() == "once\n"
    assert served.get(run_id, "/questions") == {"questions": []}
    assert [one["qid"] for one in served.get(run_id, "/questions?all=true")["questions"]] == [question["qid"]]


@pytest.mark.parametrize("value", [True, "yes", "Y"])
def test_a_gate_for_yes_or_no_takes_a_boolean(serve: Serve, value: object) -> None:
    served = serve()
    run_id = served.submit(typed("yes_no"))
    question = served.wait_for_question(run_id)
    assert served.answer(run_id, question["qid"], value).status_code == 200
    assert "yes" in served.wait_for(run_id, "completed")["completed_nodes"]


def test_a_second_answer_is_a_conflict(serve: Serve) -> None:
    served = serve()
    run_id = served.submit(GATE.replace("COUNT", "/dev/null"))
    question = served.wait_for_question(run_id)
    with ThreadPoolExecutor(8) as threads:
        codes = list(threads.map(lambda value: served.answer(run_id, question["qid"], value).status_code, "YNYNYNYN"))
    assert sorted(codes) == [200] + [409] * 7
    served.wait_for(run_id, "completed")
    assert served.answer(run_id, question["qid"], "Y").status_code == 409


@pytest.mark.parametrize(("value", "status"), [("maybe", 422), ({}, 400), (None, 400)])
def test_what_is_no_answer_is_refused_and_the_question_stays(serve: Serve, value: object, status: int) -> None:
    served = serve()
    run_id = served.submit(GATE.replace("COUNT", "/dev/null"))
    question = served.wait_for_question(run_id)
    assert served.answer(run_id, question["qid"], value).status_code == status
    assert served.answer(run_id, "q99", "Y").status_code == 404
    assert served.client.post(f"/pipelines/{run_id}/questions/q1/answer", json={}).status_code == 400
    assert served.wait_for_question(run_id)["qid"] == question["qid"]


def test_two_gates_in_parallel_are_both_answered(serve: Serve) -> None:
    served = serve()
    run_id = served.submit(TWO)
    served.wait_for_question(run_id)
    while len(questions := served.get(run_id, "/questions")["questions"]) < 2:
        pass
    assert len({one["qid"] for one in questions}) == 2
    threads = [threading.Thread(target=served.answer, args=(run_id, one["qid"], "G")) for one in questions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {"a", "b", "join"} <= set(served.wait_for(run_id, "completed")["completed_nodes"])


def test_an_answer_of_another_process_counts_too(serve: Serve) -> None:
    served = serve()
    run_id = served.submit(GATE.replace("COUNT", "/dev/null"))
    question = served.wait_for_question(run_id)
    QuestionStore(served.root / run_id).answer(question["qid"], "N", "attractor answer")
    assert "mend" in served.wait_for(run_id, "completed")["completed_nodes"]
    assert served.answer(run_id, question["qid"], "Y").status_code == 409


def test_gates_are_approved_where_that_was_asked_for(serve: Serve) -> None:
    served = serve()
    run_id = served.submit(GATE.replace("COUNT", "/dev/null"), auto_approve=True)
    assert "ship" in served.wait_for(run_id, "completed")["completed_nodes"]


def test_a_gate_that_nobody_answers_in_time_takes_its_default(serve: Serve) -> None:
    served = serve()
    source = GATE.replace("COUNT", "/dev/null").replace(
        "shape=hexagon", 'shape=hexagon, "human.timeout"="100ms", "human.default_choice"="mend"'
    )
    run_id = served.submit(source)
    assert "mend" in served.wait_for(run_id, "completed")["completed_nodes"]
    asked = served.get(run_id, "/questions?all=true")["questions"][0]
    assert asked["ending"] == "timed_out"
    assert served.answer(run_id, asked["qid"], "Y").status_code == 409
