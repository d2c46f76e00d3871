"""Pipelines over HTTP: every path of section 9.5, and the others (through real sockets)."""

import json
import threading
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from attractor import AutoApproveInterviewer, PipelineRunner
from attractor.events import EVENT_TYPES

from .conftest import GATE, HELLO, Serve, command_pipeline

PROBLEM = "application/problem+json"


def test_9_5_a_pipeline_is_submitted_and_completes(serve: Serve) -> None:
    served = serve()
    answer = served.client.post("/pipelines", json={"dot_source": HELLO, "simulate": True, "colour": "ignored"})
    assert (answer.status_code, answer.headers["location"]) == (201, f"/pipelines/{answer.json()['pipeline_id']}")
    run = served.wait_for(answer.json()["pipeline_id"], "completed")
    assert run["completed_nodes"] == ["start", "say", "exit"]
    assert (run["name"], run["failure_reason"], run["resumable"]) == ("hello", "", False)


def test_9_5_the_state_of_a_run_can_be_read(serve: Serve) -> None:
    served = serve()
    run_id = served.submit(HELLO, context={"city": "Rome"})
    served.wait_for(run_id, "completed")
    checkpoint = served.get(run_id, "/checkpoint")
    assert checkpoint["completed_nodes"] == ["start", "say", "exit"]
    assert checkpoint["context"] == served.get(run_id, "/context")
    assert served.get(run_id, "/context")["city"] == "Rome"
    svg = served.client.get(f"/pipelines/{run_id}/graph")
    assert (svg.status_code, svg.headers["content-type"]) == (200, "image/svg+xml")
    assert "<svg" in svg.text
    for path in ("/source", "/graph?format=dot"):
        assert served.client.get(f"/pipelines/{run_id}{path}").text == HELLO


def test_runs_are_listed_the_latest_first(serve: Serve) -> None:
    served = serve()
    ids = [served.submit(HELLO) for _ in range(3)]
    for run_id in ids:
        served.wait_for(run_id, "completed")
    listed = served.client.get("/pipelines").json()
    assert [run["pipeline_id"] for run in listed["pipelines"]] == ids[::-1]
    assert listed["total"] == 3
    page = served.client.get("/pipelines?limit=1&offset=1").json()
    assert ([run["pipeline_id"] for run in page["pipelines"]], page["total"]) == ([ids[1]], 3)


def test_runs_of_other_processes_are_found(serve: Serve, tmp_path: Path) -> None:
    served = serve()

    async def run() -> None:
        runner = PipelineRunner(logs_root=tmp_path / "runs" / "by-hand", interviewer=AutoApproveInterviewer())
        await runner.run(HELLO)

    anyio.run(run)
    assert served.get("by-hand")["status"] == "completed"
    assert [run["pipeline_id"] for run in served.client.get("/pipelines").json()["pipelines"]] == ["by-hand"]


def test_a_failed_run_tells_why_and_can_be_resumed(serve: Serve, tmp_path: Path) -> None:
    served = serve()
    run_id = served.submit(command_pipeline(f"test -e {tmp_path}/mended || {{ echo broken >&2; exit 3; }}"))
    run = served.wait_for(run_id, "failed")
    assert "3" in run["failure_reason"]
    assert (run["resumable"], run["interrupted"]) == (True, False)
    (tmp_path / "mended").touch()
    answer = served.client.post(f"/pipelines/{run_id}/resume")
    assert answer.status_code == 200, answer.text
    assert served.wait_for(run_id, "completed")["completed_nodes"][-1] == "exit"
    again = served.client.post(f"/pipelines/{run_id}/resume", json={})
    assert (again.status_code, again.headers["content-type"]) == (409, PROBLEM)


def test_a_failing_command_takes_the_edge_for_failures(serve: Serve) -> None:
    served = serve()
    run_id = served.submit(
        """digraph f { start [shape=Mdiamond]; exit [shape=Msquare]; work [shape=parallelogram, tool_command="exit 3"]
        fix [prompt="Fix"]; lost [shape=parallelogram, tool_command="no-such-command-here"]
        start -> work; work -> exit [condition="outcome=success"]; work -> fix [condition="outcome=fail"]; fix -> lost
        lost -> exit [condition="outcome=fail"]; lost -> fix [condition="outcome=success"] }"""
    )
    run = served.wait_for(run_id, "completed")
    assert run["completed_nodes"] == ["start", "work", "fix", "lost", "exit"]
    assert served.get(run_id, "/context")["tool.exit_code"] == 127


