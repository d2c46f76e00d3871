"""Rules about the patterns: what does their work, and which ways lead on from them."""

from collections.abc import Iterator, Mapping

from attractor.diagnostics import Diagnostic, Severity
from attractor.engine.routing import normalize_label
from attractor.graph import Node
from attractor.handlers.command_tools import COMMANDS, parse_command_tools
from attractor.validation.survey import Survey

_ROUTES: Mapping[str, tuple[str, ...]] = {"converge": ("again", "stop"), "quality_gate": ("pass", "fail", "escalate")}
_WORK: Mapping[str, tuple[str, ...]] = {
    "function": ("function",),
    "converge": ("function", "prompt", "converge.score_command"),
    "quality_gate": ("function", "tool_command", "prompt"),
    "skip_if_done": ("function", "tool_command", "prompt"),
    "idempotent": ("function", "tool_command", "prompt"),
    "retry": ("function", "tool_command", "prompt"),
    "timeout": ("function", "tool_command", "prompt"),
}


def pattern_routes(survey: Survey) -> Iterator[Diagnostic]:
    """A loop needs its two ways on, a quality gate all three; edges with conditions may stand for them."""
    for node, wanted in _nodes(survey, _ROUTES):
        edges = survey.edges[node.id]
        labels = {normalize_label(edge.label) for edge in edges if not edge.condition}
        missing = [label for label in wanted if label not in labels]
        if missing and not any(edge.condition for edge in edges):
            yield survey.about_node(
                "pattern_routes",
                Severity.ERROR,
                node,
                f"{survey.handlers[node.id]} node {node.id} has no edge labelled {' or '.join(missing)}; where that is "
                "its result, the run would go another way",
                fix=f"add: {node.id} -> ... [label={missing[0]}]",
            )


def pattern_work(survey: Survey) -> Iterator[Diagnostic]:
    """A node of a pattern says what does its work."""
    for node, wanted in _nodes(survey, _WORK):
        if not any(node.text(name) for name in wanted):
            names = ", ".join(wanted)
            message = f"{survey.handlers[node.id]} node {node.id} says not what does its work, so it fails"
            yield survey.about_node("pattern_work", Severity.WARNING, node, message, fix=f"set one of {names}")


def tool_loop_commands(survey: Survey) -> Iterator[Diagnostic]:
    """The tools that a tool loop's node names can be read."""
    for node in survey.graph.nodes.values():
        try:
            parse_command_tools(node.text(COMMANDS))
        except ValueError as error:
            message = f"{COMMANDS} of {node.id}: {error}"
            yield survey.about_node("tool_loop_commands", Severity.ERROR, node, message, COMMANDS)


def _nodes(survey: Survey, table: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[Node, tuple[str, ...]]]:
    for node in survey.graph.nodes.values():
        if (wanted := table.get(survey.handlers[node.id])) is not None:
            yield node, wanted
