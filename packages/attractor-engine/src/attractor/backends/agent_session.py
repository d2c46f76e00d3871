"""A stage's session at work, with what happens beside it: its activity is told, hooks run after its tool calls."""

import anyio
from agent_loop import Session, SubmitResult

from attractor.backends.agent_activity import SessionWatch
from attractor.backends.tool_hooks import ToolHooks


async def work(session: Session, prompt: str, hooks: ToolHooks | None, watch: SessionWatch) -> SubmitResult:
    """Submit the prompt and close the session. Returns when the last hook has run; raises what the session does."""
    results: list[SubmitResult] = []
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        if hooks is not None:
            tasks.start_soon(hooks.follow, session, tasks)
        async with anyio.create_task_group() as until_done:
            until_done.start_soon(watch.follow, session)
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