@pytest.mark.parametrize(
    ("body", "status", "what"),
    [
        ({"dot_source": "digraph { a -> }"}, 422, "syntax"),
        ({"dot_source": "digraph { a -> b }"}, 422, "start_node"),
        ({"dot_source": 3}, 400, "dot_source"),
        ({}, 400, "dot_source"),
        ({"dot_source": HELLO, "simulate": "yes"}, 400, "simulate"),
        ({"dot_source": HELLO, "context": []}, 400, "context"),
        ([], 400, "object"),
    ],
)
def test_what_cannot_run_is_refused_with_a_reason(serve: Serve, body: Any, status: int, what: str) -> None:
    answer = serve().client.post("/pipelines", json=body)
    assert (answer.status_code, answer.headers["content-type"]) == (status, PROBLEM)
    problem = answer.json()
    assert problem["status"] == status
    assert what in json.dumps(problem)
    if status == 422:
        assert problem["diagnostics"][0]["severity"] == "error"


def test_lint_tells_lines_and_columns(serve: Serve) -> None:
    served = serve()
    found = served.client.post("/lint", json={"dot_source": "digraph g {\n  a -> -> b\n}"}).json()["diagnostics"]
    assert [(one["rule"], one["severity"], one["line"], one["column"]) for one in found] == [("syntax", "error", 2, 8)]
    found = served.client.post("/lint", json={"dot_source": HELLO.replace("-> exit", "-> gone")}).json()["diagnostics"]
    assert any(one["severity"] == "error" and one["line"] == 1 for one in found)
    fine = served.client.post("/lint", json={"dot_source": HELLO}).json()["diagnostics"]
    assert not any(one["severity"] == "error" for one in fine)


def test_a_source_is_drawn_without_being_run(serve: Serve) -> None:
    served = serve()
    svg = served.client.post("/graph", json={"dot_source": HELLO})
    assert (svg.status_code, svg.headers["content-type"]) == (200, "image/svg+xml")
    assert served.client.post("/graph", json={"dot_source": "digraph {"}).status_code == 422
    assert served.client.get("/pipelines").json()["total"] == 0


def test_stages_tell_of_their_visits(serve: Serve) -> None:
    served = serve()
    run_id = served.submit(GATE.replace("COUNT", "/dev/null"))
    served.wait_for(run_id, "waiting")
    stages = {stage["node_id"]: stage for stage in served.get(run_id, "/stages")["stages"]}
    assert {name: stage["status"] for name, stage in stages.items()} == {
        "start": "completed",
        "before": "completed",
        "gate": "running",
    }
    visit = stages["before"]["visits"][0]
    assert visit["attempts"] == 1
    assert visit["ended_at"] >= visit["started_at"]


def test_files_of_stages_are_listed_and_read(serve: Serve) -> None:
    served = serve()
    run_id = served.submit(command_pipeline("echo grüße"))
    served.wait_for(run_id, "completed")
    names = [file["name"] for file in served.get(run_id, "/stages/build/files")["files"]]
    assert {"status.json", "tool_output.txt"} <= set(names)
    answer = served.client.get(f"/pipelines/{run_id}/stages/build/files/tool_output.txt")
    assert (answer.text, answer.headers["content-type"]) == ("grüße\n", "text/plain; charset=utf-8")
    assert served.client.get(f"/pipelines/{run_id}/stages/build/files/nothing.txt").status_code == 404
    assert served.get(run_id, "/stages/nowhere/files") == {"files": []}


def test_node_ids_may_have_any_characters(serve: Serve) -> None:
    served = serve()
    run_id = served.submit(HELLO.replace("say", '"say/it ..%20<b>"'))
    served.wait_for(run_id, "completed")
    path = f"/pipelines/{run_id}/stages/say%2Fit%20..%2520%3Cb%3E/files"
    assert "prompt.md" in [file["name"] for file in served.client.get(path).json()["files"]]
    assert served.client.get(f"{path}/prompt.md").text == "Greet"


def test_artifacts_are_listed_and_read(serve: Serve) -> None:
    served = serve()
    run_id = served.submit(HELLO)
    served.wait_for(run_id, "completed")
    folder = served.root / run_id / "artifacts"
    folder.mkdir(exist_ok=True)
    (folder / "report.json").write_text('{"rows": 3}')
    assert [file["name"] for file in served.get(run_id, "/artifacts")["files"]] == ["report.json"]
    assert served.client.get(f"/pipelines/{run_id}/artifacts/report.json").json() == {"rows": 3}


def test_a_stage_at_work_is_steered(serve: Serve) -> None:
    served = serve()
    run_id = served.submit(command_pipeline('while [ ! -s "$ATTRACTOR_STAGE_DIR/steering.md" ]; do sleep 0.02; done'))
    while served.get(run_id, "/stages")["stages"][-1]["node_id"] != "build":
        time.sleep(0.01)
    refused = served.client.post(f"/pipelines/{run_id}/steer", json={"text": "Hurry", "node_id": "exit"})
    assert refused.status_code == 409
    answer = served.client.post(f"/pipelines/{run_id}/steer", json={"text": "Hurry up"})
    assert answer.json() == {"stages": ["build"]}
    served.wait_for(run_id, "completed")
    assert served.client.get(f"/pipelines/{run_id}/stages/build/files/steering.md").text == "Hurry up\n\n"
    assert served.client.post(f"/pipelines/{run_id}/steer", json={"text": "Late"}).status_code == 409
    assert served.client.post(f"/pipelines/{run_id}/steer", json={"text": " "}).status_code == 400


