"""iterate_until_converged: its four stop reasons against a reference, what it keeps, and going on in the middle."""

import math
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import pytest
from attractor.handlers.convergence import Convergence
from attractor.prebuilt import Candidate, NodeError, iterate_until_converged
from hypothesis import given
from hypothesis import strategies as st

BACKENDS = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])


def worker(scores: Sequence[float], done_at: int = 0):  # type: ignore[no-untyped-def]
    """Plays a list of scores, the last one for ever; done in turn `done_at`."""
    turns = count(1)

    async def work(state: Any) -> Candidate:
        turn = next(turns)
        score = scores[min(turn, len(scores)) - 1]
        return Candidate(score, payload=f"turn {turn}", done=turn == done_at)

    return work


@BACKENDS
@pytest.mark.parametrize(
    ("scores", "done_at", "options", "reason", "turns", "best"),
    [
        ([10, 20], 2, {}, "done", 2, 20),
        ([10, 100], 0, {}, "optimal", 2, 100),
        ([100], 0, {}, "optimal", 1, 100),
        ([10, 20, 20, 20, 20, 20], 0, {}, "converged", 6, 20),
        ([float(n) for n in range(30)], 0, {}, "exhausted", 20, 19),
        ([10, 5, 4], 0, {"patience": 2}, "converged", 3, 10),
        ([5], 0, {"patience": 0}, "converged", 1, 5),
        ([100], 1, {"patience": 0, "max_iterations": 1}, "done", 1, 100),
        ([100], 0, {"patience": 0, "max_iterations": 1}, "optimal", 1, 100),
        ([5], 0, {"patience": 0, "max_iterations": 1}, "converged", 1, 5),
        ([5], 0, {"max_iterations": 1}, "exhausted", 1, 5),
        ([-5, -3], 0, {"perfect_score": -3}, "optimal", 2, -3),
    ],
)
async def test_the_first_reason_that_holds(
    scores: list[float], done_at: int, options: dict[str, Any], reason: str, turns: int, best: float
) -> None:
    state = await iterate_until_converged(worker(scores, done_at), **options).invoke({})
    assert (state["stop_reason"], state["iterations"], state["best_score"]) == (reason, turns, best)
    assert len(state["history"]) == turns
    assert state["last_score"] == state["history"][-1]


async def test_the_final_state() -> None:
    state = await iterate_until_converged(worker([10, 30, 20, 25, 30]), patience=3).invoke({"input": {"topic": "x"}})
    assert state == {
        "input": {"topic": "x"},
        "iterations": 5,
        "history": [10, 30, 20, 25, 30],
        "last_score": 30,
        "best_score": 30,
        "best_payload": "turn 2",
        "streak": 3,
        "stop_reason": "converged",
    }


def reference(scores: Sequence[float], done_at: int, perfect: float, patience: int, most: int) -> tuple[str, int, Any]:
    """What must come out, told by looking at all scores at once."""
    for turn in range(1, most + 1):
        seen = [scores[min(number, len(scores)) - 1] for number in range(1, turn + 1)]
        known = [score for score in seen if not math.isnan(score)]
        best = max(known, default=None)
        since = turn if best is None else turn - 1 - next(n for n, score in enumerate(seen) if score == best)
        if turn == done_at:
            return "done", turn, best
        if best is not None and best >= perfect:
            return "optimal", turn, best
        if since >= patience:
            return "converged", turn, best
    return "exhausted", most, best


@given(
    scores=st.lists(st.sampled_from([0.0, 1.0, 1.5, 2.0, 3.0, math.nan]), min_size=1, max_size=12),
    done_at=st.integers(0, 12),
    perfect=st.sampled_from([0.5, 2.0, 3.0, 9.0]),
    patience=st.integers(0, 5),
    most=st.integers(1, 15),
)
def test_it_agrees_with_the_reference(
    scores: list[float], done_at: int, perfect: float, patience: int, most: int
) -> None:
    convergence = Convergence(perfect_score=perfect, patience=patience, max_iterations=most)
    state: dict[str, Any] = {}
    for turn in range(1, most + 1):
        score = scores[min(turn, len(scores)) - 1]
        changes = convergence.judge(state, Candidate(score, f"turn {turn}", turn == done_at))
        state |= changes | {"history": [*state.get("history", []), *changes["history"]]}
        if state["stop_reason"]:
            break
    assert (state["stop_reason"], state["iterations"], state["best_score"]) == reference(
        scores, done_at, perfect, patience, most
    )
    assert len(state["history"]) == state["iterations"]
    if state["best_score"] is not None:
        first = state["history"].index(state["best_score"]) + 1
        assert state["best_payload"] == f"turn {first}"


