"""Stopping a run where it needs something from outside, and handing that over when it goes on.

A handler raises Suspend. The engine lets the other branches finish what they can, records where the stage stands and
ends the run as waiting. A resumed run executes the stage again, which finds what it asked for in `context.run.given`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self


class Suspend(Exception):
    """Raised by a handler whose stage can't go on now; no retry of it, and no failure.

    * `Suspend(payload)` asks for a value, and tells with `payload`, any JSON, what it is for. The stage is executed
      again when the value was given, and not before.
    * `Suspend(payload, question=id)` waits for the answer to a question of the run. The stage is executed again
      whenever the run is resumed, since it has its own ways to an answer.
    * `Suspend(nested=True)`: what is waited for lies further in, such as in a child run. The same holds.
    """

    def __init__(self, payload: Any = None, *, question: str = "", nested: bool = False) -> None:
        super().__init__("the stage waits for something from outside; the run must be suspended")
        self.payload = payload
        self.question = question
        self.nested = nested


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspension:
    """What a suspended stage waits for. `id` is unique in the run; `time` is in seconds since the epoch.

    `branch` has the fan-out and the number of each branch that the stage lies in. `question` is the id of the run's
    question that must be answered; empty if a value must be given.
    """

    id: str
    node_id: str
    payload: Any = None
    question: str = ""
    branch: tuple[tuple[str, str], ...] = ()
    time: float = 0.0

    def to_record(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "id": self.id,
            "node": self.node_id,
            "payload": self.payload,
            "question": self.question,
            "branch": [list(pair) for pair in self.branch],
            "time": self.time,
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """The reverse; raises KeyError, TypeError or ValueError for what is none."""
        return cls(
            id=record["id"],
            node_id=record["node"],
            payload=record["payload"],
            question=record["question"],
            branch=tuple((fan_out, number) for fan_out, number in record["branch"]),
            time=record["time"],
        )
