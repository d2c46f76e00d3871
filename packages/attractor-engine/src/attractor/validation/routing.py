"""Rules about where a run goes: conditions, failures, retries, goal gates.

Conditions on the outcome alone are decided here for every status; what depends on the context may go either way.
"""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from attractor.conditions import (
    OUTCOME_SYNONYMS,
    Comparison,
    Condition,
    Conjunction,
    Disjunction,
    Expression,
    Negation,
    parse_condition,
)
from attractor.diagnostics import Diagnostic, Severity
from attractor.errors import ConditionSyntaxError
from attractor.graph import Edge, Graph, Node
from attractor.outcome import Outcome, StageStatus
from attractor.validation.survey import Survey, listing, reach

_STATUSES = tuple(status.value for status in StageStatus)
_LIKE_A_STATUS = frozenset({*_STATUSES, *OUTCOME_SYNONYMS, "pass", "passed", "ok", "error", "failure", "yes", "no"})
_OUTCOMES = {status: Outcome(status=status) for status in StageStatus}
_MOST_STEPS = 1_000_000


def holds(condition: Condition | None, status: StageStatus) -> bool | None:
    """Whether a condition holds after an outcome, whatever the context says; None if that depends on it."""
    return _decide(condition.expression, status) if condition else True


def _decide(expression: Expression, status: StageStatus) -> bool | None:
    match expression:
        case Comparison(key):
            return expression.evaluate(_OUTCOMES[status], {}) if key == "outcome" else None
        case Negation(part):
            decided = _decide(part, status)
            return None if decided is None else not decided
        case Conjunction(parts):
            decisions = [_decide(part, status) for part in parts]
            return False if False in decisions else None if None in decisions else True
        case Disjunction(parts):
            decisions = [_decide(part, status) for part in parts]
            return True if True in decisions else None if None in decisions else False


def condition_syntax(survey: Survey) -> Iterator[Diagnostic]:
    for edge in survey.graph.edges:
        if not edge.condition:
            continue
        try:
            parse_condition(edge.condition)
        except ConditionSyntaxError as error:
            yield survey.about_edge(
                "condition_syntax",
                Severity.ERROR,
                edge,
                str(error),
                "condition",
                fix="write it like outcome=success && context.key=value",
            )


def condition_words(survey: Survey) -> Iterator[Diagnostic]:
    """Clauses that can be read, but hardly mean what they say."""
    for edge in survey.graph.edges:
        condition = survey.condition(edge)
        for clause in condition.comparisons() if condition else ():
            if clause.key == "outcome" and clause.operator in ("=", "!="):
                yield from _outcome_word(survey, edge, clause)
            elif clause.key in _LIKE_A_STATUS and not clause.operator:
                near = get_close_matches(clause.key, _STATUSES, 1)
                yield survey.about_edge(
                    "condition_words",
                    Severity.WARNING,
                    edge,
                    f"{clause.key} alone asks for a context value of that name, not for the outcome",
                    "condition",
                    fix=f"write outcome={near[0] if near else 'success'}",
                )


def _outcome_word(survey: Survey, edge: Edge, clause: Comparison) -> Iterator[Diagnostic]:
    word = OUTCOME_SYNONYMS.get(clause.literal, clause.literal)
    if word in _STATUSES:
        return
    near = get_close_matches(word.lower(), _STATUSES, 1, cutoff=0.8)
    if near:
        yield survey.about_edge(
            "condition_words",
            Severity.WARNING,
            edge,
            f"no status is called {word}: this holds only if a stage reports that very word",
            "condition",
            fix=f"write outcome{clause.operator}{near[0]}",
        )


def edge_never_taken(survey: Survey) -> Iterator[Diagnostic]:
    for node_id, edges in survey.edges.items():
        if len(edges) > 1 and survey.handlers[node_id] not in ("parallel", "wait.human"):
            ranked = sorted(edges, key=lambda edge: (-edge.weight, edge.target))
            conditional = [edge for edge in ranked if edge.condition]
            yield from _shadowed(survey, conditional)
            yield from _never_default(survey, node_id, conditional, [edge for edge in ranked if not edge.condition])
        for edge in edges:
            condition = survey.condition(edge)
            ends = (StageStatus.SUCCESS,) if survey.handlers[node_id] == "start" else StageStatus
            if condition and all(holds(condition, status) is False for status in ends) and not _words(condition):
                yield _never(survey, edge, "its condition never holds")


def _shadowed(survey: Survey, ranked: Sequence[Edge]) -> Iterator[Diagnostic]:
    """Conditional edges, best first: one is never taken if a better one holds whenever it does."""
    for number, edge in enumerate(ranked):
        condition = survey.condition(edge)
        if condition is None or _words(condition):
            continue
        possible = [status for status in StageStatus if holds(condition, status) is not False]
        for better in ranked[:number]:
            other = survey.condition(better)
            same = other is not None and other.expression == condition.expression
            if other and (same or (possible and all(holds(other, status) is True for status in possible))):
                yield _never(survey, edge, f"the edge to {better.target} holds whenever it does, and goes first")
                break


