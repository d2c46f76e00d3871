"""Programs that use graphs pass mypy --strict, and their mistakes don't."""

import subprocess
import sys
from pathlib import Path

GOOD = """
from collections.abc import Mapping
from typing import Annotated, Any

import anyio
from attractor.prebuilt import (
    END, START, CompiledGraph, Graph, InterruptError, NodeContext, PipelineNode, State, StateUpdate, add, append,
    with_retry, with_timeout,
)

class Work(State):
    items: Annotated[list[str], append]
    count: Annotated[int, add]

async def first(state: Work, ctx: NodeContext) -> dict[str, Any]:
    return {"items": ctx.node, "count": len(state["items"])}

def second(state: Work) -> None:
    print(state.get("count"))

def third(state: Mapping[str, Any], ctx: NodeContext) -> Mapping[str, Any] | None:
    return {"items": [str(ctx.interrupt("more?"))]}

async def choose(state: Work) -> bool:
    return state["count"] > 3

graph = Graph(Work)
graph.add_node(first, max_retries=1).add_node("second", with_retry(second, retries=3))
graph.add_node(with_timeout(third, 3)).add_node("fourth", lambda state: {"count": state["count"]})
graph.add_node("fifth", lambda state, ctx: {"items": ctx.node}).add_node("dot", PipelineNode("x.dot"))
graph.add_edge(START, "first").add_conditional_edges("first", choose, {True: "second", False: END})
graph.add_conditional_edges("second", lambda state: "a" if state["items"] else "b", {"a": "third", "b": END})
compiled: CompiledGraph[Work] = graph.compile(checkpointer="runs")
graph.add_node("inner", compiled.as_node())

async def main() -> int:
    try:
        state = await compiled.invoke({"items": ["a"]})
    except InterruptError as error:
        state = await compiled.resume("yes", run_id=error.run_id)
    async with compiled.stream({}) as run:
        async for item in run:
            print(item.state if isinstance(item, StateUpdate) else item.description)
    return state["count"] + run.result["count"] + compiled.state()["count"]

print(anyio.run(main))
"""

BAD = {
    "a node of another state": ("graph.add_node('x', wrong)", "arg-type|call-overload"),
    "an unknown channel": ("lambda: (graph.compile().state()['nothing'])", "typeddict-item"),
    "no node": ("graph.add_node('x', 3)", "call-overload|arg-type"),
}
HEAD = """
from attractor.prebuilt import Graph, State
class Work(State):
    count: int
class Other(State):
    text: str
def wrong(state: Other) -> None: ...
graph = Graph(Work)
"""


def test_programs_pass_and_mistakes_are_found(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text(GOOD)
    (tmp_path / "bad.py").write_text(HEAD + "\n".join(line for line, _ in BAD.values()))
    cache = Path(__file__).parents[2] / ".mypy_cache"
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={cache}", "good.py", "bad.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    found = done.stdout.splitlines()
    assert not [line for line in found if line.startswith("good.py")]
    first = HEAD.count("\n") + 1
    for number, (name, (_, codes)) in enumerate(BAD.items()):
        lines = [line for line in found if line.startswith(f"bad.py:{first + number}: error:")]
        assert any(f"[{code}]" in line for line in lines for code in codes.split("|")), (name, done.stdout)
