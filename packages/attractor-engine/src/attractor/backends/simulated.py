"""A backend that asks nobody, for trying a pipeline out."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from attractor.errors import PipelineConfigurationError
from attractor.graph import Node
from attractor.outcome import Outcome, parse_status_record
from attractor.state.context import Context


class SimulatedBackend:
    """Answers with a text that says that it is simulated, or as `script` says.

    `script` maps a node's id to an outcome, or to a list of them for its attempts one after the other, the last
    repeating. An outcome is a status or a routing word, or an object as in status.json. Raises
    PipelineConfigurationError for anything else.
    """

    def __init__(self, script: Mapping[str, Any] | None = None) -> None:
        self._script = {node_id: _parse(node_id, entry) for node_id, entry in (script or {}).items()}

    @classmethod
    def from_file(cls, path: str | Path) -> "SimulatedBackend":
        """With a script from a JSON file; raises PipelineConfigurationError if it can't be read."""
        try:
            script = json.loads(Path(path).read_text("utf-8"))
        except OSError as error:
            raise PipelineConfigurationError(f"the script {path} can't be read: {error.strerror}") from error
        except ValueError as error:
            raise PipelineConfigurationError(f"the script {path} is not valid JSON: {error}") from error
        if not isinstance(script, dict):
            raise PipelineConfigurationError(f"the script {path} must be an object that maps node ids to outcomes")
        return cls(script)

    @property
    def node_ids(self) -> frozenset[str]:
        """The nodes that the script has outcomes for."""
        return frozenset(self._script)

    async def run(self, node: Node, prompt: str, context: Context) -> str | Outcome:
        outcomes = self._script.get(node.id)
        text = f"[Simulated] Response for stage: {node.id}"
        if not outcomes:
            return text
        outcome = outcomes[min(context.run.attempt_number(node.id), len(outcomes)) - 1]
        return outcome if outcome.notes else replace(outcome, notes=text)


def _parse(node_id: str, entry: Any) -> list[Outcome]:
    entries = entry if isinstance(entry, list) else [entry]
    if not entries:
        raise PipelineConfigurationError(f"the script's list for node {node_id!r} is empty")
    return [_parse_one(node_id, one) for one in entries]


def _parse_one(node_id: str, entry: Any) -> Outcome:
    try:
        return parse_status_record({"outcome": entry} if isinstance(entry, str) else entry)
    except ValueError as error:
        raise PipelineConfigurationError(f"the script's outcome for node {node_id!r} can't be used: {error}") from error
