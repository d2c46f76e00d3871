"""Lint (section 7)."""

from collections.abc import Collection, Iterable
from typing import Protocol

from attractor.diagnostics import Diagnostic
from attractor.graph import Graph


class LintRule(Protocol):
    """One check."""

    name: str

    def apply(self, graph: Graph) -> Iterable[Diagnostic]: ...


def validate(
    graph: Graph, extra_rules: Iterable[LintRule] | None = None, *, handler_types: Collection[str] | None = None
) -> list[Diagnostic]:
    """All findings."""
    raise NotImplementedError


def validate_or_raise(
    graph: Graph, extra_rules: Iterable[LintRule] | None = None, *, handler_types: Collection[str] | None = None
) -> list[Diagnostic]:
    """All findings; raises ValidationError if any is an ERROR."""
    raise NotImplementedError
