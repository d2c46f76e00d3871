"""Forty and a thousand conversations: nothing grows without bound, and the picture in the documentation is of this."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "bench_personalization", ROOT / "tests/bench/bench_personalization.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def runs(bench: ModuleType) -> list[list]:
    return [bench.simulate(40), bench.simulate(1000)]


def test_nothing_grows_without_bound(runs: list[list]) -> None:
    for steps in runs:
        assert all(0.05 <= weight <= 1 for step in steps for weight in step.weights.values())
        assert all(0 <= step.entropy <= 1 for step in steps)
        assert max(step.basins for step in steps) <= 32
        assert max(step.keywords for step in steps) <= 320
        assert max(step.size for step in steps) < 60_000
    late = [step.size for step in runs[1]]
    assert max(late[700:]) < 1.3 * max(late[400:700]), "it has levelled off"


def test_weights_follow_what_is_done_and_entropy_hardly_moves(runs: list[list]) -> None:
    """The favourite changes every 60 conversations: its weight does too, while the entropy stays where it was."""
    long = runs[1]
    weights = [step.weights["planning"] for step in long]
    assert max(weights[30:60]) == 1.0
    assert min(weights[100:300]) < 0.4
    assert min(step.entropy for step in long) > 0.9


def test_keywords_run_out_of_room_and_are_consolidated(runs: list[list]) -> None:
    hits = [step.cap_hits for step in runs[1]]
    assert max(hits) > 0
    assert max(hits) < 40, "consolidation starts the count anew"


def test_the_same_seed_gives_the_same(bench: ModuleType, runs: list[list]) -> None:
    assert bench.simulate(40) == runs[0]
    assert bench.simulate(40, seed=8) != runs[0]


def test_the_picture_is_of_this_simulation(bench: ModuleType, runs: list[list]) -> None:
    assert bench.PICTURE.read_text("utf-8") == bench.draw(runs), "python tests/bench/bench_personalization.py draws it"