def test_the_best_score_counts_and_not_the_last() -> None:
    before = {"best_score": 100.0, "streak": 0, "iterations": 1}
    assert Convergence().judge(before, Candidate(1))["stop_reason"] == "optimal"


async def test_a_score_that_is_not_a_number_is_no_improvement() -> None:
    state = await iterate_until_converged(worker([math.nan, 5, math.nan]), patience=2).invoke({})
    assert state["history"] == [None, 5, None, None]
    assert (state["stop_reason"], state["best_score"], state["best_payload"]) == ("converged", 5, "turn 2")
    none = await iterate_until_converged(worker([math.nan]), patience=2).invoke({})
    assert (none["stop_reason"], none["best_score"], none["best_payload"]) == ("converged", None, None)


async def test_work_may_be_a_plain_function_of_state_and_context() -> None:
    def work(state: Any, ctx: Any) -> Candidate:
        assert ctx.node == "step"
        return Candidate(state.get("iterations", 0) * 50)

    assert (await iterate_until_converged(work).invoke({}))["history"] == [0, 50, 100]


@pytest.mark.parametrize(
    ("given_back", "words"),
    [(7, "must return a Candidate, not int"), (Candidate(math.inf), "finite"), (Candidate(1, object()), "JSON")],
    ids=["number", "infinity", "object"],
)
async def test_what_work_may_not_return(given_back: Any, words: str) -> None:
    with pytest.raises(NodeError, match=words):
        await iterate_until_converged(lambda state: given_back).invoke({})


@pytest.mark.parametrize("options", [{"patience": -1}, {"max_iterations": 0}])
def test_limits_that_make_no_sense(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must"):
        iterate_until_converged(worker([1]), **options)


@BACKENDS
async def test_going_on_in_the_middle_keeps_best_and_streak(tmp_path: Path) -> None:
    scores = [10, 40, 30, None, 20, 35]
    seen: list[Any] = []

    def work(state: Any) -> Candidate:
        seen.append({key: state.get(key) for key in ("iterations", "best_score", "best_payload", "streak")})
        turn = state.get("iterations", 0) + 1
        if scores[turn - 1] is None:
            scores[turn - 1] = 39
            raise ConnectionError("the network is down")
        return Candidate(scores[turn - 1], f"turn {turn}")

    loop = iterate_until_converged(work, patience=3, checkpointer=tmp_path)
    with pytest.raises(NodeError, match="the network is down") as caught:
        await loop.invoke({})
    assert isinstance(caught.value.__cause__, ConnectionError)
    # Another object, as in another process.
    again = iterate_until_converged(work, patience=3, checkpointer=tmp_path)
    assert again.state()["best_score"] == 40
    state = await again.resume()
    assert seen[3] == seen[4] == {"iterations": 3, "best_score": 40, "best_payload": "turn 2", "streak": 1}
    assert (state["stop_reason"], state["iterations"], state["best_payload"]) == ("converged", 5, "turn 2")
    assert state["history"] == [10, 40, 30, 39, 20]


async def test_a_cancelled_turn_is_tried_again(tmp_path: Path) -> None:
    scope = anyio.CancelScope()
    calls = count(1)

    async def work(state: Any) -> Candidate:
        if next(calls) == 2:
            scope.cancel()
            await anyio.sleep_forever()
        return Candidate(60 * (state.get("iterations", 0) + 1))

    loop = iterate_until_converged(work, checkpointer=tmp_path)
    with scope:
        await loop.invoke({})
    assert (await loop.resume())["history"] == [60, 120]


async def test_a_patience_beyond_the_engines_own_limits() -> None:
    state = await iterate_until_converged(worker([1]), patience=200, max_iterations=150).invoke({})
    assert (state["stop_reason"], state["iterations"]) == ("exhausted", 150)
