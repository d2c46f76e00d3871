"""The attributes a pipeline may carry: what they mean, what they hold, and where the specification says so.

Lint checks against these tables, and the reference documentation is made from them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType


class Kind(StrEnum):
    """What an attribute's value is read as. Any of them may stand in quotes. A COUNT is an integer above 0."""

    TEXT = "text"
    INTEGER = "integer"
    COUNT = "count"
    BOOLEAN = "boolean"
    DURATION = "duration"
    NODE = "node"
    FIDELITY = "fidelity"


@dataclass(frozen=True, slots=True)
class Attribute:
    """One known attribute. `default` is what an absent one means; `values`, if any, are all that make sense."""

    name: str
    kind: Kind
    default: str
    description: str
    section: str
    values: tuple[str, ...] = ()


FIDELITY_MODES = ("full", "truncate", "compact", "summary:low", "summary:medium", "summary:high")
REASONING_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
RETRY_POLICIES = ("none", "standard", "aggressive", "linear", "patient")
QUESTION_TYPES = ("multiple_choice", "yes_no", "confirmation", "freeform")
ON_INCOMPLETE = ("error", "skip", "rerun")
JOIN_POLICIES = ("wait_all", "first_success", "quorum")


def _table(*attributes: Attribute) -> Mapping[str, Attribute]:
    return MappingProxyType({attribute.name: attribute for attribute in attributes})


_MODEL = (
    Attribute("llm_model", Kind.TEXT, "", "Model that LLM stages ask.", "2.6"),
    Attribute("llm_provider", Kind.TEXT, "", "Provider of the model; by default told from the model.", "2.6"),
    Attribute(
        "reasoning_effort", Kind.TEXT, "", "How hard the model thinks; unset sends none.", "2.6", REASONING_EFFORTS
    ),
)
_RETRY_TARGETS = (
    Attribute(
        "retry_target", Kind.NODE, "", "Where to go on when the stage fails for good or its goal gate is open.", "3.7"
    ),
    Attribute("fallback_retry_target", Kind.NODE, "", "The same, if retry_target is missing or unknown.", "3.7"),
)
_TOOL_HOOKS = (
    Attribute(
        "tool_hooks.pre", Kind.TEXT, "", "Shell command before each tool call; non-zero exit skips the call.", "9.7"
    ),
    Attribute("tool_hooks.post", Kind.TEXT, "", "Shell command after each tool call.", "9.7"),
    Attribute("tool_hooks.timeout", Kind.DURATION, "60s", "Most that one hook may take.", "9.7"),
)
_PATTERNS = (
    Attribute("function", Kind.TEXT, "", "Name of a function that the host registered, for the stage's work.", "9.4"),
    Attribute("converge.perfect_score", Kind.TEXT, "100", "Score at which a loop has nothing left to gain.", "9.4"),
    Attribute("converge.patience", Kind.INTEGER, "4", "Turns in a row without a better score that end a loop.", "9.4"),
    Attribute("converge.max_iterations", Kind.COUNT, "20", "Most turns of a loop.", "9.4"),
    Attribute("converge.score_command", Kind.TEXT, "", "Shell command that prints the score of a turn's work.", "9.4"),
    Attribute("gate.max_attempts", Kind.COUNT, "3", "Evaluations of a gate before it escalates.", "9.4"),
    Attribute("effect.key_from", Kind.TEXT, "", "Context keys that tell work from other work, by commas.", "9.4"),
    Attribute("effect.store", Kind.TEXT, ".attractor/effects.sqlite3", "File that keeps what was done.", "9.4"),
    Attribute("effect.ttl", Kind.DURATION, "", "How long done work counts as done.", "9.4"),
    Attribute(
        "effect.on_incomplete",
        Kind.TEXT,
        "error",
        "What to do if work may have happened.",
        "9.4",
        ON_INCOMPLETE,
    ),
    Attribute("tool_loop.tools", Kind.TEXT, "all", "Tools that a tool loop's model may call, by commas.", "9.4"),
    Attribute(
        "tool_loop.commands",
        Kind.TEXT,
        "",
        "Tools that are shell commands, a line each: `name(parameter, ...): command  # what it does`.",
        "9.4",
    ),
    Attribute("tool_loop.max_turns", Kind.COUNT, "10", "Most turns of a tool loop's model.", "9.4"),
    Attribute("retry.retries", Kind.INTEGER, "2", "Attempts of a retry node's work after the first.", "9.4"),
    Attribute("retry.backoff", Kind.DURATION, "100ms", "Pause before the first retry; it doubles.", "9.4"),
    Attribute("retry.max_backoff", Kind.DURATION, "30s", "Longest pause before a retry.", "9.4"),
    Attribute("retry.timeout", Kind.DURATION, "", "Most that one attempt may take.", "9.4"),
    Attribute("interrupt.show", Kind.TEXT, "", "Context keys shown to whoever gives the value, by commas.", "9.4"),
)
_CHILD = (
    Attribute("stack.child_dotfile", Kind.TEXT, "", "DOT file of a sub-pipeline or a manager loop.", "4.11"),
    Attribute("stack.child_workdir", Kind.TEXT, "the parent's", "Working directory of the child run.", "A"),
    Attribute(
        "stack.child_run_dir", Kind.TEXT, "", "Run directory of a child that another process runs, to watch.", "4.11"
    ),
)

