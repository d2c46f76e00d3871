"""What a run's events add up to is told right however much of them was read before."""

import threading
from pathlib import Path

import pytest
from attractor.errors import RunDirectoryError
from attractor.event_log import EVENTS_NAME, EventLog
from attractor.events import PipelineFailed, StageCompleted, StageFailed, StageRetrying, StageStarted
from attractor.server.histories import Histories
from attractor.stage_states import StageState


def begin(log: EventLog, name: str, index: int) -> None:
    log.emit(StageStarted, name=name, index=index)
    log.flush()


def test_each_event_is_read_once(tmp_path: Path) -> None:
    log, histories = EventLog(tmp_path), Histories()
    begin(log, "plan", 0)
    assert histories.find_working(tmp_path) == ["plan"]
    log.emit(StageFailed, name="plan", index=0, error="no", will_retry=True)
    log.emit(StageRetrying, name="plan", index=0, attempt=2, delay=0.1)
    assert histories.list_states(tmp_path) == {"plan": StageState.RETRYING}
    log.emit(StageCompleted, name="plan", index=0, duration=1.0)
    begin(log, "build", 1)
    plan, build = histories.list_stages(tmp_path, 10.0)
    assert (plan["status"], plan["visits"][0]["attempts"], build["status"]) == ("completed", 2, "running")
    read = (tmp_path / EVENTS_NAME).read_bytes()
    # What was read is not looked at again.
    (tmp_path / EVENTS_NAME).write_bytes(b"x" * (len(read) - 1) + b"\n")
    assert histories.find_working(tmp_path) == ["build"]
    log.close()


def test_a_line_that_is_not_whole_waits(tmp_path: Path) -> None:
    log, histories = EventLog(tmp_path), Histories()
    begin(log, "plan", 0)
    whole = (tmp_path / EVENTS_NAME).read_bytes()
    (tmp_path / EVENTS_NAME).write_bytes(whole[:-5])
    assert histories.find_working(tmp_path) == []
    (tmp_path / EVENTS_NAME).write_bytes(whole)
    assert histories.find_working(tmp_path) == ["plan"]
    log.close()


def test_a_log_that_got_shorter_is_another_one(tmp_path: Path) -> None:
    log, histories = EventLog(tmp_path), Histories()
    begin(log, "a-long-name-of-a-stage", 0)
    log.emit(PipelineFailed, error="killed", duration=1.0)
    assert histories.list_states(tmp_path) == {"a-long-name-of-a-stage": StageState.FAILED}
    log.close()
    (tmp_path / EVENTS_NAME).unlink()
    assert histories.list_states(tmp_path) == {}
    log = EventLog(tmp_path)
    begin(log, "plan", 0)
    assert histories.list_states(tmp_path) == {"plan": StageState.RUNNING}
    log.close()


def test_damage_is_told_each_time(tmp_path: Path) -> None:
    log, histories = EventLog(tmp_path), Histories()
    begin(log, "plan", 0)
    log.close()
    with (tmp_path / EVENTS_NAME).open("ab") as file:
        file.write(b"{damaged\n")
    for _ in range(2):
        with pytest.raises(RunDirectoryError, match="is damaged"):
            histories.list_states(tmp_path)


def test_few_histories_are_kept_and_many_threads_may_ask(tmp_path: Path) -> None:
    histories = Histories(most=2)
    folders = [tmp_path / str(number) for number in range(5)]
    for number, folder in enumerate(folders):
        folder.mkdir()
        log = EventLog(folder)
        for index in range(200):
            log.emit(StageStarted, name=f"stage{number}", index=index)
        log.close()
    wrong: list[int] = []

    def ask() -> None:
        for number, folder in enumerate(folders * 4):
            (record,) = histories.list_stages(folder, 0.0)
            if record["node_id"] != f"stage{number % 5}" or len(record["visits"]) != 200:
                wrong.append(number)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(histories._histories) == 2
