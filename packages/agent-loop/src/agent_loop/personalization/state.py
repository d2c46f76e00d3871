"""What is remembered of a person: modes of working, each with a weight, and how it moved lately.

The constants are the rules of the system: changing one changes how it remembers.
"""

import math
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from agent_loop.errors import DamagedMemoryError, PersonalizationError

SEED_WEIGHT = 0.5
NEW_BASIN_WEIGHT = 0.4
"""One that comes up later starts lower than those of the beginning: it has to earn its weight."""
MIN_WEIGHT, MAX_WEIGHT = 0.05, 1.0
"""Nothing is forgotten: at the lower bound a basin is dormant."""
DECAY_TARGET, DECAY_RATE = 0.3, 0.05
"""A basin that an update doesn't touch moves this share of the way to the target: half of it in 14 updates."""
MAX_DELTA = 0.3
ACTIVE_ABOVE = 0.4
MAX_KEYWORDS = 10
MAX_TRAJECTORY = 20
MAX_EMERGING = 5
MAX_HISTORY = 10
MAX_BASINS = 32
MAX_LABEL, MAX_KEYWORD, MAX_PATTERN, MAX_DESCRIPTION = 80, 80, 160, 600
"""In characters; longer texts are cut."""

Motion = Literal["converging", "restructuring", "diverging", "stable"]
MOTIONS: tuple[Motion, ...] = ("converging", "restructuring", "diverging", "stable")
_JOINERS = frozenset("\u200c\u200d")


@dataclass(frozen=True, slots=True, kw_only=True)
class Basin:
    """A mode of working, not a topic, that conversations fall back into.

    `id` is the slug of its label. `weight` lies in [0.05, 1]; `trajectory` holds the weights after the last 20 updates.
    `connections` are ids of other basins. `last_active` is an ISO 8601 time, or empty. `cap_hits` counts how often
    keywords were pushed out for want of room since they were last consolidated.
    """

    id: str
    label: str
    description: str = ""
    weight: float = SEED_WEIGHT
    keywords: list[str] = field(default_factory=list)
    connections: list[str] = field(default_factory=list)
    trajectory: list[float] = field(default_factory=list)
    last_active: str = ""
    conversation_count: int = 0
    cap_hits: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Meta:
    """What the whole looks like. `recent_trajectory` speaks of the last update alone: see `compute_trajectory()`."""

    total_conversations: int = 0
    dominant_basin: str = ""
    recent_trajectory: Motion = "stable"


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonalState:
    """The memory of how one person works. Nothing changes it: `apply_update()` makes a new one.

    `entropy` is in [0, 1] and tells how evenly the weights are spread, not how focused the person is: see
    `compute_entropy()`. `emerging` are patterns that fit no basin yet.
    """

    basins: list[Basin] = field(default_factory=list)
    phase: int = 1
    entropy: float = 1.0
    emerging: list[str] = field(default_factory=list)
    last_updated: str = ""
    update_count: int = 0
    meta: Meta = field(default_factory=Meta)

    def find(self, basin_id: str) -> Basin | None:
        """The basin of that id."""
        return next((basin for basin in self.basins if basin.id == basin_id), None)

    def to_record(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return asdict(self)


def create_initial_state(seeds: Iterable[Mapping[str, Any]], *, now: str = "") -> PersonalState:
    """A state of equally weighted basins, one for each `{"label", "description", "keywords"}`; the label is a must.

    `now` is an ISO 8601 time. Raises PersonalizationError for a label that is missing, has no letter or digit, or gives
    the same id as another one.
    """
    basins: list[Basin] = []
    for number, seed in enumerate(seeds, 1):
        label = clean_text(seed.get("label"), MAX_LABEL) if isinstance(seed, Mapping) else ""
        basin_id = to_basin_id(label)
        if not basin_id:
            raise PersonalizationError(f"basin {number} needs a label with a letter or a digit in it")
        if any(basin.id == basin_id for basin in basins):
            raise PersonalizationError(f"basin {number} has the id {basin_id!r} that an earlier one has; label it anew")
        given = seed.get("keywords")
        keywords = unique_texts(given if isinstance(given, list | tuple) else (), MAX_KEYWORD)[:MAX_KEYWORDS]
        description = clean_text(seed.get("description"), MAX_DESCRIPTION)
        basins.append(
            Basin(
                id=basin_id,
                label=label,
                description=description,
                keywords=keywords,
                trajectory=[SEED_WEIGHT],
                last_active=now,
            )
        )
    dominant = basins[0].id if basins else ""
    return PersonalState(basins=basins, last_updated=now, meta=Meta(dominant_basin=dominant))


def to_basin_id(label: str) -> str:
    """The label in small letters and digits of any script, words joined by hyphens; empty if it has neither."""
    return re.sub(r"[\W_]+", "-", fold(label)).strip("-")


def fold(text: str) -> str:
    """What two spellings of the same text have in common, whatever their case and composition."""
    if text.isascii():
        return text.strip().lower()
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text.strip()).casefold()).strip()


