"""Rules about models, by the catalog of unified_llm: advice, since a model that it doesn't know may work as well."""

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import Any

from attractor.attributes import DIALECT_NAMES
from attractor.diagnostics import Diagnostic, Severity
from attractor.graph import Node, to_text
from attractor.validation.survey import Survey, listing

# Whose models the catalog knows. Any other provider is a server of the user's, which has what models it has.
_PROVIDERS = ("anthropic", "gemini", "openai")
_FAMILIES = ("claude", "gemini", "gpt-", "chatgpt", "codex", "o1", "o3", "o4")


def _catalog() -> Any:
    """Loaded when a graph names a model, because it takes longer than everything else here together."""
    return import_module("unified_llm")


@dataclass(frozen=True, slots=True)
class _Use:
    """A model, as stages ask for it. An empty provider leaves the choice to the model's name."""

    model: str
    provider: str

    @property
    def is_catalogued(self) -> bool:
        """Whether the catalog may know it. A slash or colon is for routers and for local servers."""
        return self.provider in ("", *_PROVIDERS) and not any(mark in self.model for mark in "/:$")

    def find_nearest(self) -> str:
        """The known model with nearly that name."""
        names = [model.id for model in _catalog().list_models(self.provider or None)]
        return next(iter(get_close_matches(self.model.lower(), names, 1, cutoff=0.75)), "")


def model_known(survey: Survey) -> Iterator[Diagnostic]:
    """One finding a model, however many stages ask for it."""
    for use, nodes in _find_uses(survey).items():
        info = _catalog().get_model_info(use.model) if use.is_catalogued else None
        if info is not None and use.provider and info.provider != use.provider:
            yield _about(
                survey,
                nodes,
                "model_provider",
                f"{use.model} is a model of {info.provider}, and {_stages(nodes)} it of {use.provider}",
                "llm_provider",
                f"set llm_provider={info.provider}, or drop it",
            )
        elif info is None and use.is_catalogued:
            near = use.find_nearest()
            if not near and not use.model.lower().startswith(_FAMILIES):
                # Of another family altogether: a provider's address may lead to a server that has it.
                continue
            yield _about(
                survey,
                nodes,
                "model_known",
                f"no model is known as {use.model}, which {_stages(nodes)}",
                "llm_model",
                f"did you mean {near}?" if near else "check the name; a model that is newer than the catalog is fine",
            )


def model_effort(survey: Survey) -> Iterator[Diagnostic]:
    for use, nodes in _find_uses(survey).items():
        asking = [node for node in nodes if node.reasoning_effort not in ("", "none")]
        info = _catalog().get_model_info(use.model) if asking and use.is_catalogued else None
        if info is not None and not info.supports_reasoning:
            yield _about(
                survey,
                asking,
                "model_effort",
                f"{use.model} doesn't reason: reasoning_effort={asking[0].reasoning_effort} is lost on it "
                f"({listing(node.id for node in asking)})",
                "reasoning_effort",
                "drop reasoning_effort, or choose a model that reasons",
            )


def _find_uses(survey: Survey) -> dict[_Use, list[Node]]:
    """What the stages ask, stylesheet and graph defaults included, since lint sees the transformed graph."""
    found: dict[_Use, list[Node]] = {}
    for node in survey.graph.nodes.values():
        if node.llm_model and (survey.asks_model(node) or survey.handlers[node.id] == "tool_loop"):
            found.setdefault(_Use(node.llm_model, node.llm_provider), []).append(node)
    return found


def _stages(nodes: list[Node]) -> str:
    return f"{listing(node.id for node in nodes)} {'asks' if len(nodes) == 1 else 'ask'}"


def _about(survey: Survey, nodes: list[Node], rule: str, message: str, key: str, fix: str) -> Diagnostic:
    """A finding where the attribute stands: at a node, at the graph, or in the stylesheet."""
    names = [key, *(name for name, known in DIALECT_NAMES.items() if known == key)]
    for node in nodes:
        for name in names:
            if name in node.attr_spans:
                return survey.about_node(rule, Severity.WARNING, node, message, name, fix)
    by_graph = to_text(survey.graph.attrs.get(key)) == nodes[0].text(key)
    return survey.about_graph(rule, Severity.WARNING, message, key if by_graph else "model_stylesheet", fix)
