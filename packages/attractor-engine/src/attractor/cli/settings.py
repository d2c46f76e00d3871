"""What a run was told on the command line, kept in its manifest so that `resume` can go on the same way."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self

from attractor.attributes import GRAPH_ATTRIBUTES
from attractor.errors import RunDirectoryError
from attractor.graph import Graph


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The flags of a run. Paths are absolute.

    `assignments` are those of `--set`: attributes that a graph may have go to the graph, any others to the context.
    """

    simulate: bool = False
    dry_run: bool = False
    script: str = ""
    backend: str = ""
    agent_options: str = ""
    model: str = ""
    provider: str = ""
    workdir: str = ""
    memory: str = ""
    auto_approve: bool = False
    detach: bool = False
    assignments: Mapping[str, str]

    def updated(self, given: "Settings") -> Self:
        """These settings, with those that were given again on the command line in their place.

        What answers the model stages is one choice: giving any part of it drops what was recorded of the others.
        """
        choice = ("simulate", "dry_run", "script", "backend", "provider", "agent_options")
        kept = ("model", "workdir", "memory", "auto_approve", "detach")
        changed = {name: getattr(given, name) for name in kept if getattr(given, name)}
        if any(getattr(given, name) for name in choice):
            changed |= {name: getattr(given, name) for name in choice}
        return replace(self, assignments={**self.assignments, **given.assignments}, **changed)

    def to_record(self) -> dict[str, Any]:
        """As JSON, for the manifest."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_record(cls, record: Any) -> Self:
        """The reverse. A run that was not started by this command line has an empty record."""
        settings = cls(assignments={})
        if not isinstance(record, dict):
            raise RunDirectoryError("manifest.json is damaged: its options are no object; start a new run")
        for name, value in record.items():
            if not isinstance(value, type(getattr(settings, name, value))):
                raise RunDirectoryError(f"manifest.json is damaged: its option {name!r} is {value!r}; start a new run")
        return replace(settings, **{field.name: record[field.name] for field in fields(cls) if field.name in record})

    @property
    def simulated(self) -> bool:
        """No model is called."""
        return self.simulate or self.dry_run or bool(self.script)

    @property
    def context(self) -> dict[str, str]:
        """Values that the run's context starts with."""
        return {key: value for key, value in self.assignments.items() if key not in GRAPH_ATTRIBUTES}

    def apply(self, graph: Graph) -> Graph:
        """The graph with the attributes that `--set` names."""
        attrs = {key: value for key, value in self.assignments.items() if key in GRAPH_ATTRIBUTES}
        return replace(graph, attrs={**graph.attrs, **attrs}) if attrs else graph
