"""A model that calls tools until it is done, each of its turns a step that is checkpointed."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import anyio
from unified_llm import Client, generate

from attractor.backends.usage import report_usage
from attractor.calls import describe_error
from attractor.prebuilt.assembly import END, START
from attractor.prebuilt.builder import Graph
from attractor.prebuilt.call_journal import CallJournal
from attractor.prebuilt.channels import State, add, append, last
from attractor.prebuilt.compiled import CompiledGraph
from attractor.prebuilt.node_context import NodeContext
from attractor.prebuilt.run_store import RunStore
from attractor.prebuilt.tools import Tool, Toolbox, ToolSpec, to_definition
from attractor.prebuilt.transcript import read_reply, to_messages
from attractor.suspension import Suspend


class ToolLoopStatus(StrEnum):
    """How a loop stands; all but the first two are ends.

    * COMPLETED: the model answered without calling a tool.
    * MAX_TURNS: it called tools in its last turn; these calls were not executed, and stay in `pending`.
    * LENGTH: its answer was cut off at the token limit. CONTENT_FILTER: a provider's filter cut it off.
    * ERROR: it couldn't be asked, or answered nothing usable; `error` says why.
    """

    RUNNING = "running"
    INTERRUPTED = "interrupted"
    COMPLETED = "completed"
    MAX_TURNS = "max_turns"
    LENGTH = "length"
    CONTENT_FILTER = "content_filter"
    ERROR = "error"


class ToolLoopState(State):
    """A conversation and how far it is. `turns` counts the answers of the model.

    `pending` are calls that wait for execution. `status` is a ToolLoopStatus; "interrupted" while a tool waits for
    a value. `error` says why it is "error". A message is `{"role", "content"}`; attractor.prebuilt.transcript has more.
    """

    messages: Annotated[list[Any], append]
    turns: Annotated[int, add]
    pending: Annotated[list[Any], last]
    status: Annotated[str, last]
    error: Annotated[str, last]


ModelFunction = Callable[[list[dict[str, Any]], list[ToolSpec]], Awaitable[Any]]
"""`await model(messages, specs)` is text, or a message of the assistant, or a Message or Response of unified_llm."""
_ENDS = {
    "length": ToolLoopStatus.LENGTH,
    "content_filter": ToolLoopStatus.CONTENT_FILTER,
    "error": ToolLoopStatus.ERROR,
}


def tool_loop(
    model: str | ModelFunction,
    tools: Sequence[Tool] = (),
    *,
    client: Client | None = None,
    provider: str | None = None,
    system: str = "",
    max_turns: int = 10,
    max_parallel: int = 8,
    raise_errors: bool = False,
    options: Mapping[str, Any] | None = None,
    checkpointer: RunStore | str | Path | None = None,
) -> CompiledGraph[ToolLoopState]:
    """A compiled graph that asks a model, executes the tools that it calls, and asks again, until it is done.

    `await loop.invoke({"messages": [{"role": "user", "content": "..."}]})` gives the final state, whose `status` says
    why it ended. `model` is a name, asked through `client` (by default that of unified_llm) with `options` of
    `unified_llm.generate`, or an async function. `system` goes in front of each request, and not into the state.

    Each call of the model and each round of tools is a step, so a resumed run goes on behind the last one. Of a round
    that was killed, calls that had ended are not executed again; those that had not are. The calls of a turn run at
    once, `max_parallel` at a time, and their results keep the model's order. Unknown tools, arguments that don't fit,
    and what a tool raises are error results for the model. A tool may wait for a person, see ToolCallContext.

    What the model raises ends the loop with status "error"; with `raise_errors` it is a NodeError, and resuming asks
    again. Raises ValueError for limits below 1, GraphError for tools that can't be offered.
    """
    if max_turns < 1 or max_parallel < 1:
        raise ValueError("max_turns and max_parallel must be at least 1")
    given = {"max_retries": 2, **(options or {})}
    loop = _Loop(
        ask=model if callable(model) else None,
        ask_client=partial(generate, model, client=client, provider=provider, max_tool_rounds=0, **given)
        if isinstance(model, str)
        else None,
        model=model if isinstance(model, str) else "",
        system=system,
        toolbox=Toolbox.of(tools),
        max_turns=max_turns,
        max_parallel=max_parallel,
        raise_errors=raise_errors,
    )
    graph = Graph(ToolLoopState, name="tool_loop")
    graph.add_node("model", loop.take_turn)
    graph.add_node("tools", loop.run_tools)
    graph.add_node("wait", wait_for_values)
    graph.add_conditional_edges(START, _begin, {"model": "model", "tools": "tools"})
    graph.add_conditional_edges("model", _behind_model, {"tools": "tools", "end": END})
    graph.add_conditional_edges("tools", _behind_tools, {"model": "model", "wait": "wait"})
    graph.add_edge("wait", "tools")
    return graph.compile(checkpointer=checkpointer, step_limit=4 * max_turns + 1_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loop:
    """The nodes of a loop. One of `ask` and `ask_client` is there."""

    ask: ModelFunction | None
    ask_client: Callable[..., Awaitable[Any]] | None
    model: str
    system: str
    toolbox: Toolbox
    max_turns: int
    max_parallel: int
    raise_errors: bool
    _definitions: list[Any] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_definitions", [to_definition(spec) for spec in self.toolbox.specs])

    async def take_turn(self, state: ToolLoopState, ctx: NodeContext) -> Mapping[str, Any]:
        """Ask the model."""
        turn = state.get("turns", 0) + 1
        try:
            message, ended = read_reply(await self._ask(state.get("messages", []), ctx), turn)
        except Suspend:
            raise
        except Exception as error:
            if self.raise_errors:
                raise
            return {"status": ToolLoopStatus.ERROR.value, "error": describe_error(error)}
        calls = message.get("tool_calls") or []
        status = _ENDS.get(ended) or ToolLoopStatus.COMPLETED
        if calls and ended not in _ENDS:
            status = ToolLoopStatus.RUNNING if turn < self.max_turns else ToolLoopStatus.MAX_TURNS
        update = {"messages": [message], "turns": 1, "pending": calls, "status": status.value}
        return update | ({"error": "the provider ended the answer with an error"} if ended == "error" else {})

    async def _ask(self, messages: list[Any], ctx: NodeContext) -> Any:
        system = [{"role": "system", "content": self.system}] if self.system else []
        transcript = [*system, *messages]
        if self.ask_client is None:
            assert self.ask is not None
            return await self.ask(transcript, self.toolbox.specs)
        tools = {"tools": self._definitions} if self._definitions else {}
        result = await self.ask_client(messages=to_messages(transcript), **tools)
        report_usage(ctx.stage.context, result.total_usage, self.model)
        return result.response

    async def run_tools(self, state: ToolLoopState, ctx: NodeContext) -> Mapping[str, Any]:
        """Execute the pending calls that have no result yet."""
        pending = [dict(requested) for requested in state["pending"]]
        journal = CallJournal(ctx.directory, state.get("turns", 0), pending)
        tell = ctx.stage.context.run.tell
        limiter = anyio.CapacityLimiter(self.max_parallel)

        async def execute(index: int) -> None:
            async with limiter:
                tell("tool_start", pending[index]["name"])
                found = await self.toolbox.execute(pending[index], ctx)
                journal.add(index, found)
                pending[index] |= found
                tell("tool_end", pending[index]["name"])

        try:
            async with anyio.create_task_group() as tasks:
                for index, requested in enumerate(pending):
                    if (known := journal.find(index)) is not None:
                        pending[index] |= known
                    elif "result" not in requested:
                        tasks.start_soon(execute, index)
        except ExceptionGroup as failed:
            # What tools raise is a result; this is a schema that is none, or a disk that can't be written.
            raise failed.exceptions[0] from None
        if any("result" not in requested for requested in pending):
            return {"pending": pending, "status": ToolLoopStatus.INTERRUPTED.value}
        results = [_to_tool_message(requested) for requested in pending]
        return {"messages": results, "pending": [], "status": ToolLoopStatus.RUNNING.value}


def wait_for_values(state: ToolLoopState, ctx: NodeContext) -> Mapping[str, Any]:
    """Ask for what the pending calls wait for, in their order."""
    pending = []
    for requested in state["pending"]:
        if "asks" in requested:
            value = ctx.interrupt(requested["asks"]["payload"])
            answers = [*requested.get("answers", ()), value]
            requested = {key: held for key, held in requested.items() if key != "asks"} | {"answers": answers}
        pending.append(requested)
    return {"pending": pending, "status": ToolLoopStatus.RUNNING.value}


def _begin(state: ToolLoopState) -> str:
    return "tools" if state.get("pending") else "model"


def _behind_model(state: ToolLoopState) -> str:
    return "tools" if state["status"] == ToolLoopStatus.RUNNING else "end"


def _behind_tools(state: ToolLoopState) -> str:
    return "wait" if state["status"] == ToolLoopStatus.INTERRUPTED else "model"


def _to_tool_message(requested: Mapping[str, Any]) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": requested["id"], "name": requested["name"], **requested["result"]}
