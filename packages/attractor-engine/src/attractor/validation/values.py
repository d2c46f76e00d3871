"""Rules about attributes: names, values, prompts, models."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from attractor.attributes import (
    DIALECT_NAMES,
    EDGE_ATTRIBUTES,
    FIDELITY_MODES,
    GRAPH_ATTRIBUTES,
    GRAPHVIZ_ATTRIBUTES,
    NODE_ATTRIBUTES,
    REASONING_EFFORTS,
    Attribute,
    Kind,
)
from attractor.diagnostics import Diagnostic, Severity
from attractor.errors import StylesheetSyntaxError
from attractor.graph import (
    BUILT_IN_TYPES,
    SHAPE_TO_TYPE,
    Edge,
    Graph,
    Node,
    Value,
    to_bool,
    to_dollars,
    to_int,
    to_seconds,
    to_text,
)
from attractor.handlers.human_answers import find_default_answer, question_type
from attractor.handlers.wait_human import find_choices
from attractor.interviewers.base import QuestionType
from attractor.stylesheet import PROPERTIES, parse_stylesheet
from attractor.validation.survey import Survey, listing

_TYPE_TO_SHAPE = {handler: shape for shape, handler in SHAPE_TO_TYPE.items()}
BUDGETS = ("max_cost", "max_tokens", "max_duration")
"""Limits of the graph: a run that would not keep to what was meant must not begin."""
_VARIABLE = re.compile(r"\$\{?([A-Za-z_]\w*)")
_GOAL = re.compile(r"\$goal\b")


@dataclass(frozen=True, slots=True)
class _Owner:
    """Something with attributes, and which it may have."""

    item: Graph | Node | Edge
    known: Mapping[str, Attribute]

    @property
    def name(self) -> str:
        match self.item:
            case Node(id=node_id):
                return f"node {node_id}"
            case Edge(source, target):
                return f"edge {source} -> {target}"
        return "the graph"

    def finding(
        self, survey: Survey, rule: str, message: str, key: str, fix: str, severity: Severity = Severity.WARNING
    ) -> Diagnostic:
        match self.item:
            case Node():
                return survey.about_node(rule, severity, self.item, message, key, fix)
            case Edge():
                return survey.about_edge(rule, severity, self.item, message, key, fix)
        return survey.about_graph(rule, severity, message, key, fix)


def _owners(survey: Survey) -> Iterator[_Owner]:
    graph = survey.graph
    yield _Owner(graph, GRAPH_ATTRIBUTES)
    for node in graph.nodes.values():
        if node.attrs:
            yield _Owner(node, NODE_ATTRIBUTES)
    for edge in graph.edges:
        if edge.attrs:
            yield _Owner(edge, EDGE_ATTRIBUTES)


def unknown_attribute(survey: Survey) -> Iterator[Diagnostic]:
    """One finding a name, however many nodes have it."""
    found: dict[tuple[int, str], list[_Owner]] = {}
    for owner in _owners(survey):
        for key in owner.item.attrs:
            if key in owner.known or key in GRAPHVIZ_ATTRIBUTES or key.startswith("_"):
                continue
            if isinstance(owner.item, Node) and (key in DIALECT_NAMES or _is_custom(survey, owner.item)):
                continue
            found.setdefault((id(owner.known), key), []).append(owner)
    for (_, key), owners in found.items():
        first = owners[0]
        others = f", and {len(owners) - 1} more" if len(owners) > 1 else ""
        yield first.finding(
            survey,
            "unknown_attribute",
            f"{key} is not known (on {first.name}{others}); it has no effect",
            key,
            _near_attribute(key, first.known),
        )


def _is_custom(survey: Survey, node: Node) -> bool:
    """Whether a handler of the user's runs it: what attributes that knows, only it can say."""
    handler = survey.handlers[node.id]
    return handler in survey.handler_types and handler not in BUILT_IN_TYPES


def _near_attribute(key: str, known: Mapping[str, Attribute]) -> str:
    near = get_close_matches(key.lower(), known, 1, cutoff=0.75)
    if near:
        return f"did you mean {near[0]}?"
    for place, table in (("the graph", GRAPH_ATTRIBUTES), ("nodes", NODE_ATTRIBUTES), ("edges", EDGE_ATTRIBUTES)):
        if key in table:
            return f"it belongs to {place}"
    return "remove it, if no other program reads it"


def attribute_value(survey: Survey) -> Iterator[Diagnostic]:
    for owner in _owners(survey):
        for key, value in owner.item.attrs.items():
            known = owner.known.get(key)
            is_budget = isinstance(owner.item, Graph) and key in BUDGETS
            if known is None or (to_text(value) == "" and not is_budget) or _is_inherited(owner.item, key):
                continue
            wanted = _wanted(known, value)
            if wanted and is_budget:
                message = f"{key} of the graph is {to_text(value)!r}, which is not {wanted}; a limit can't be guessed"
                yield owner.finding(survey, "attribute_value", message, key, f"write {wanted}", Severity.ERROR)
            elif wanted:
                default = f"its default, {known.default}," if known.default else "its default"
                yield owner.finding(
                    survey,
                    "attribute_value",
                    f"{key} of {owner.name} is {to_text(value)!r}, which is not {wanted}; {default} holds",
                    key,
                    f"write {wanted}",
                )


