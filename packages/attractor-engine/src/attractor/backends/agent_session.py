"""A stage's session at work, with what happens beside it: instructions that reach it, hooks after its tool calls."""

import anyio
from agent_loop import Session, SessionState, SubmitResult

from attractor.backends.agent_activity import SessionWatch
from attractor.backends.tool_hooks import ToolHooks
from attractor.state.steering import SteeringReader

STEERING_SECONDS = 0.2
"""How often a stage at work looks whether somebody has written to its steering.md."""


async def work(
    session: Session, prompt: str, steering: SteeringReader | None, hooks: ToolHooks | None, watch: SessionWatch
) -> SubmitResult:
    """Submit the prompt and close the session. Returns when the last hook has run; raises what the session does."""
    results: list[SubmitResult] = []
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        if hooks is not None:
            tasks.start_soon(hooks.follow, session, tasks)
        async with anyio.create_task_group() as until_done:
            until_done.start_soon(watch.follow, session)
            if steering is not None:
                until_done.start_soon(_pass_on, session, steering)
            try:
                async with session:
                    results.append(await session.submit(prompt))
            except Exception as error:
                # Kept from the task groups, which would wrap it.
                failure = error
                with anyio.CancelScope(shield=True):
                    await session.close()
            until_done.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return results[0]


async def _pass_on(session: Session, steering: SteeringReader) -> None:
    while True:
        await anyio.sleep(STEERING_SECONDS)
        text = steering.read()
        if text.strip() and session.state is SessionState.PROCESSING:
            session.steer(text)
