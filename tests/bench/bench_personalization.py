"""How a memory evolves over 40 and over 1,000 conversations, with a model that proposes too much; and what that costs.

As a script this draws docs/images/personalization.svg anew. Everything follows from the seed.
"""

import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent_loop.personalization import (
    BasinUpdate,
    Connection,
    NewBasin,
    PersonalState,
    Update,
    apply_consolidation,
    apply_update,
    create_initial_state,
)

PICTURE = Path(__file__).parent.parent.parent / "docs/images/personalization.svg"
LABELS = ("Planning", "Debugging", "Writing", "Exploring", "Reviewing", "Play")
CONSOLIDATE_EVERY = 10
"""Conversations. Without consolidation, keywords are those of the last few conversations."""


@dataclass(frozen=True)
class Step:
    """What there is after one conversation. `size` is in characters of JSON."""

    weights: dict[str, float]
    entropy: float
    keywords: int
    cap_hits: int
    basins: int
    size: int


def propose(state: PersonalState, chance: random.Random, conversation: int) -> Update:
    """A model that adds and never removes, favours one mode for a while, and asks for more than it may have."""
    favourite = (conversation // 60) % len(LABELS)
    touched = {favourite if chance.random() < 0.6 else chance.randrange(len(state.basins)) for _ in range(2)}
    updates = [
        BasinUpdate(
            id=state.basins[index].id,
            weight_delta=chance.choice((-0.1, 0.05, 0.1, 0.1, 0.2, 5.0)),
            new_keywords=[f"idea {conversation}.{number}" for number in range(3)],
        )
        for index in sorted(touched)
    ]
    first, second = chance.sample([basin.id for basin in state.basins], 2)
    fresh = NewBasin(label=f"Mode {conversation}", keywords=["new"]) if chance.random() < 0.05 else None
    return Update(
        basin_updates=updates,
        new_connections=[Connection(source=first, target=second)] if chance.random() < 0.1 else [],
        emerging_patterns=[f"pattern {conversation}.{number}" for number in range(8)],
        new_basin=fresh,
        phase_shift=chance.random() < 0.002,
    )


def simulate(conversations: int, seed: int = 7) -> list[Step]:
    """The steps of that many conversations; the same for the same seed."""
    chance = random.Random(seed)
    state = create_initial_state([{"label": label} for label in LABELS])
    steps = []
    for conversation in range(conversations):
        state = apply_update(state, propose(state, chance, conversation))
        cap_hits = sum(basin.cap_hits for basin in state.basins)
        if (conversation + 1) % CONSOLIDATE_EVERY == 0:
            for basin in state.basins:
                if basin.cap_hits:
                    shorter = [f"{basin.label} in general", basin.keywords[-1]]
                    state = apply_consolidation(state, basin.id, shorter, instead_of=basin.keywords)
        steps.append(
            Step(
                weights={basin.id: basin.weight for basin in state.basins},
                entropy=state.entropy,
                keywords=sum(len(basin.keywords) for basin in state.basins),
                cap_hits=cap_hits,
                basins=len(state.basins),
                size=len(repr(state.to_record())),
            )
        )
    return steps


def rows() -> Iterator[tuple[str, float, str, float | None, float | None]]:
    """Time of an update, and the bounds that must hold however long it goes on."""
    short, long = simulate(40), simulate(1000)
    begun = time.perf_counter()
    again = simulate(1000)
    spent = time.perf_counter() - begun
    assert again == long, "the same seed gives the same"
    yield "memory: apply an update", spent / 1000 * 1000, "ms", None, 10.0
    yield "memory: entropy after 40 conversations", short[-1].entropy, "", None, 1.0
    yield "memory: entropy after 1,000 conversations", long[-1].entropy, "", None, 1.0
    yield "memory: most basins in 1,000 conversations", max(step.basins for step in long), "", None, 32
    yield "memory: most keywords in 1,000 conversations", max(step.keywords for step in long), "", None, 320
    yield "memory: largest state in 1,000 conversations", max(step.size for step in long) / 1000, "kB", None, 60.0
    weights = [weight for step in long for weight in step.weights.values()]
    yield "memory: largest weight", max(weights), "", None, 1.0


# The picture: two columns, 40 and 1,000 conversations; three rows, weights, entropy, keywords.

WIDTH, HEIGHT, MARGIN = 340, 130, 44
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")


def draw(runs: Sequence[list[Step]]) -> str:
    """The steps of each run as an SVG picture."""
    width, height = MARGIN + len(runs) * (WIDTH + MARGIN), 3 * (HEIGHT + MARGIN) + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="11" role="img" aria-labelledby="title">',
        '<title id="title">Weights, entropy and keywords of a simulated memory over 40 and 1,000 conversations</title>',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    ids = [label.lower() for label in LABELS]
    for column, steps in enumerate(runs):
        left = MARGIN + column * (WIDTH + MARGIN)
        name = f"{len(steps):,} conversations"
        weights = [
            (label, [step.weights[label] for step in steps], color) for label, color in zip(ids, COLORS, strict=True)
        ]
        parts += chart(left, MARGIN, f"weights, {name}", 1.0, weights)
        parts += chart(
            left, 2 * MARGIN + HEIGHT, f"entropy, {name}", 1.0, [("", [s.entropy for s in steps], COLORS[0])]
        )
        counts: list[tuple[str, list[float], str]] = [
            ("keywords", [float(step.keywords) for step in steps], COLORS[0]),
            ("basins", [float(step.basins) for step in steps], COLORS[1]),
        ]
        top = max(10.0, max(float(step.keywords) for step in steps))
        parts += chart(left, 3 * MARGIN + 2 * HEIGHT, f"keywords and basins, {name}", top, counts)
    return "\n".join([*parts, "</svg>", ""])


def chart(left: int, top: int, title: str, most: float, lines: Sequence[tuple[str, list[float], str]]) -> Iterator[str]:
    """One diagram: a frame, its scale from 0 to `most`, a line for each series, and their names."""
    yield f'<text x="{left}" y="{top - 8}" font-weight="bold">{title}</text>'
    yield f'<rect x="{left}" y="{top}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#999"/>'
    yield f'<text x="{left - 6}" y="{top + 8}" text-anchor="end">{most:g}</text>'
    yield f'<text x="{left - 6}" y="{top + HEIGHT}" text-anchor="end">0</text>'
    for number, (name, values, color) in enumerate(lines):
        stride = max(1, len(values) // 250)
        points = " ".join(
            f"{left + WIDTH * at / (len(values) - 1):.1f},{top + HEIGHT * (1 - values[at] / most):.1f}"
            for at in range(0, len(values), stride)
        )
        yield f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="1.2"/>'
        yield f'<text x="{left + number * 58}" y="{top + HEIGHT + 14}" fill="{color}">{name}</text>'


if __name__ == "__main__":
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_text(draw([simulate(40), simulate(1000)]), "utf-8")
    sys.exit()
