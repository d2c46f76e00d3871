"""Many runs at once, and many that have been."""

import gc
import re
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from .conftest import HELLO, Serve

RUNS = 200
NAMES = [f"n{number}" for number in range(8)]
STAGES = "; ".join(f'{name} [prompt="Do it"]' for name in NAMES)
PATH = " -> ".join(["start", *NAMES, "exit"])
CHAIN = f"digraph c {{ start [shape=Mdiamond]; exit [shape=Msquare]; {STAGES}; {PATH} }}"


@pytest.mark.slow
@pytest.mark.xdist_group("server-load")
def test_two_hundred_runs_at_once_leave_the_server_responsive(serve: Serve) -> None:
    served = serve()
    limits = httpx.Limits(max_connections=64)
    with httpx.Client(base_url=served.url, trust_env=False, timeout=60, limits=limits) as client:

        def submit(_: int) -> str:
            answer = client.post("/pipelines", json={"dot_source": CHAIN})
            assert answer.status_code == 201
            return str(answer.json()["pipeline_id"])

        with ThreadPoolExecutor(32) as threads:
            submitted = threads.map(submit, range(RUNS))
            # How quick these are tests/bench tells; each comes in its turn, and not behind all runs.
            executed = []
            for _ in range(50):
                assert served.client.get("/health", timeout=10).status_code == 200
                found = re.search(r"attractor_runs_executed (\d+)", served.client.get("/metrics", timeout=10).text)
                assert found
                executed.append(int(found[1]))
            ids = list(submitted)
    assert len(set(ids)) == RUNS
    assert max(executed) > 1
    deadline = time.monotonic() + 60
    while served.client.get("/metrics").text.count('attractor_runs{status="completed"} 200') == 0:
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.xdist_group("server-load")
def test_nothing_of_a_finished_run_stays_in_memory(serve: Serve) -> None:
    served = serve()
    for _ in range(20):
        assert served.events(served.submit(HELLO))[-1].name == "PipelineCompleted"
    deadline = time.monotonic() + 10
    while "attractor_runs_executed 0" not in served.client.get("/metrics").text:
        assert time.monotonic() < deadline
    gc.collect()
    kept = [
        type(one).__name__ for one in gc.get_objects() if type(one).__name__ in ("PipelineRunner", "_LiveRun", "Tail")
    ]
    assert len(kept) <= 1, kept
