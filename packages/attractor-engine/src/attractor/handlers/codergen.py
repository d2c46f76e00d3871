"""The codergen handler: a question to a model, or work for an agent (section 4.5)."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from attractor.backends.base import CodergenBackend
from attractor.backends.simulated import SimulatedBackend
from attractor.calls import call
from attractor.fidelity import resolve_fidelity, write_preamble
from attractor.graph import Graph, Node
from attractor.outcome import Outcome
from attractor.state.context import Context
from attractor.state.run_directory import stage_path
from attractor.state.stage_files import remove_file, write_file
from attractor.state.status_file import clear_status, read_status, write_status

PROMPT_NAME = "prompt.md"
RESPONSE_NAME = "response.md"
RESPONSE_CHARACTERS = 200


class CodergenHandler:
    """Asks `backend`, or simulates if there is none.

    The prompt is the node's, else its label, with `$goal` expanded and, for every fidelity but `full`, what happened
    before in front of it. Prompt, response and outcome go to prompt.md, response.md and status.json of the stage.

    What the stage reports counts in this order: the Outcome that the backend returns; a status.json that whoever did
    the work wrote into the stage's directory; else a text is a success. Prose is never searched for an outcome.
    What the backend raises goes to the engine, which knows what is worth another attempt.
    """

    def __init__(self, backend: CodergenBackend | None = None) -> None:
        self._backend: CodergenBackend = backend or SimulatedBackend()
        self.is_external = not isinstance(self._backend, SimulatedBackend)

    async def execute(self, node: Node, context: Context, graph: Graph, logs_root: Path) -> Outcome:
        stage_dir = stage_path(logs_root, node.id)
        prompt = build_prompt(node, context, graph)
        begin_stage(stage_dir, prompt)
        result = await ask(self._backend, node, prompt, context)
        outcome = _to_outcome(node, result, read_status(stage_dir))
        if not (stage_dir / RESPONSE_NAME).exists():
            write_text(stage_dir / RESPONSE_NAME, result.notes if isinstance(result, Outcome) else str(result))
        write_status(stage_dir, outcome)
        return outcome


def begin_stage(stage_dir: Path, prompt: str) -> None:
    """Write prompt.md, and remove what an earlier visit left."""
    stage_dir.mkdir(parents=True, exist_ok=True)
    clear_status(stage_dir)
    remove_file(stage_dir / RESPONSE_NAME)
    write_text(stage_dir / PROMPT_NAME, prompt)


async def ask(backend: CodergenBackend, node: Node, prompt: str, context: Context) -> str | Outcome:
    """The backend's answer, unless the run may ask no more of models.

    A function may serve as a backend, and neither that nor a method need be async.
    """
    if reason := context.run.refuse_more():
        return Outcome.fail(f"stage {node.id!r} asks no model: {reason}", terminal=True)
    run: Any = getattr(backend, "run", backend)
    answer: str | Outcome = await call(run, node, prompt, context)
    return answer


def build_prompt(node: Node, context: Context, graph: Graph) -> str:
    """What the model is asked (sections 4.5 and 5.4)."""
    prompt = (node.prompt or node.label).replace("$goal", graph.goal)
    mode = resolve_fidelity(node, graph, context.run.incoming_edge, resumed=context.run.resumed)
    return write_preamble(mode, graph, context) + prompt


def _to_outcome(node: Node, result: str | Outcome, reported: Outcome | None) -> Outcome:
    text = result.notes if isinstance(result, Outcome) else str(result)
    updates = {"last_stage": node.id, "last_response": shorten(text)}
    outcome = result if isinstance(result, Outcome) else reported
    if outcome is None:
        return Outcome.success(f"Stage completed: {node.id}", context_updates=updates)
    return replace(outcome, context_updates={**updates, **outcome.context_updates})


def shorten(text: str) -> str:
    """As much of an answer as `last_response` holds."""
    return text if len(text) <= RESPONSE_CHARACTERS else text[: RESPONSE_CHARACTERS - 1] + "…"


def write_text(path: Path, text: str) -> None:
    """Write a stage's file, with replacements for what UTF-8 can't say; also where the stage removed its directory."""
    write_file(path, text.encode("utf-8", "replace"))
