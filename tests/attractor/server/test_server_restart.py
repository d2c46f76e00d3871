"""Servers that are killed or stopped, and started again over the same runs."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import GATE, HELLO, ServedProcess, command_pipeline

ServeProcess = Callable[..., ServedProcess]


def kill(served: ServedProcess) -> None:
    os.killpg(served.process.pid, signal.SIGKILL)
    served.process.wait()


def stop(served: ServedProcess, seconds: float = 10) -> str:
    os.kill(served.process.pid, signal.SIGTERM)
    _, told = served.process.communicate(timeout=seconds)
    return str(told)


@pytest.mark.parametrize("ending", [kill, stop])
def test_a_question_outlives_its_server_and_an_answer_makes_the_run_go_on(
    serve_process: ServeProcess, tmp_path: Path, ending: Callable[[ServedProcess], object]
) -> None:
    served = serve_process("--simulate")
    run_id = served.submit(GATE.replace("COUNT", f"{tmp_path}/count"))
    question = served.wait_for_question(run_id)
    ending(served)

    again = serve_process("--simulate")
    run = again.get(run_id)
    assert (run["status"], run["executed"], run["resumable"]) == ("waiting", False, True)
    assert [one["qid"] for one in again.get(run_id, "/questions")["questions"]] == [question["qid"]]
    assert again.answer(run_id, question["qid"], "reject").status_code == 422
    assert again.answer(run_id, question["qid"], "N").status_code == 200
    done = again.wait_for(run_id, "completed")
    assert done["completed_nodes"] == ["start", "before", "gate", "mend", "exit"]
    assert (tmp_path / "count").read_text() == "once\n"
    assert again.get(run_id, "/context")["human.gate.label"] == "[N] No, reject"
    names = [event.name for event in again.events(run_id)]
    assert (names.count("InterviewStarted"), names.count("InterviewCompleted")) == (1, 1)
    stop(again)


def test_a_killed_run_is_offered_and_resumed(serve_process: ServeProcess, tmp_path: Path) -> None:
    served = serve_process("--simulate")
    wait = command_pipeline(f"echo begun >> {tmp_path}/tries; test -e {tmp_path}/go || sleep 600")
    run_id, done = served.submit(wait), served.submit(HELLO)
    served.wait_for(done, "completed")
    while not (tmp_path / "tries").exists():
        time.sleep(0.01)
    with served.stream(run_id) as events:
        seen = [next(events).id for _ in range(4)]
    kill(served)

    again = serve_process("--simulate")
    listed = {run["pipeline_id"]: run for run in again.client.get("/pipelines").json()["pipelines"]}
    assert listed[done]["status"] == "completed"
    offered = listed[run_id]
    assert (offered["status"], offered["interrupted"], offered["resumable"]) == ("failed", True, True)
    assert again.events(run_id, Last_Event_ID=str(seen[-1]))[-1].name == "StageStarted"
    (tmp_path / "go").touch()
    assert again.client.post(f"/pipelines/{run_id}/resume").json()["executed"]
    assert again.wait_for(run_id, "completed")["completed_nodes"] == ["start", "build", "exit"]
    assert (tmp_path / "tries").read_text() == "begun\nbegun\n"
    names = [event.name for event in again.events(run_id, Last_Event_ID=str(seen[-1]))]
    assert (*names[1:3], names[-1]) == ("StageFailed", "PipelineStarted", "PipelineCompleted")
    stop(again)


def test_a_killed_run_can_be_cancelled(serve_process: ServeProcess, tmp_path: Path) -> None:
    served = serve_process("--simulate")
    run_id = served.submit(command_pipeline(f"touch {tmp_path}/begun; sleep 600"))
    while not (tmp_path / "begun").exists():
        time.sleep(0.01)
    kill(served)
    again = serve_process("--simulate")
    assert again.client.post(f"/pipelines/{run_id}/cancel").json()["status"] == "cancelled"
    assert again.events(run_id)[-1].name == "PipelineFailed"
    assert again.client.post(f"/pipelines/{run_id}/cancel").json()["status"] == "cancelled"
    stop(again)


def test_a_server_that_is_stopped_ends_its_runs_and_streams(serve_process: ServeProcess, tmp_path: Path) -> None:
    served = serve_process("--simulate")
    run_id = served.submit(command_pipeline(f"touch {tmp_path}/begun; sleep 600"))
    while not (tmp_path / "begun").exists():
        time.sleep(0.01)
    with served.stream(run_id) as events:
        next(events)
        begun = time.monotonic()
        os.kill(served.process.pid, signal.SIGTERM)
        assert [event.name for event in events][-1].startswith("Stage")
    told = served.process.communicate(timeout=10)[1]
    assert (served.process.returncode, "Traceback" in told) == (0, False), told
    assert time.monotonic() - begun < 8
    again = serve_process("--simulate")
    run = again.get(run_id)
    assert (run["status"], run["interrupted"], run["resumable"]) == ("failed", True, True)
    assert "stopped" in run["failure_reason"]
    stop(again)


def test_a_run_that_was_started_before_goes_on_as_it_was_told(serve_process: ServeProcess, tmp_path: Path) -> None:
    served = serve_process()
    run_id = served.submit(GATE.replace("COUNT", f"{tmp_path}/count"), simulate=True)
    served.wait_for_question(run_id)
    kill(served)
    again = serve_process()
    again.answer(run_id, "q1", "Y")
    assert again.wait_for(run_id, "completed")["simulate"]
    stop(again)


def test_a_body_that_has_half_come_does_not_hold_up_the_end(serve_process: ServeProcess) -> None:
    served = serve_process("--simulate")
    head = "POST /pipelines HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n"
    with socket.create_connection(("127.0.0.1", served.port), timeout=30) as connection:
        connection.sendall(f"{head}{{".encode())
        # Answered behind the other one was read.
        assert served.client.get("/health").status_code == 200
        told = stop(served)
        assert connection.recv(100).startswith(b"HTTP/1.1 503 ")
    assert (served.process.returncode, "Traceback" in told) == (0, False)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--provider", "bogus"], "the provider 'bogus' is not configured"),
        (["--simulate", "--memory", "{}/damaged.json"], "damaged.json is damaged"),
    ],
)
def test_what_can_not_be_served_is_told_at_once(
    start: Callable[..., "subprocess.Popen[str]"], tmp_path: Path, arguments: list[str], said: str
) -> None:
    (tmp_path / "damaged.json").write_text("{")
    more = [argument.format(tmp_path) for argument in arguments]
    process = start("serve", "--port", "0", "--logs", tmp_path / "runs", *more)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (2, "")
    assert said in err
    assert "Serving on" not in err
