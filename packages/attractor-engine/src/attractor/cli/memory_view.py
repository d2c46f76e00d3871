"""A memory drawn in the terminal."""

import io
import shutil
import sys
from collections.abc import Sequence

from agent_loop.personalization import Basin, Comparison, PersonalState, Snapshot, trend_of
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from attractor.printable import printable

_BAR, _WIDTH = 20, 120
_SPARKS = "▁▂▃▄▅▆▇█"


def draw_state(state: PersonalState) -> str:
    """The basins, heaviest first, and what the whole looks like."""
    table = _table("basin", "weight", "", "trend", "last", "keywords", "goes with")
    for basin in sorted(state.basins, key=lambda one: -one.weight):
        labels = [other.label for other in map(state.find, basin.connections) if other is not None]
        table.add_row(
            Text(printable(basin.label)),
            _bar(basin.weight),
            f"{basin.weight:.2f}",
            trend_of(basin),
            _sparks(basin),
            Text(printable(", ".join(basin.keywords)) + (f" (full, {basin.cap_hits}x)" if basin.cap_hits else "")),
            Text(printable(", ".join(labels))),
        )
    lines = [
        f"phase {state.phase}, {state.update_count} updates, {state.meta.total_conversations} conversations; "
        f"last update: {state.meta.recent_trajectory}; spread of weights (entropy): {state.entropy:.2f}"
    ]
    if state.emerging:
        lines.append(f"emerging: {'; '.join(state.emerging)}")
    return f"{_render(table)}\n\n{printable(chr(10).join(lines))}"


def draw_history(snapshots: Sequence[Snapshot]) -> str:
    """A line for each change, oldest first."""
    table = _table("when", "what", "engine", "model", "weights")
    for snapshot in snapshots:
        by = snapshot.by
        heaviest = sorted(snapshot.weights.items(), key=lambda item: -item[1])
        weights = ", ".join(f"{name} {weight:.2f}" for name, weight in heaviest)
        cells = [snapshot.timestamp, *((by.action, by.engine, by.model) if by else ("", "", "")), weights]
        table.add_row(*(Text(printable(cell)) for cell in cells))
    return _render(table)


def draw_comparison(comparison: Comparison) -> str:
    """A line for each field in which the engines differ, and what each had to say for itself."""
    names = [f"{one.engine} {one.model}".strip() for one in comparison.proposals]
    notes = [
        f"{name}: {note}"
        for name, one in zip(names, comparison.proposals, strict=True)
        for note in ([one.error] if one.error else [f"not used: {remark}" for remark in one.update.remarks])
    ]
    if not comparison.differences:
        return printable("\n".join([f"{' and '.join(names)} propose the same.", *notes]))
    table = _table("field", *names)
    for difference in comparison.differences:
        table.add_row(*(Text(printable(_show(cell))) for cell in (difference.field, *difference.values)))
    return "\n".join([_render(table), *map(printable, notes)])


def _show(value: object) -> str:
    match value:
        case None:
            return "-"
        case float():
            return f"{value:.2f}"
        case list():
            return ", ".join(map(str, value)) or "-"
        case _:
            return str(value)


def _bar(weight: float) -> str:
    filled = round(weight * _BAR)
    return "█" * filled + "░" * (_BAR - filled)


def _sparks(basin: Basin) -> str:
    """The last weights as columns, each of an eighth."""
    return "".join(_SPARKS[min(7, max(0, round(weight * 8) - 1))] for weight in basin.trajectory[-10:])


def _table(*columns: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, no_wrap=column in ("weight", "trend", "last", "when"))
    return table


def _render(renderable: RenderableType) -> str:
    """As plain text, as wide as the terminal if stdout is one."""
    buffer = io.StringIO()
    width = shutil.get_terminal_size().columns if sys.stdout is not None and sys.stdout.isatty() else _WIDTH
    Console(file=buffer, width=width, highlight=False).print(renderable)
    return "\n".join(line.rstrip() for line in buffer.getvalue().rstrip("\n").split("\n"))