def _is_inherited(item: Graph | Node | Edge, key: str) -> bool:
    """Whether a node has it of the stylesheet or the graph, where it is looked at once."""
    return isinstance(item, Node) and key in PROPERTIES and item.span is not None and key not in item.attr_spans


def _wanted(known: Attribute, value: Value) -> str:
    """What the attribute should hold, if the value is something else."""
    if known.name == "max_cost":
        return "an amount in US dollars, such as 2.50" if to_dollars(value) is None else ""
    if known.kind is Kind.INTEGER:
        number = to_int(value)
        if number is None or known.name == "weight":
            return "a whole number" if number is None else ""
        return "a whole number from 0 on" if number < 0 else ""
    if known.kind is Kind.COUNT:
        return "" if (to_int(value) or 0) > 0 else "a whole number above 0"
    if known.kind is Kind.BOOLEAN:
        return "true or false" if to_bool(value) is None else ""
    if known.kind is Kind.DURATION:
        if known.name == "timeout" and to_seconds(value) == 0:
            return "a duration above 0"
        return "a duration such as 900s or 15m" if to_seconds(value) is None else ""
    if known.values and to_text(value) not in known.values:
        return f"one of {', '.join(known.values)}"
    return ""


def duration_unit(survey: Survey) -> Iterator[Diagnostic]:
    """One finding an attribute name."""
    found: dict[str, list[_Owner]] = {}
    for owner in _owners(survey):
        for key, value in owner.item.attrs.items():
            known = owner.known.get(key)
            if known and known.kind is Kind.DURATION and _is_bare_number(value):
                found.setdefault(key, []).append(owner)
    for key, owners in found.items():
        text = to_text(owners[0].item.attrs[key])
        others = f", and {len(owners) - 1} more" if len(owners) > 1 else ""
        yield owners[0].finding(
            survey,
            "duration_unit",
            f"{key} of {owners[0].name}{others} has no unit; {text} is read as {text} seconds",
            key,
            f'write {key}="{text}s"',
        )


def _is_bare_number(value: Value) -> bool:
    return not isinstance(value, bool) and to_seconds(value) is not None and not to_text(value).strip()[-1].isalpha()


def fidelity_valid(survey: Survey) -> Iterator[Diagnostic]:
    for owner in _owners(survey):
        for key in ("fidelity", "default_fidelity"):
            known = owner.known.get(key)
            value = to_text(owner.item.attrs.get(key))
            if known and value and value not in FIDELITY_MODES:
                near = get_close_matches(value, FIDELITY_MODES, 1)
                fix = f"did you mean {near[0]}?" if near else f"write one of {', '.join(FIDELITY_MODES)}"
                yield owner.finding(
                    survey, "fidelity_valid", f"{key} of {owner.name} is {value!r}, which is no fidelity mode", key, fix
                )


def type_known(survey: Survey) -> Iterator[Diagnostic]:
    """One finding a type or shape."""
    found: dict[tuple[str, str], list[Node]] = {}
    for node in survey.graph.nodes.values():
        if node.type:
            if node.type not in survey.handler_types:
                found.setdefault(("type", node.type), []).append(node)
        elif node.shape not in SHAPE_TO_TYPE and survey.handlers[node.id] not in ("start", "exit"):
            found.setdefault(("shape", node.shape), []).append(node)
    for (key, value), nodes in found.items():
        handler = survey.handlers[nodes[0].id]
        choices = survey.handler_types if key == "type" else SHAPE_TO_TYPE
        shape = _TYPE_TO_SHAPE.get(value.replace("_", ".").replace("fan.in", "fan_in")) if key == "shape" else None
        near = [shape] if shape else get_close_matches(value, choices, 1)
        yield survey.about_node(
            "type_known",
            Severity.WARNING,
            nodes[0],
            f"no handler is there for {key} {value}; {listing(node.id for node in nodes)} will run as {handler}",
            key,
            f"did you mean {near[0]}?" if near else f"register a handler, or use one of {', '.join(sorted(choices))}",
        )


def prompt_on_llm_nodes(survey: Survey) -> Iterator[Diagnostic]:
    for node in survey.graph.nodes.values():
        if survey.handlers[node.id] == "codergen" and not node.prompt and not node.text("label"):
            yield survey.about_node(
                "prompt_on_llm_nodes",
                Severity.WARNING,
                node,
                f"{node.id} asks a model, but has neither prompt nor label: all it will be told is {node.id!r}",
                fix="add prompt",
            )


