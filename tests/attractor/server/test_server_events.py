"""Events as server-sent events: history, numbers, reconnecting, ends, and readers who don't read."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import httpx
import pytest
from attractor.server.event_tail import Tails, find_end, read_batch
from attractor.server.redaction import Redactor
from hypothesis import given, settings
from hypothesis import strategies as st

from .conftest import GATE, HELLO, Serve, Served, command_pipeline, read_events


def write_events(folder: Path, count: int, size: int = 100, end: str = "PipelineCompleted") -> None:
    """A run's events as the engine would write them, without the run."""
    folder.mkdir(parents=True, exist_ok=True)
    kinds = ["PipelineStarted", *["StageActivity"] * (count - 2), end]
    text = "x" * size
    with (folder / "events.jsonl").open("a") as file:
        for number, kind in enumerate(kinds, 1):
            file.write(f'{{"type":"{kind}","sequence":{number},"time":1.5,"text":"{text}"}}\n')
    (folder / "manifest.json").write_text('{"name": "made"}')


def test_9_6_a_late_reader_gets_the_history_and_the_stream_ends(serve: Serve) -> None:
    served = serve()
    run_id = served.submit(HELLO)
    served.wait_for(run_id, "completed")
    events = served.events(run_id)
    assert [event.id for event in events] == list(range(1, len(events) + 1))
    assert [event.data["sequence"] for event in events] == [event.id for event in events]
    assert (events[0].name, events[-1].name) == ("PipelineStarted", "PipelineCompleted")
    assert [event.name for event in events] == [event.data["type"] for event in events]


def test_a_reader_who_comes_back_gets_what_is_missing(serve: Serve) -> None:
    served = serve()
    run_id = served.submit(HELLO)
    whole = served.events(run_id)
    for query, headers in (("", {"Last_Event_ID": "4"}), ("?last_event_id=4", {})):
        assert served.events(run_id, query, **headers) == whole[4:]
    # The header is newer: a browser that reconnects repeats the address, too.
    assert served.events(run_id, "?last_event_id=2", Last_Event_ID="5") == whole[5:]
    last = whole[-1].id
    done = served.client.get(f"/pipelines/{run_id}/events", headers={"Last-Event-ID": str(last)})
    assert (done.status_code, done.content) == (204, b"")
    assert served.client.get(f"/pipelines/{run_id}/events?last_event_id=x").status_code == 400


def test_a_reader_sees_events_as_they_happen(serve: Serve) -> None:
    served = serve()
    run_id = served.submit(GATE.replace("COUNT", "/dev/null"))
    with served.stream(run_id) as events:
        for event in events:
            if event.name == "InterviewStarted":
                served.answer(run_id, event.data["qid"], "Y")
        assert event.name == "PipelineCompleted"


def test_two_readers_of_one_run_and_one_leaves(serve: Serve) -> None:
    served = serve()
    run_id = served.submit(GATE.replace("COUNT", "/dev/null"))
    served.wait_for_question(run_id)
    with served.stream(run_id) as staying:
        with served.stream(run_id) as leaving:
            assert next(leaving).name == next(staying).name == "PipelineStarted"
        with served.stream(run_id) as back:
            assert next(back).name == "PipelineStarted"
        served.answer(run_id, "q1", "Y")
        assert [event.name for event in staying][-1] == "PipelineCompleted"
    assert served.get(run_id)["status"] == "completed"


def test_a_stream_that_is_opened_at_the_moment_of_the_end_ends(serve: Serve) -> None:
    served = serve()
    for _ in range(15):
        run_id = served.submit(HELLO)
        assert served.events(run_id)[-1].name == "PipelineCompleted"


def test_silence_is_filled_with_comments(serve: Serve) -> None:
    served = serve(keep_alive=0.05)
    run_id = served.submit(GATE.replace("COUNT", "/dev/null"))
    with served.client.stream("GET", f"/pipelines/{run_id}/events") as answer:
        lines = answer.iter_lines()
        assert sum(line == ": keep-alive" for line in _take_until(lines, ": keep-alive", 3)) == 3
    assert answer.headers["x-accel-buffering"] == "no"
    assert answer.headers["cache-control"] == "no-store"


def _take_until(lines: Iterator[str], wanted: str, times: int) -> list[str]:
    found: list[str] = []
    while found.count(wanted) < times:
        found.append(next(lines))
    return found


def test_history_alone_can_be_asked_for(serve: Serve) -> None:
    served = serve()
    run_id = served.submit(GATE.replace("COUNT", "/dev/null"))
    served.wait_for_question(run_id)
    assert served.events(run_id, "?follow=false")[-1].name == "InterviewStarted"
    assert served.client.get(f"/pipelines/{run_id}/events?follow=maybe").status_code == 400


def test_a_resumed_run_goes_on_in_the_same_history(serve: Serve, tmp_path: Path) -> None:
    served = serve()
    run_id = served.submit(command_pipeline(f"test -e {tmp_path}/mended"))
    before = served.events(run_id)
    assert before[-1].name == "PipelineFailed"
    (tmp_path / "mended").touch()
    assert served.client.post(f"/pipelines/{run_id}/resume").status_code == 200
    after = served.events(run_id, Last_Event_ID=str(before[-1].id))
    assert (after[0].name, after[-1].name) == ("PipelineStarted", "PipelineCompleted")
    assert [event.id for event in served.events(run_id)] == list(range(1, after[-1].id + 1))