def _never_default(
    survey: Survey, node_id: str, conditional: Sequence[Edge], unconditional: Sequence[Edge]
) -> Iterator[Diagnostic]:
    statuses = [status for status in StageStatus if status is not StageStatus.RETRY]
    if survey.handlers[node_id] == "start":
        statuses = [StageStatus.SUCCESS]
    if all(any(holds(survey.condition(edge), status) is True for edge in conditional) for status in statuses):
        for edge in unconditional:
            yield _never(survey, edge, "the conditions of the other edges leave nothing over")
    elif survey.handlers[node_id] in ("start", "tool"):
        for edge in unconditional[1:]:
            yield _never(survey, edge, f"the unconditional edge to {unconditional[0].target} always goes first")


def _never(survey: Survey, edge: Edge, reason: str) -> Diagnostic:
    return survey.about_edge(
        "edge_never_taken",
        Severity.WARNING,
        edge,
        f"this edge can never be taken: {reason}",
        "condition",
        fix="give it a condition of its own, or remove it",
    )


def _words(condition: Condition) -> bool:
    """Whether it asks for outcomes outside the five statuses."""
    return any(
        clause.key == "outcome" and OUTCOME_SYNONYMS.get(clause.literal, clause.literal) not in _STATUSES
        for clause in condition.comparisons()
    )


def success_route(survey: Survey) -> Iterator[Diagnostic]:
    """Where a success ends the run in a failure, since every edge is for something else (section 3.3)."""
    followed = {
        node_id: [edge.target for edge in edges if _may_follow_success(survey, edge)]
        for node_id, edges in survey.edges.items()
    }
    diamonds = {node_id: ways for node_id, ways in followed.items() if survey.handlers[node_id] == "conditional"}
    come_to = reach((target for node_id in followed.keys() - diamonds for target in followed[node_id]), diamonds)
    for node_id, ways in followed.items():
        judged = survey.edges[node_id] and survey.handlers[node_id] not in ("parallel", "exit")
        if judged and not ways and node_id in survey.reachable and (node_id not in diamonds or node_id in come_to):
            yield survey.about_node(
                "success_route",
                Severity.WARNING,
                survey.graph.nodes[node_id],
                f"after a success the run fails at {node_id}: none of its conditions holds",
                fix='add an edge with condition="outcome=success", or one without a condition',
            )


def _may_follow_success(survey: Survey, edge: Edge) -> bool:
    condition = survey.condition(edge)
    return condition is None or holds(condition, StageStatus.SUCCESS) is not False or _words(condition)


def failure_route(survey: Survey) -> Iterator[Diagnostic]:
    """Where a failure ends the run, although an edge leads on (section 3.7: such an edge isn't followed after FAIL)."""
    plain = []
    for node_id, edges in survey.edges.items():
        node = survey.graph.nodes[node_id]
        if node_id not in survey.reachable or node_id in survey.branch_nodes or not edges:
            continue
        if survey.handlers[node_id] == "conditional":
            if _fails_into(survey, node_id) and not _after(survey, edges, StageStatus.FAIL):
                yield _not_routed(survey, node, "none of its conditions holds")
        elif survey.can_fail(node_id) and not _failure_targets(survey, node_id):
            unconditional = [edge.target for edge in edges if not edge.condition]
            if unconditional and len(unconditional) < len(edges):
                yield _not_routed(survey, node, f"its unconditional edge to {unconditional[0]} is not followed")
            else:
                plain.append(node)
    if plain:
        names = listing(node.id for node in plain)
        yield survey.about_node(
            "failure_route",
            Severity.INFO,
            plain[0],
            f"a failure of {names} ends the run: no edge or retry target is there for it",
            fix='add an edge with condition="outcome=fail", or retry_target, where the run should go on',
        )


def _not_routed(survey: Survey, node: Node, reason: str) -> Diagnostic:
    return survey.about_node(
        "failure_route",
        Severity.WARNING,
        node,
        f"after a failure the run ends at {node.id}: {reason}",
        fix='add an edge with condition="outcome=fail", or retry_target',
    )


def _after(survey: Survey, edges: Sequence[Edge], status: StageStatus) -> list[Edge]:
    """Edges that may be taken after a status."""
    return [edge for edge in edges if holds(survey.condition(edge), status) is not False]


def _failure_targets(survey: Survey, node_id: str) -> list[str]:
    """Where a run may go on after the node failed."""
    edges = survey.edges[node_id]
    followed = [
        edge.target
        for edge in _after(survey, edges, StageStatus.FAIL)
        if edge.condition or survey.handlers[edge.target] == "conditional"
    ]
    return followed or survey.retry_targets(survey.graph.nodes[node_id])


def _fails_into(survey: Survey, diamond: str) -> list[str]:
    """Stages whose failure may lead to a diamond, directly."""
    return [
        node_id
        for node_id in dict.fromkeys(survey.predecessors[diamond])
        if survey.can_fail(node_id) and diamond in _failure_targets(survey, node_id)
    ]


