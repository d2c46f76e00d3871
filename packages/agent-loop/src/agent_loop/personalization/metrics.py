"""Two numbers about a whole state. Both are easily read for more than they say."""

import math
from collections.abc import Sequence

from agent_loop.personalization.state import Basin, Motion

_CALM, _LIVELY, _TURBULENT = 0.05, 0.1, 0.15


def compute_entropy(basins: Sequence[Basin]) -> float:
    """Shannon entropy of the weights, divided by their sum first, as a share of the greatest possible one.

    0: one basin has all the weight, or there is only one. 1: all weigh the same, or nothing at all.

    Do not read it as focus or as certainty. Weights are independent of each other, no probabilities, and dividing by
    their sum hides their size: the number tells how evenly they are *spread*, and hardly moves while a dominant basin
    doubles: four basins at 0.5 have an entropy of 1.000, and with one of them at 1.0 it is still 0.961. So look at the
    weights themselves.
    """
    total = sum(basin.weight for basin in basins)
    if total <= 0:
        return 1.0
    if len(basins) == 1:
        return 0.0
    shares = [basin.weight / total for basin in basins if basin.weight > 0]
    entropy = -sum(share * math.log(share) for share in shares) / math.log(len(basins))
    return min(1.0, max(0.0, entropy))


def compute_trajectory(basins: Sequence[Basin]) -> Motion:
    """How the last update moved the weights.

    "converging": the heaviest basin grew, while the average change was below 0.1; else "restructuring" above an average
    of 0.15, "diverging" above 0.05, and "stable".

    Do not read it as a trend: only the *last step* of each trajectory counts, so that "stable" means that this one
    update moved little, not that things have been steady.
    """
    steps = [basin.trajectory[-1] - basin.trajectory[-2] for basin in basins if len(basin.trajectory) > 1]
    if not steps:
        return "stable"
    average = sum(abs(step) for step in steps) / len(steps)
    top = max(basins, key=lambda basin: basin.weight)
    if len(basins) > 1 and last_step(top) > 0 and average < _LIVELY:
        return "converging"
    if average > _TURBULENT:
        return "restructuring"
    return "diverging" if average > _CALM else "stable"


def last_step(basin: Basin) -> float:
    """What the last update changed of the weight; 0 for a basin that has seen none."""
    return basin.trajectory[-1] - basin.trajectory[-2] if len(basin.trajectory) > 1 else 0.0