def test_the_stream_of_a_run_that_was_killed_ends(serve: Serve) -> None:
    served = serve()
    run_id = served.submit(HELLO)
    served.wait_for(run_id, "completed")
    folder = served.root / run_id
    lines = (folder / "events.jsonl").read_text().splitlines(keepends=True)
    (folder / "events.jsonl").write_text("".join(lines[:3]) + lines[3][:10])
    assert [event.id for event in served.events(run_id)] == [1, 2, 3]


def test_a_long_history_is_sent_whole(serve: Serve) -> None:
    served = serve()
    write_events(served.root / "long", 20_000)
    assert [event.id for event in served.events("long")] == list(range(1, 20_001))
    assert [event.id for event in served.events("long", Last_Event_ID="19990")] == list(range(19_991, 20_001))


def test_an_event_longer_than_a_read_is_sent(serve: Serve) -> None:
    served = serve()
    write_events(served.root / "wide", 3, size=300_000)
    assert [len(event.data["text"]) for event in served.events("wide")] == [300_000] * 3


def test_who_does_not_read_is_dropped_and_costs_no_memory(serve: Serve) -> None:
    served = serve(patience=1.0)
    write_events(served.root / "long", 20_000, size=1000)
    idle = [connect_idle(served, "long") for _ in range(20)]
    try:
        assert wait_for_streams(served, 20)
        assert wait_for_streams(served, 0), "the readers were not dropped"
    finally:
        for one in idle:
            one.close()


def connect_idle(served: Served, run_id: str) -> socket.socket:
    """A reader who never reads."""
    idle = socket.create_connection(("127.0.0.1", served.port))
    idle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    idle.sendall(f"GET /pipelines/{run_id}/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return idle


def wait_for_streams(served: Served, count: int) -> bool:
    """Whether that many streams are open at some moment of the next seconds."""
    deadline = time.monotonic() + 10
    while f"attractor_event_streams {count}" not in served.client.get("/metrics").text.splitlines():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def test_who_does_not_read_does_not_slow_the_others(serve: Serve) -> None:
    served = serve()
    write_events(served.root / "long", 50_000)
    with connect_idle(served, "long"):
        begun = time.monotonic()
        run_id = served.submit(HELLO)
        assert served.events(run_id)[-1].name == "PipelineCompleted"
        assert len(served.events("long")) == 50_000
        assert time.monotonic() - begun < 20


@given(
    counts=st.lists(st.integers(0, 60), min_size=1, max_size=6),
    after=st.integers(0, 200),
    torn=st.integers(0, 30),
)
@settings(max_examples=60, deadline=None)
def test_batches_add_up_to_the_file(
    tmp_path_factory: pytest.TempPathFactory, counts: list[int], after: int, torn: int
) -> None:
    """However the file has grown, a reader gets each whole event once and in order."""
    path = tmp_path_factory.mktemp("events") / "events.jsonl"
    path.touch()
    redact = Redactor().redact_json
    offset, total, seen = 0, 0, b""
    for count in counts:
        with path.open("a") as file:
            for _ in range(count):
                total += 1
                file.write(f'{{"type":"StageStarted","sequence":{total},"time":0.0,"name":"é"}}\n')
        whole = path.stat().st_size
        with path.open("a") as file:
            file.write('{"type":"StageCompleted","sequence":9999'[:torn])
        while (batch := read_batch(path, offset, after, redact)).end > offset:
            seen += batch.data
            offset = batch.end
        assert (find_end(path).offset, find_end(path).number) == (whole, total)
        with path.open("r+") as file:
            file.truncate(whole)
    events = list(read_events(iter(seen.decode().split("\n"))))
    assert [event.id for event in events] == list(range(after + 1, total + 1))


async def test_readers_share_what_is_read(tmp_path: Path) -> None:
    """A batch of the tail is encoded once, whoever asks for it."""
    tails, folder = Tails(Redactor().redact_json, poll=0.001), tmp_path
    write_events(folder, 1, end="PipelineStarted")
    with tails.following(folder) as one, tails.following(folder) as two:
        assert one is two
        start = one.offset
        with (folder / "events.jsonl").open("a") as file:
            file.write('{"type":"StageStarted","sequence":3,"time":1.0,"name":"a","index":0}\n')
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(one.wait, 5.0)
        assert one.batch_at(start) is two.batch_at(start) is not None
        assert tails.count_readers() == 2
    assert tails.count_readers() == 0


def test_the_events_of_a_thousand_reconnecting_readers(serve: Serve) -> None:
    served = serve()
    write_events(served.root / "made", 50)
    with httpx.Client(base_url=served.url, trust_env=False) as client:
        for number in range(0, 49, 7):
            answer = client.get("/pipelines/made/events", headers={"Last-Event-ID": str(number)})
            assert [event.id for event in read_events(answer.iter_lines())] == list(range(number + 1, 51))