def clean_text(value: Any, limit: int) -> str:
    """One line of printable characters, at most `limit` of them; empty for what is no text.

    Such texts end up in prompts and terminals, where line breaks and control characters would do more than be read.
    """
    if not isinstance(value, str):
        return ""
    # A multiple of the limit is enough to fill it, and saves looking at megabytes.
    text = value[: 4 * limit]
    if not text.isprintable():
        text = "".join(char if char.isprintable() or char in _JOINERS else " " for char in text)
    return " ".join(text.split())[:limit].strip()


def unique_texts(values: Iterable[Any], limit: int) -> list[str]:
    """Those that say something, cleaned, the first spelling of each."""
    found: dict[str, str] = {}
    for value in values:
        if text := clean_text(value, limit):
            found.setdefault(fold(text), text)
    return list(found.values())


def state_from_record(record: Any) -> PersonalState:
    """The reverse of `to_record()`. Raises DamagedMemoryError that names the field at fault."""
    top = _Fields(record, "state")
    basins = [_load_basin(_Fields(item, f"state.basins[{at}]")) for at, item in enumerate(top.take("basins", list))]
    if len({basin.id for basin in basins}) < len(basins):
        raise DamagedMemoryError("state.basins holds the same id twice")
    meta = _Fields(top.take("meta", dict), "state.meta")
    motion = meta.take("recent_trajectory", str)
    if motion not in MOTIONS:
        raise DamagedMemoryError(f"state.meta.recent_trajectory is none of {', '.join(MOTIONS)}, but {motion!r:.60}")
    return PersonalState(
        basins=basins,
        phase=top.take("phase", int),
        entropy=top.number("entropy"),
        emerging=top.texts("emerging"),
        last_updated=top.take("last_updated", str),
        update_count=top.take("update_count", int),
        meta=Meta(
            total_conversations=meta.take("total_conversations", int),
            dominant_basin=meta.take("dominant_basin", str),
            recent_trajectory=motion,
        ),
    )


def _load_basin(fields: "_Fields") -> Basin:
    return Basin(
        id=fields.take("id", str),
        label=fields.take("label", str),
        description=fields.take("description", str),
        weight=fields.number("weight"),
        keywords=fields.texts("keywords"),
        connections=fields.texts("connections"),
        trajectory=[finite(value, fields.name("trajectory")) for value in fields.take("trajectory", list)],
        last_active=fields.take("last_active", str),
        conversation_count=fields.take("conversation_count", int),
        cap_hits=fields.take("cap_hits", int),
    )


def finite(value: Any, name: str) -> float:
    """The number; raises DamagedMemoryError for anything else, infinity among it."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(to_float(value)):
        raise DamagedMemoryError(f"{name} must be a finite number, but holds {value!r:.60}")
    return float(value)


def to_float(value: float) -> float:
    """A float, infinite where an integer is too large for one."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


class _Fields:
    """An object of a record, and how it is called in messages."""

    def __init__(self, record: Any, path: str) -> None:
        if not isinstance(record, Mapping):
            raise DamagedMemoryError(f"{path} must be an object, but is {record!r:.60}")
        self._record = record
        self._path = path

    def name(self, field: str) -> str:
        return f"{self._path}.{field}"

    def take(self, field: str, kind: type[Any]) -> Any:
        value = self._record.get(field)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise DamagedMemoryError(f"{self.name(field)} must be {kind.__name__}, but is {value!r:.60}")
        return value

    def number(self, field: str) -> float:
        return finite(self._record.get(field), self.name(field))

    def texts(self, field: str) -> list[str]:
        values: list[str] = self.take(field, list)
        if not all(isinstance(value, str) for value in values):
            raise DamagedMemoryError(f"{self.name(field)} must hold texts only")
        return list(values)