def test_cancelling_ends_commands_within_three_seconds(serve: Serve, tmp_path: Path) -> None:
    served = serve()
    # Two processes of a group, and the first doesn't listen to a polite request.
    run_id = served.submit(
        command_pipeline(
            f"trap '' TERM; sh -c 'while :; do date >> {tmp_path}/alive; sleep 0.05; done' & wait; sleep 60"
        )
    )
    while not (tmp_path / "alive").exists():
        time.sleep(0.01)
    begun = time.monotonic()
    answer = served.client.post(f"/pipelines/{run_id}/cancel")
    assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")
    assert time.monotonic() - begun < 3
    size = (tmp_path / "alive").stat().st_size
    time.sleep(0.3)
    assert (tmp_path / "alive").stat().st_size == size
    assert served.client.post(f"/pipelines/{run_id}/cancel").json()["status"] == "cancelled"
    assert served.events(run_id)[-1].name == "PipelineFailed"


def test_a_completed_run_cannot_be_cancelled(serve: Serve) -> None:
    served = serve()
    run_id = served.submit(HELLO)
    served.wait_for(run_id, "completed")
    assert served.client.post(f"/pipelines/{run_id}/cancel").status_code == 409


def test_a_cancelled_run_goes_on_when_it_is_resumed(serve: Serve, tmp_path: Path) -> None:
    served = serve()
    run_id = served.submit(GATE.replace("COUNT", f"{tmp_path}/count"))
    question = served.wait_for_question(run_id)
    assert served.client.post(f"/pipelines/{run_id}/cancel").json()["status"] == "cancelled"
    assert served.get(run_id, "/questions") == {"questions": []}
    assert served.answer(run_id, question["qid"], "Y").status_code == 409
    assert served.client.post(f"/pipelines/{run_id}/resume").status_code == 200
    assert served.wait_for_question(run_id)["qid"] == question["qid"]
    assert served.answer(run_id, question["qid"], "Y").status_code == 200
    assert served.wait_for(run_id, "completed")["completed_nodes"] == ["start", "before", "gate", "ship", "exit"]
    assert (tmp_path / "count").read_text() == "once\n"


def test_a_run_that_another_process_executes_is_left_to_it(serve: Serve, tmp_path: Path) -> None:
    served = serve()

    async def run(folder: Path, done: threading.Event) -> None:
        async with anyio.create_task_group() as tasks:
            runner = PipelineRunner(logs_root=folder)
            tasks.start_soon(runner.run, command_pipeline("sleep 60"))
            while not done.is_set():
                await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()

    folder, done = tmp_path / "runs" / "elsewhere", threading.Event()
    thread = threading.Thread(target=anyio.run, args=(run, folder, done))
    thread.start()
    try:
        while not (folder / "journal.jsonl").exists():
            time.sleep(0.01)
        assert served.wait_for("elsewhere", "running")["executed"]
        for what in ("cancel", "resume"):
            answer = served.client.post(f"/pipelines/elsewhere/{what}")
            assert (answer.status_code, "being executed" in answer.json()["detail"]) == (409, True)
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize("what", ["", "/events", "/questions", "/graph", "/checkpoint", "/context", "/stages"])
def test_an_unknown_run_is_not_found(serve: Serve, what: str) -> None:
    answer = serve().client.get(f"/pipelines/20261201T000000-none-00/{what.lstrip('/')}".rstrip("/"))
    assert (answer.status_code, answer.headers["content-type"]) == (404, PROBLEM)


def test_unknown_paths_and_methods_are_problems(serve: Serve) -> None:
    client = serve().client
    assert client.get("/nowhere").json()["status"] == 404
    answer = client.delete("/pipelines")
    assert (answer.json()["status"], "GET" in answer.headers["allow"]) == (405, True)


def test_health_and_metrics(serve: Serve) -> None:
    served = serve()
    served.wait_for(served.submit(HELLO), "completed")
    assert served.client.get("/health").json() == {"status": "ok"}
    answer = served.client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    numbers = dict(line.rsplit(" ", 1) for line in answer.text.splitlines() if not line.startswith("#"))
    assert numbers['attractor_runs{status="completed"}'] == "1"
    assert numbers["attractor_runs_executed"] == "0"
    assert numbers["attractor_runs_started_total"] == "1"
    assert numbers['attractor_http_requests_total{method="POST",operation="submit_pipeline",status="201"}'] == "1"
    helped = [line.split()[2] for line in answer.text.splitlines() if line.startswith("# HELP")]
    assert len(helped) == len(set(helped))


def test_event_names_are_those_of_the_records(serve: Serve) -> None:
    served = serve()
    events = served.events(served.submit(HELLO))
    assert {event.name for event in events} <= EVENT_TYPES.keys()
    assert (events[0].name, events[-1].name) == ("PipelineStarted", "PipelineCompleted")
