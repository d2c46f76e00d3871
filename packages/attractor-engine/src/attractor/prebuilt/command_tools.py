"""Shell commands as tools: one environment for all calls of a stage."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from agent_loop import EnvironmentPolicy, LocalExecutionEnvironment

from attractor.handlers.command_tools import CommandTool
from attractor.handlers.tool import keep_ends
from attractor.prebuilt.tools import Tool

COMMAND_SECONDS = 120.0
_MOST_CHARACTERS = 20_000


@asynccontextmanager
async def open_tools(
    commands: Sequence[CommandTool],
    working_dir: Path,
    variables: Mapping[str, str],
    *,
    seconds: float = COMMAND_SECONDS,
) -> AsyncIterator[list[Tool]]:
    """The tools, for as long as the block lasts; what they left running is ended then.

    Commands run in `working_dir` with this process's environment, `variables` and their arguments. A call gives what
    its command printed, head and tail of more than 20,000 characters; it fails if the command does, or takes longer
    than `seconds`.
    """
    environment = LocalExecutionEnvironment(working_dir, policy=EnvironmentPolicy.ALL)
    if commands:
        await environment.initialize()
    try:
        yield [_make_tool(one, environment, variables, seconds) for one in commands]
    finally:
        if commands:
            await environment.cleanup()


def _make_tool(
    one: CommandTool, environment: LocalExecutionEnvironment, variables: Mapping[str, str], seconds: float
) -> Tool:
    async def run(**arguments: str) -> str:
        done = await environment.exec_command(one.command, round(seconds * 1000), env_vars={**variables, **arguments})
        printed = keep_ends(
            "\n".join(text.strip("\n") for text in (done.stdout, done.stderr) if text), _MOST_CHARACTERS
        )
        if done.timed_out:
            raise TimeoutError(f"the command took longer than {seconds:g} seconds; so far: {printed}")
        if done.exit_code != 0:
            raise RuntimeError(f"the command exited with code {done.exit_code}: {printed}")
        return printed

    return Tool(one.name, run, one.description, one.schema)
