"""Running the rules (sections 7.2 to 7.4)."""

from collections.abc import Callable, Collection, Iterable
from typing import Any, Protocol

from attractor.diagnostics import Diagnostic, Severity
from attractor.errors import PipelineConfigurationError, ValidationError
from attractor.graph import Graph
from attractor.validation import branches, children, models, patterns, routing, structure, values
from attractor.validation.survey import Survey


class LintRule(Protocol):
    """A check of the user's own, run after the built-in ones."""

    name: str

    def apply(self, graph: Graph) -> Iterable[Diagnostic]: ...


BUILT_IN_RULES: tuple[Callable[[Survey], Iterable[Diagnostic]], ...] = (
    structure.start_node,
    structure.terminal_node,
    structure.edge_target_exists,
    structure.start_no_incoming,
    structure.exit_no_outgoing,
    structure.reachability,
    structure.dead_end,
    structure.path_to_exit,
    structure.unbounded_loop,
    branches.fan_out_join,
    branches.fan_out_quorum,
    branches.fan_in_alone,
    branches.branch_escape,
    structure.undeclared_node,
    routing.condition_syntax,
    routing.condition_words,
    routing.edge_never_taken,
    routing.success_route,
    routing.failure_route,
    routing.failure_reaches_exit,
    routing.retry_target_exists,
    routing.goal_gate_has_retry,
    routing.goal_gate_retry,
    routing.goal_gate_bypass,
    values.stylesheet_syntax,
    values.stylesheet_rules,
    models.model_known,
    models.model_effort,
    values.type_known,
    values.fidelity_valid,
    values.prompt_on_llm_nodes,
    values.tool_command,
    values.human_default_choice,
    values.human_type,
    children.child_pipeline,
    children.manager_loop,
    patterns.pattern_routes,
    patterns.pattern_work,
    patterns.tool_loop_commands,
    values.unknown_variable,
    values.attribute_value,
    values.duration_unit,
    values.unknown_attribute,
)


def validate(
    graph: Graph, extra_rules: Iterable[LintRule] | None = None, *, handler_types: Collection[str] | None = None
) -> list[Diagnostic]:
    """All findings about a graph: those of the parser and the transforms, of the built-in rules, of `extra_rules`.

    Lint sees what will run, so give it the graph that `apply_transforms` made. `handler_types` are those that have a
    handler; by default those of section 2.8. PipelineConfigurationError if a rule of the user's finds something else.
    """
    survey = Survey(graph, handler_types)
    found = list(graph.diagnostics)
    for rule in BUILT_IN_RULES:
        found += rule(survey)
    for extra in extra_rules or ():
        found += _apply(extra, graph)
    return found


def _apply(rule: LintRule, graph: Graph) -> list[Diagnostic]:
    findings: Any = rule.apply(graph)
    found = list(findings) if isinstance(findings, Iterable) else [findings]
    for item in found:
        if not isinstance(item, Diagnostic):
            name = getattr(rule, "name", type(rule).__name__)
            raise PipelineConfigurationError(f"the lint rule {name} found {item!r}, which is no Diagnostic")
    return found


def validate_or_raise(
    graph: Graph, extra_rules: Iterable[LintRule] | None = None, *, handler_types: Collection[str] | None = None
) -> list[Diagnostic]:
    """The same; raises ValidationError, which holds all findings, if one is an ERROR."""
    found = validate(graph, extra_rules, handler_types=handler_types)
    if any(diagnostic.severity is Severity.ERROR for diagnostic in found):
        raise ValidationError(found)
    return found