GRAPH_ATTRIBUTES = _table(
    Attribute("goal", Kind.TEXT, "", "What the pipeline is for; $goal in prompts.", "2.5"),
    Attribute("label", Kind.TEXT, "", "Display name.", "2.5"),
    Attribute("model_stylesheet", Kind.TEXT, "", "Model settings by class, shape or node.", "8"),
    Attribute("default_max_retries", Kind.INTEGER, "0", "Additional attempts of nodes that set no max_retries.", "2.5"),
    Attribute("default_max_retry", Kind.INTEGER, "0", "Older name of default_max_retries.", "2.5"),
    Attribute("default_fidelity", Kind.FIDELITY, "compact", "Context fidelity of nodes that set none.", "5.4"),
    Attribute("thread_id", Kind.TEXT, "", "Session thread of full-fidelity nodes that set none.", "5.4"),
    Attribute("max_node_visits", Kind.COUNT, "100", "How often a run may visit one node before it stops.", "3.2"),
    Attribute("max_goal_gate_rounds", Kind.COUNT, "20", "How often open goal gates may send a run back.", "3.4"),
    Attribute("max_same_failures", Kind.COUNT, "3", "How often a stage may fail the same way in a row.", "3.5"),
    Attribute("retry_policy", Kind.TEXT, "", "Preset of nodes that set none.", "3.6", RETRY_POLICIES),
    Attribute("max_cost", Kind.TEXT, "", "Budget of a run in US dollars.", "3.2"),
    Attribute("max_tokens", Kind.COUNT, "", "Budget of a run in tokens.", "3.2"),
    Attribute("max_duration", Kind.DURATION, "", "Budget of a run in wall time.", "3.2"),
    *_RETRY_TARGETS,
    *_MODEL,
    *_CHILD,
    *_TOOL_HOOKS,
)

NODE_ATTRIBUTES = _table(
    Attribute("label", Kind.TEXT, "the node's id", "Display name; the prompt of an LLM stage that has none.", "2.6"),
    Attribute("shape", Kind.TEXT, "box", "Which handler runs the node, unless type says so.", "2.8"),
    Attribute("type", Kind.TEXT, "", "Which handler runs the node.", "2.6"),
    Attribute("prompt", Kind.TEXT, "", "Instruction of an LLM stage; $goal stands for the graph's goal.", "2.6"),
    Attribute("class", Kind.TEXT, "", "Class names for the model stylesheet, separated by commas.", "2.12"),
    Attribute("max_retries", Kind.INTEGER, "the graph's default", "Additional attempts after the first.", "3.5"),
    Attribute("retry_policy", Kind.TEXT, "", "Preset of delays and attempts.", "3.6", RETRY_POLICIES),
    Attribute("goal_gate", Kind.BOOLEAN, "false", "The run may end only if this node succeeded.", "3.4"),
    Attribute("fidelity", Kind.FIDELITY, "the graph's default", "How much context the stage is given.", "5.4"),
    Attribute("thread_id", Kind.TEXT, "", "Session that full-fidelity stages share.", "5.4"),
    Attribute("timeout", Kind.DURATION, "", "Most that one execution may take.", "2.6"),
    Attribute("auto_status", Kind.BOOLEAN, "false", "A stage that reports no status counts as success.", "2.6"),
    Attribute("allow_partial", Kind.BOOLEAN, "false", "Exhausted retries count as partial success.", "2.6"),
    Attribute("max_tokens", Kind.COUNT, "the model's", "Most tokens of the answer of an LLM stage.", "2.6"),
    Attribute("max_visits", Kind.COUNT, "the graph's max_node_visits", "How often a run may visit this node.", "3.2"),
    Attribute("tool_command", Kind.TEXT, "", "Shell command of a tool node.", "4.10"),
    Attribute("human.type", Kind.TEXT, "multiple_choice", "What a human gate asks for.", "6.2", QUESTION_TYPES),
    Attribute("human.questions", Kind.TEXT, "", "Several questions of a human gate, a line each.", "6.1"),
    Attribute("human.default_choice", Kind.TEXT, "", "Target, key or answer when a human gate times out.", "6.5"),
    Attribute(
        "human.timeout", Kind.DURATION, "the node's timeout", "How long a human gate waits for an answer.", "6.5"
    ),
    Attribute("join_policy", Kind.TEXT, "wait_all", "When a fan-out has enough branches.", "4.8", JOIN_POLICIES),
    Attribute("join_count", Kind.COUNT, "", "Successful branches that a quorum needs.", "4.8"),
    Attribute("max_parallel", Kind.COUNT, "4", "Branches that run at once.", "4.8"),
    Attribute("manager.poll_interval", Kind.DURATION, "45s", "Pause between looks at the child run.", "4.11"),
    Attribute("manager.max_cycles", Kind.COUNT, "1000", "Looks at the child run before giving up.", "4.11"),
    Attribute("manager.stop_condition", Kind.TEXT, "", "Condition that ends supervision with success.", "4.11"),
    Attribute("manager.actions", Kind.TEXT, "observe,wait", "What each cycle does, separated by commas.", "4.11"),
    Attribute("manager.steer_condition", Kind.TEXT, "", "When the action steer intervenes; unset: always.", "4.11"),
    Attribute("manager.steer_cooldown", Kind.DURATION, "5m", "Least time between two interventions.", "4.11"),
    Attribute("stack.child_autostart", Kind.BOOLEAN, "true", "Whether the manager starts the child run.", "4.11"),
    *_PATTERNS,
    *_RETRY_TARGETS,
    *_MODEL,
    *_CHILD,
    *_TOOL_HOOKS,
)

