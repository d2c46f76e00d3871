"""Which calls of a round of tools have ended, so that a killed round doesn't do them twice."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attractor.effects import artifact_key
from attractor.state.json_values import encode_json, to_bytes


class CallJournal:
    """A file in the node's directory for each turn, with a line for each call that ended.

    A line that a kill tore counts for nothing. A turn may take several rounds, when tools wait for values: a key of all
    calls as they stand tells these apart.
    """

    def __init__(self, directory: Path, turn: int, pending: Sequence[Mapping[str, Any]]) -> None:
        self._path = directory / f"calls-{turn}.jsonl"
        self._round = artifact_key(turn, list(pending))
        self._known: dict[int, dict[str, Any]] = {}
        try:
            lines = self._path.read_bytes().splitlines()
        except FileNotFoundError:
            directory.mkdir(parents=True, exist_ok=True)
            return
        for line in lines:
            try:
                record = json.loads(line)
                if record["round"] == self._round:
                    self._known[record["index"]] = record["found"]
            except (ValueError, KeyError, TypeError):
                continue

    def find(self, index: int) -> dict[str, Any] | None:
        """What came of the call with this index in the round; None if it is not known to have ended."""
        return self._known.get(index)

    def add(self, index: int, found: Mapping[str, Any]) -> None:
        """Record it. What only waits for a value is asked again instead."""
        if "result" not in found:
            return
        # A line torn before this one must not swallow it.
        line = f"\n{encode_json({'round': self._round, 'index': index, 'found': found})}\n"
        with self._path.open("ab") as file:
            file.write(to_bytes(line))