def failure_reaches_exit(survey: Survey) -> Iterator[Diagnostic]:
    """A failure that is led to the exit counts as a success, unless a goal gate stops it."""
    for exit_id in survey.exits:
        for edge in survey.graph.incoming_edges(exit_id):
            if edge.source not in survey.graph.nodes:
                continue
            failing = _failing_into_exit(survey, edge)
            ungated = [node_id for node_id in failing if not survey.graph.nodes[node_id].goal_gate]
            if ungated:
                yield survey.about_edge(
                    "failure_reaches_exit",
                    Severity.WARNING,
                    edge,
                    f"a failure of {listing(ungated)} leads to the exit by this edge, and the run counts as a success",
                    "condition",
                    fix=f"set goal_gate=true on {ungated[0]}, or let the failure lead elsewhere",
                )


def _failing_into_exit(survey: Survey, edge: Edge) -> list[str]:
    certain = holds(survey.condition(edge), StageStatus.FAIL) is True
    if survey.handlers[edge.source] != "conditional":
        return [edge.source] if certain and edge.condition and survey.can_fail(edge.source) else []
    others = [other for other in survey.edges[edge.source] if other is not edge and other.condition]
    taken = certain and (edge.condition or not _after(survey, others, StageStatus.FAIL))
    return _fails_into(survey, edge.source) if taken else []


def retry_target_exists(survey: Survey) -> Iterator[Diagnostic]:
    graph = survey.graph
    owners: list[Node | Graph] = [*graph.nodes.values(), graph]
    for owner in owners:
        for key in ("retry_target", "fallback_retry_target"):
            target = owner.retry_target if key == "retry_target" else owner.fallback_retry_target
            if not target or target in graph.nodes:
                continue
            near = get_close_matches(target, graph.nodes, 1)
            fix = f"did you mean {near[0]}?" if near else "name a node of this pipeline"
            message = f"{key} names {target}, and there is no such node"
            if isinstance(owner, Node):
                yield survey.about_node("retry_target_exists", Severity.WARNING, owner, message, key, fix)
            else:
                yield survey.about_graph("retry_target_exists", Severity.WARNING, message, key, fix)


def goal_gate_has_retry(survey: Survey) -> Iterator[Diagnostic]:
    for gate in _gates(survey):
        targets = _gate_targets(survey, gate)
        if not targets:
            yield survey.about_node(
                "goal_gate_has_retry",
                Severity.WARNING,
                gate,
                f"{gate.id} is a goal gate without a retry target: if it is not met, the run fails at the exit",
                "goal_gate",
                fix="set retry_target on it, or on the graph",
            )


def goal_gate_retry(survey: Survey) -> Iterator[Diagnostic]:
    """A goal gate whose retry leads somewhere from which the gate can't be reached again."""
    gates = _gates(survey)
    if len(gates) * len(survey.graph.nodes) > _MOST_STEPS:
        return
    for gate in gates:
        targets = _gate_targets(survey, gate)
        if targets and gate.id not in reach(targets[:1], survey.successors):
            yield survey.about_node(
                "goal_gate_retry",
                Severity.WARNING,
                gate,
                f"no edges lead from the retry target {targets[0]} back to the goal gate {gate.id}",
                "retry_target",
                fix=f"choose a retry target before {gate.id}",
            )


def goal_gate_bypass(survey: Survey) -> Iterator[Diagnostic]:
    """Gates are checked only if they were visited (section 3.4), so a way around one leaves it open."""
    if survey.start is None:
        return
    for exit_id in survey.exits:
        unavoidable = _on_every_path(survey, survey.start, exit_id)
        for gate in _gates(survey):
            if unavoidable and gate.id not in unavoidable and gate.id not in survey.branch_nodes:
                yield survey.about_node(
                    "goal_gate_bypass",
                    Severity.WARNING,
                    gate,
                    f"a run can reach the exit without visiting the goal gate {gate.id}, which is then not checked",
                    "goal_gate",
                    fix="lead all paths through it",
                )


def _on_every_path(survey: Survey, start: str, end: str) -> set[str]:
    """Nodes that every path of edges from start to end visits; empty if there is no path."""
    came_from: dict[str, str] = {start: start}
    waiting = [start]
    for node_id in waiting:
        for target in survey.successors[node_id]:
            if target not in came_from:
                came_from[target] = node_id
                waiting.append(target)
    if end not in came_from:
        return set()
    path = [end]
    while path[-1] != start:
        path.append(came_from[path[-1]])
    path.reverse()
    place = {node_id: number for number, node_id in enumerate(path)}
    unavoidable, seen, furthest = set(), set(), 0
    for number, node_id in enumerate(path):
        # Nothing before this node leads past it: no detour avoids it.
        if furthest <= number:
            unavoidable.add(node_id)
        stack = [node_id]
        while stack:
            for target in survey.successors[stack.pop()]:
                if target in place:
                    furthest = max(furthest, place[target])
                elif target not in seen:
                    seen.add(target)
                    stack.append(target)
    return unavoidable


def _gates(survey: Survey) -> list[Node]:
    return [node for node in survey.graph.nodes.values() if node.goal_gate]


def _gate_targets(survey: Survey, gate: Node) -> list[str]:
    return survey.retry_targets(gate) or survey.retry_targets(survey.graph)
