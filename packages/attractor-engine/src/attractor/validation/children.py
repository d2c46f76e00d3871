"""Rules about pipelines within pipelines: sub-pipelines and manager loops (sections 4.11 and 9.4)."""

from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path

from attractor.conditions import parse_condition
from attractor.diagnostics import Diagnostic, Severity
from attractor.errors import ConditionSyntaxError
from attractor.graph import CHILD_TYPES, Node, to_bool
from attractor.handlers.child_run import DOTFILE, get_setting
from attractor.handlers.manager_loop import ACTIONS, RUN_DIR
from attractor.validation.survey import Survey


def child_pipeline(survey: Survey) -> Iterator[Diagnostic]:
    """A node that runs a pipeline names one, and that exists as far as lint can tell."""
    for node in _nodes(survey, CHILD_TYPES):
        watches = to_bool(node.attrs.get("stack.child_autostart")) is False and _is_manager(survey, node)
        key = RUN_DIR if watches else DOTFILE
        path = get_setting(key, node, survey.graph)
        if not path:
            what = "the run directory to watch" if watches else "the DOT file of its child pipeline"
            message = f"node {node.id} needs {what}"
            yield survey.about_node("child_pipeline", Severity.ERROR, node, message, key, f"set {key} of node or graph")
        elif not watches:
            yield from _check_file(survey, node, path)


def manager_loop(survey: Survey) -> Iterator[Diagnostic]:
    """What a manager loop's own attributes say makes sense."""
    for node in _nodes(survey, {"stack.manager_loop"}):
        for key in ("manager.stop_condition", "manager.steer_condition"):
            try:
                parse_condition(node.text(key))
            except ConditionSyntaxError as error:
                message = f"{key} of node {node.id} can't be read: {error}"
                yield survey.about_node("manager_condition", Severity.ERROR, node, message, key, "see section 10.2")
        key = "manager.actions"
        for word in filter(None, (word.strip() for word in node.text(key).split(","))):
            if word not in ACTIONS:
                near = get_close_matches(word, ACTIONS, 1)
                fix = f"did you mean {near[0]}?" if near else f"actions are {', '.join(ACTIONS)}"
                message = f"{word} in {key} of node {node.id} is no action; it has no effect"
                yield survey.about_node("manager_actions", Severity.WARNING, node, message, key, fix)
        if "steer" in node.text(key) and not node.prompt:
            message = f"node {node.id} steers its child, but has no prompt that says what to tell it; its label is told"
            yield survey.about_node("manager_actions", Severity.WARNING, node, message, key, "write a prompt")


def _nodes(survey: Survey, types: frozenset[str] | set[str]) -> Iterator[Node]:
    return (node for node in survey.graph.nodes.values() if survey.handlers[node.id] in types)


def _is_manager(survey: Survey, node: Node) -> bool:
    return survey.handlers[node.id] == "stack.manager_loop"


def _check_file(survey: Survey, node: Node, path: str) -> Iterator[Diagnostic]:
    own = Path(survey.graph.file_name).absolute() if survey.graph.file_name else None
    beside = own.parent / path if own else Path(path)
    if not beside.is_file() and not Path(path).is_file():
        severity = Severity.ERROR if Path(path).is_absolute() else Severity.WARNING
        where = (
            "" if Path(path).is_absolute() else " beside this file or here; a run looks in its working directory too"
        )
        message = f"the child pipeline {path} of node {node.id} does not exist{where}"
        yield survey.about_node("child_pipeline", severity, node, message, DOTFILE, "correct the path")
    elif own is not None and own.is_file() and beside.is_file() and own.samefile(beside):
        message = f"node {node.id} runs the pipeline that it is in, which goes on until pipelines lie too deep"
        fix = "name another file, or let a condition lead around the node"
        yield survey.about_node("child_pipeline", Severity.WARNING, node, message, DOTFILE, fix)
