"""Tool loops at the command line: stages whose tools are commands that their nodes name."""

import importlib
from pathlib import Path
from typing import Any

from attractor.cli.settings import Settings
from attractor.errors import PipelineConfigurationError
from attractor.graph import Graph, Node
from attractor.handlers.base import Handler
from attractor.outcome import Outcome
from attractor.state.context import Context


class ToolLoops:
    """The handler of tool loops, which asks through a client of unified_llm; loaded only when a stage is one."""

    is_external = True

    def __init__(self, client: Any, model: str, settings: Settings) -> None:
        self._client = client
        self._model = model
        self._settings = settings
        self._handler: Handler | None = None

    async def execute(self, node: Node, context: Context, graph: Graph, logs_root: Path) -> Outcome:
        if self._client is None:
            raise PipelineConfigurationError(
                f"stage {node.id!r} is a tool loop, and --backend {self._settings.backend} runs none; use llm or agent"
            )
        if self._handler is None:
            # Most pipelines have no tool loop, and need not wait for what one takes.
            prebuilt = importlib.import_module("attractor.prebuilt")
            self._handler = prebuilt.ToolLoopHandler(
                client=self._client,
                model=self._model,
                provider=self._settings.provider,
                working_dir=self._settings.workdir or None,
            )
        outcome: Outcome = await self._handler.execute(node, context, graph, logs_root)  # type: ignore[misc]
        return outcome