def tool_command(survey: Survey) -> Iterator[Diagnostic]:
    for node in survey.graph.nodes.values():
        if survey.handlers[node.id] == "tool" and not node.text("tool_command"):
            yield survey.about_node(
                "tool_command",
                Severity.WARNING,
                node,
                f"{node.id} is a tool node without tool_command, and will fail",
                fix="add tool_command",
            )


def human_default_choice(survey: Survey) -> Iterator[Diagnostic]:
    for node in survey.graph.nodes.values():
        wanted = node.text("human.default_choice")
        if not wanted or survey.handlers[node.id] != "wait.human":
            continue
        edges, options = find_choices(node, survey.graph)
        if find_default_answer(node, edges, options) is None:
            named = listing(edge.target for edge in edges)
            yield survey.about_node(
                "human_default_choice",
                Severity.WARNING,
                node,
                f"human.default_choice of {node.id} is {wanted!r}, which is none of its choices: a timeout takes none",
                "human.default_choice",
                f"name the target, the key or the label of a choice; targets are {named}",
            )


def human_type(survey: Survey) -> Iterator[Diagnostic]:
    for node in survey.graph.nodes.values():
        if survey.handlers[node.id] != "wait.human":
            continue
        edges, _ = find_choices(node, survey.graph)
        if question_type(node) in (QuestionType.YES_NO, QuestionType.CONFIRMATION) and len(edges) > 2:
            message = f"{node.id} asks for yes or no, but {len(edges)} edges lead on: only two can be chosen"
            fix = "remove human.type to let the edges be the choices"
            yield survey.about_node("human_type", Severity.WARNING, node, message, "human.type", fix)


def unknown_variable(survey: Survey) -> Iterator[Diagnostic]:
    """What looks like a variable, but for `$goal`, reaches the model as it stands. One finding a name."""
    found: dict[str, list[Node]] = {}
    for node in survey.graph.nodes.values():
        if survey.asks_model(node) or survey.handlers[node.id] == "tool_loop":
            for name in dict.fromkeys(_VARIABLE.findall(_GOAL.sub("", node.prompt))):
                found.setdefault(name, []).append(node)
    for name, nodes in found.items():
        near = name == "goal" or get_close_matches(name.lower(), ["goal"], 1, cutoff=0.75)
        for_shell = name.isupper() and not near
        others = f", and {len(nodes) - 1} more," if len(nodes) > 1 else ""
        yield survey.about_node(
            "unknown_variable",
            Severity.INFO if for_shell else Severity.WARNING,
            nodes[0],
            f"nothing replaces ${name} in the prompt of {nodes[0].id}{others} before the model reads it",
            "prompt",
            "did you mean $goal?"
            if near
            else "write the text itself, unless it is for the agent's shell; only $goal is replaced",
        )


def stylesheet_syntax(survey: Survey) -> Iterator[Diagnostic]:
    try:
        parse_stylesheet(survey.graph.model_stylesheet)
    except StylesheetSyntaxError as error:
        yield survey.about_graph(
            "stylesheet_syntax",
            Severity.ERROR,
            str(error),
            "model_stylesheet",
            "rules are written: selector { property: value; }",
        )


def stylesheet_rules(survey: Survey) -> Iterator[Diagnostic]:
    """Properties nobody knows, and rules that match no node."""
    try:
        rules = parse_stylesheet(survey.graph.model_stylesheet).rules
    except StylesheetSyntaxError:
        return
    for rule in rules:
        for name in rule.declarations:
            if name not in PROPERTIES:
                near = get_close_matches(name, PROPERTIES, 1)
                yield survey.about_graph(
                    "stylesheet_property",
                    Severity.WARNING,
                    f"{name} (stylesheet line {rule.line}) is no property that a stylesheet sets",
                    "model_stylesheet",
                    f"did you mean {near[0]}?" if near else f"properties are {', '.join(PROPERTIES)}",
                )
        effort = rule.declarations.get("reasoning_effort", "")
        if effort and effort not in REASONING_EFFORTS:
            near = get_close_matches(effort, REASONING_EFFORTS, 1)
            yield survey.about_graph(
                "attribute_value",
                Severity.WARNING,
                f"reasoning_effort: {effort} (stylesheet line {rule.line}) is no effort",
                "model_stylesheet",
                f"did you mean {near[0]}?" if near else f"write one of {', '.join(REASONING_EFFORTS)}",
            )
    nodes: Iterable[Node] = survey.graph.nodes.values()
    for rule in rules:
        if not any(rule.selector.matches(node) for node in nodes):
            yield survey.about_graph(
                "stylesheet_unused",
                Severity.INFO,
                f"{rule.selector} (stylesheet line {rule.line}) matches no node",
                "model_stylesheet",
                "remove the rule, or give a node that class, shape or id",
            )
