"""What each rule of lint is about, for whoever meets a finding for the first time."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from attractor.diagnostics import Severity


@dataclass(frozen=True, slots=True)
class Explanation:
    """One rule: how bad its findings are (those of some rules differ: the worst), what it looks for, and why."""

    rule: str
    severity: Severity
    summary: str
    why: str


_ERROR, _WARNING, _INFO = Severity.ERROR, Severity.WARNING, Severity.INFO


def _table(*rows: tuple[str, Severity, str, str]) -> Mapping[str, Explanation]:
    return MappingProxyType({rule: Explanation(rule, severity, summary, why) for rule, severity, summary, why in rows})


EXPLANATIONS = _table(
    ("syntax", _ERROR, "The file can't be read.", "The message shows the place and what was expected there."),
    ("start_node", _ERROR, "There is one start.", "A run begins at the node of shape Mdiamond."),
    ("terminal_node", _ERROR, "There is one exit.", "A run ends at the node of shape Msquare."),
    ("edge_target_exists", _ERROR, "Edges lead from node to node.", "A run can't follow an edge into nowhere."),
    ("start_no_incoming", _ERROR, "Nothing leads back to the start.", "A start is passed once."),
    ("exit_no_outgoing", _ERROR, "Nothing leads on from the exit.", "A run ends there."),
    ("reachability", _ERROR, "Every node can be reached.", "Retry targets count as edges; what is left never runs."),
    ("dead_end", _WARNING, "A stage leads on.", "A run that ends before the exit skips what lies between."),
    ("path_to_exit", _WARNING, "Some way leads to the exit.", "A run that can't get there ends at one of its limits."),
    ("unbounded_loop", _INFO, "A loop has a bound of its own.", "Else 100 rounds of a model end it, and cost money."),
    ("undeclared_node", _WARNING, "A node is more than a name in an edge.", "Most such names are typing errors."),
    ("fan_out_join", _WARNING, "Branches meet.", "Without a fan-in, or another node where they meet, the run ends."),
    ("fan_out_quorum", _WARNING, "A quorum can be reached.", "join_count is for join_policy=quorum, at most all."),
    ("fan_in_alone", _WARNING, "A fan-in has a fan-out before it.", "Without results of branches it fails."),
    ("branch_escape", _WARNING, "A branch stays in its fan-out.", "One that leads back, or restarts the run, fails."),
    ("child_pipeline", _ERROR, "A child pipeline exists.", "A node that runs one, or watches one, has to find it."),
    ("manager_condition", _ERROR, "A manager's conditions can be read.", "Else it could never stop, nor steer."),
    ("manager_actions", _WARNING, "A manager's actions are known.", "Any other has no effect."),
    ("pattern_routes", _ERROR, "A loop or gate has all its ways on.", "Else a result would lead where it shouldn't."),
    ("tool_loop_commands", _ERROR, "The tools of a tool loop can be read.", "The stage would fail before it asks."),
    ("pattern_work", _WARNING, "A pattern says what does its work.", "Without function, command or prompt it fails."),
    ("condition_syntax", _ERROR, "Conditions can be read.", "Else nobody could tell which way a run goes."),
    ("condition_words", _WARNING, "Conditions name statuses.", "A word that no stage reports never holds."),
    ("edge_never_taken", _WARNING, "Every edge can be taken.", "An edge behind one that always wins is a mistake."),
    (
        "success_route",
        _WARNING,
        "A success has a way on.",
        "Where every edge is for a failure, a success ends the run.",
    ),
    ("failure_route", _WARNING, "A failure has a way on.", "An unconditional edge isn't followed after one."),
    (
        "failure_reaches_exit",
        _WARNING,
        "A failure doesn't end in success.",
        "A run that reaches the exit succeeded, unless a goal gate is open.",
    ),
    ("retry_target_exists", _WARNING, "Retry targets are nodes.", "Else there is no way back when it is needed."),
    ("goal_gate_has_retry", _WARNING, "A goal gate has a retry target.", "Else a run with an open gate can but fail."),
    ("goal_gate_retry", _WARNING, "A retry comes back to its gate.", "Else the gate stays open, round after round."),
    ("goal_gate_bypass", _WARNING, "No way leads around a goal gate.", "Gates are checked only where a run was."),
    ("stylesheet_syntax", _ERROR, "The stylesheet can be read.", "Else stages would ask models nobody meant."),
    ("stylesheet_property", _WARNING, "Stylesheets set known properties.", "Any other has no effect."),
    ("stylesheet_unused", _INFO, "Rules match nodes.", "One that matches none hints at a misspelt class or id."),
    ("model_known", _WARNING, "Models are in the catalog.", "Most that aren't are misspelt; new ones may be fine."),
    ("model_provider", _WARNING, "Models are asked of who has them.", "Another provider refuses them."),
    ("model_effort", _WARNING, "An effort is for models that reason.", "Others refuse it, or lose it."),
    ("type_known", _WARNING, "Types and shapes have a handler.", "A node of another one asks a model."),
    ("fidelity_valid", _WARNING, "Fidelity is one of its six modes.", "Any other counts as unset."),
    ("prompt_on_llm_nodes", _WARNING, "A model stage says what to do.", "Else the model is told a name, and no more."),
    ("tool_command", _WARNING, "A tool stage has a command.", "Without one it fails."),
    ("human_default_choice", _WARNING, "A default choice is a choice.", "Else a timeout takes none."),
    ("human_type", _WARNING, "Yes and no are two ways.", "A third edge of such a gate is never chosen."),
    ("unknown_variable", _WARNING, "Variables are replaced.", "Only $goal is; any other reaches the model as it is."),
    ("attribute_value", _WARNING, "Attributes hold what they should.", "Else their defaults hold."),
    ("duration_unit", _WARNING, "Durations have a unit.", "A bare number is in seconds, which few mean by 30000."),
    ("unknown_attribute", _WARNING, "Attributes are known.", "Most that aren't are misspelt, and have no effect."),
    ("dialect_name", _INFO, "Attributes have their own names.", "Names of other engines work here, and not elsewhere."),
    ("unescaped_quote", _WARNING, "Quotes within strings are escaped.", "Other tools refuse the file."),
    ("unknown_escape", _WARNING, "Escapes are known ones.", "Others are kept as they are written."),
    ("duplicate_attribute", _WARNING, "An attribute stands once.", "Of two the later one holds."),
    ("subgraph_attribute", _WARNING, "Subgraphs have no attributes of nodes.", "Defaults stand in node [...]."),
    ("handler_registered", _ERROR, "Every node has a handler.", "A stage that nothing runs would stop the run."),
)
"""Rules by name, in the order of their findings."""
