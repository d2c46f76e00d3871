"""Rules about fan-outs: where their branches meet, and what a branch can't do (sections 4.8 and 4.9)."""

from collections.abc import Iterator

from attractor.diagnostics import Diagnostic, Severity
from attractor.graph import to_int
from attractor.validation.survey import Survey, listing, reach


def fan_out_join(survey: Survey) -> Iterator[Diagnostic]:
    for node_id, join in survey.joins.items():
        targets = survey.successors[node_id]
        if len(targets) > 1 and not join:
            yield survey.about_node(
                "fan_out_join",
                Severity.WARNING,
                survey.graph.nodes[node_id],
                f"the branches of {node_id} ({listing(targets)}) never meet: the run ends behind them",
                fix="lead them to one node, such as join [shape=tripleoctagon]",
            )


def fan_out_quorum(survey: Survey) -> Iterator[Diagnostic]:
    for node_id in survey.fan_outs:
        node = survey.graph.nodes[node_id]
        count = to_int(node.attrs.get("join_count"))
        branches = len(survey.edges[node_id])
        if count is None:
            continue
        if node.text("join_policy") != "quorum":
            yield survey.about_node(
                "fan_out_quorum",
                Severity.WARNING,
                node,
                f"join_count of {node_id} has no effect: its join_policy is {node.text('join_policy') or 'wait_all'}",
                "join_count",
                fix="set join_policy=quorum, or remove join_count",
            )
        elif not 0 < count <= branches:
            yield survey.about_node(
                "fan_out_quorum",
                Severity.WARNING,
                node,
                f"{node_id} needs {count} successful branches, but has {branches}, and will fail",
                "join_count",
                fix=f"set join_count to at most {branches}",
            )


def fan_in_alone(survey: Survey) -> Iterator[Diagnostic]:
    behind = reach(survey.fan_outs, survey.successors)
    for node_id, handler in survey.handlers.items():
        if handler == "parallel.fan_in" and node_id not in behind:
            yield survey.about_node(
                "fan_in_alone",
                Severity.WARNING,
                survey.graph.nodes[node_id],
                f"no fan-out leads to {node_id}, which will find no branch results and fail",
                fix="add a fan-out [shape=component] before it",
            )


def branch_escape(survey: Survey) -> Iterator[Diagnostic]:
    """Edges by which a branch would leave what it may do: back to its own fan-out, or to a restart of the run."""
    for fan_out, nodes in survey.branches.items():
        for node_id in sorted(nodes):
            for edge in survey.edges[node_id]:
                if edge.target == fan_out or edge.loop_restart:
                    what = "leads back to it" if edge.target == fan_out else "has loop_restart"
                    yield survey.about_edge(
                        "branch_escape",
                        Severity.WARNING,
                        edge,
                        f"this edge within a branch of {fan_out} {what}: a branch that takes it fails",
                        fix="lead it to where the branches meet, and decide there",
                    )