EDGE_ATTRIBUTES = _table(
    Attribute("label", Kind.TEXT, "", "Caption; an outcome's preferred label is matched with it.", "2.7"),
    Attribute("condition", Kind.TEXT, "", "When the edge may be taken.", "10"),
    Attribute("weight", Kind.INTEGER, "0", "Higher wins among edges that may be taken.", "3.3"),
    Attribute("fidelity", Kind.FIDELITY, "the target's", "Context fidelity of the target for this transition.", "5.4"),
    Attribute("thread_id", Kind.TEXT, "", "Session thread of the target for this transition.", "5.4"),
    Attribute("loop_restart", Kind.BOOLEAN, "false", "Start over at the target with a fresh log directory.", "2.7"),
)

DIALECT_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "script": "tool_command",
        "model": "llm_model",
        "provider": "llm_provider",
        "node_type": "type",
        "llm_prompt": "prompt",
    }
)
"""Names of node attributes that other engines use, and the specification's."""

# Every attribute of Graphviz 12 that says how a picture looks; they mean nothing to a run.
_GRAPHVIZ = """
    _background area arrowhead arrowsize arrowtail bb beautify bgcolor center charset cluster clusterrank color
    colorscheme comment compound concentrate constraint Damping decorate defaultdist dim dimen dir diredgeconstraints
    distortion dpi edgehref edgetarget edgetooltip edgeURL epsilon esep fillcolor fixedsize fontcolor fontname fontnames
    fontpath fontsize forcelabels gradientangle group head_lp headclip headhref headlabel headport headtarget
    headtooltip headURL height href id image imagepath imagepos imagescale inputscale K label_scheme labelangle
    labeldistance labelfloat labelfontcolor labelfontname labelfontsize labelhref labeljust labelloc labeltarget
    labeltooltip labelURL landscape layer layerlistsep layers layerselect layersep layout len levels levelsgap lhead
    lheight linelength lp ltail lwidth margin maxiter mclimit mindist minlen mode mosek newrank nodesep nojustify
    normalize notranslate nslimit nslimit1 oneblock ordering orientation outputorder overlap overlap_scaling
    overlap_shrink pack packmode pad page pagedir pencolor penwidth peripheries pin pos quadtree quantum radius rank
    rankdir ranksep ratio rects regular remincross repulsiveforce resolution root rotate rotation samehead sametail
    samplepoints scale searchsize sep shapefile showboxes sides size skew smoothing sortv splines start style
    stylesheet tail_lp tailclip tailhref taillabel tailport tailtarget tailtooltip tailURL target TBbalance tooltip
    truecolor URL vertices viewport voro_margin width xdotversion xlabel xlp z
"""
GRAPHVIZ_ATTRIBUTES = frozenset(_GRAPHVIZ.split())
