"""The session: what a host holds, asks, steers and ends (section 2)."""

import uuid
from collections.abc import AsyncGenerator, Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

import anyio
from unified_llm import (
    Client,
    ContextLengthError,
    RequestTimeoutError,
    RetryPolicy,
    SDKError,
    Usage,
    get_default_client,
)

from agent_loop.approvals import Approver, HostAnswer
from agent_loop.clock import Clock, utc_now
from agent_loop.config import SessionConfig, SessionState, StopReason, SubmitResult
from agent_loop.environments.base import ExecutionEnvironment
from agent_loop.errors import SessionError
from agent_loop.events import EventEmitter, EventKind, SessionEvent
from agent_loop.history import AssistantTurn, Turn, UserTurn
from agent_loop.inheritance import inherit_config, inherit_environment, inherit_profile
from agent_loop.loop import process_inputs
from agent_loop.profiles.base import ProviderProfile
from agent_loop.session_record import SessionRecord
from agent_loop.subagents import SpawnRequest, SubAgents
from agent_loop.system_prompt import take_git_snapshot

if TYPE_CHECKING:
    from agent_loop.personalization import PersonalMemory

_CLEANUP_SECONDS = 10.0


class Session(SessionRecord):
    """One conversation with a model that works through tools.

    Use it in `async with`, or call `close()`: that ends every process that the session started. It is one task's to
    submit to at a time; `steer`, `follow_up`, `abort` and `events` may be used from other tasks of the same event loop.
    The environment and the client stay the caller's: the session only initializes the former and cleans it up.
    """

    def __init__(
        self,
        profile: ProviderProfile,
        environment: ExecutionEnvironment,
        *,
        client: Client | None = None,
        config: SessionConfig | None = None,
        history: Sequence[Turn] = (),
        retry_policy: RetryPolicy | None = None,
        clock: Clock = utc_now,
        approvers: Sequence[Approver] = (),
        ask_host: HostAnswer | None = None,
        listen: Callable[[], str] | None = None,
        personalization: "PersonalMemory | None" = None,
    ) -> None:
        """`client` defaults to unified_llm's default client. `history` continues an earlier conversation, whose turns
        count. `approvers` decide on every tool call, those of subagents too, or leave it to `ask_host`.
        `listen` is called before each request to the model for what else to steer it with; "" is nothing.
        `personalization` tells the model how the person works, and may take the conversation in at the end.
        """
        identity = str(uuid.uuid4())
        super().__init__(
            id=identity,
            provider_profile=profile,
            execution_env=environment,
            llm_client=client if client is not None else get_default_client(),
            event_emitter=EventEmitter(identity, clock=clock),
            config=config if config is not None else SessionConfig(),
            history=list(history),
            retry_policy=retry_policy if retry_policy is not None else RetryPolicy(),
            clock=clock,
            subagents=SubAgents(self._make_child, lambda message: self.emit(EventKind.WARNING, message=message)),
            approvers=approvers,
            ask_host=ask_host,
            listen=listen,
            personalization=personalization,
            turn_count=sum(isinstance(turn, AssistantTurn) for turn in history),
        )
        self._scope: anyio.CancelScope | None = None
        self._finished = anyio.Event()
        self._releasing, self._closing = anyio.Lock(), anyio.Lock()
        self._initialized = self._started = self._ending = False
        self.emit(EventKind.SESSION_START, profile=profile.id, model=profile.model)

    @property
    def total_usage(self) -> Usage:
        """Tokens of all model calls so far, those of subagents included; `usage` has the session's own alone."""
        return self.usage + self.subagents.usage

    async def submit(self, user_input: str) -> SubmitResult:
        """Process an input to its end, follow-ups included.

        Errors of the model call are returned, not raised. After one that can pass (retries used up, no answer in time,
        the context window overflown) the session is IDLE and takes further inputs; after any other it is CLOSED. Raises
        SessionError if the session is closed or busy, or the input blank. Cancelling ends what runs; then it is IDLE.
        """
        self._require_open()
        _require_words(user_input)
        if self._scope is not None:
            raise SessionError("the session is still processing an input; wait for it, or use steer() or follow_up()")
        self._finished = anyio.Event()
        self.state = SessionState.PROCESSING
        stop_reason, error, fatal = StopReason.ABORTED, None, False
        try:
            async with self.subagents:
                with anyio.CancelScope() as self._scope:
                    await self._start()
                    stop_reason = await process_inputs(self, user_input)
        except Exception as raised:
            stop_reason, error, fatal = StopReason.ERROR, raised, _report_error(self, raised)
        finally:
            self._scope = None
            # From here on nobody gets in, although ending takes its time.
            self._ending = self._ending or fatal
            self._end_processing(stop_reason)
            try:
                if self._ending:
                    await self._end()
            finally:
                self._finished.set()
        return SubmitResult(text=_last_text(self.history), stop_reason=stop_reason, error=error)

    def steer(self, message: str) -> None:
        """Say something to the model after the tool round in progress; when idle, with the next input."""
        self._require_open()
        _require_words(message)
        self.steering_queue.append(message)

    def follow_up(self, message: str) -> None:
        """Queue an input for when the present one, or else the next, is done."""
        self._require_open()
        _require_words(message)
        self.followup_queue.append(message)

    def events(self) -> AsyncGenerator[SessionEvent, None]:
        """Every event from SESSION_START to SESSION_END, past and future. See EventEmitter.events."""
        return self.event_emitter.events()

    async def abort(self) -> None:
        """Stop at once: cancel the model call, kill what runs, and close. Returns when all of it is done."""
        self.abort_signaled = self._ending = True
        if self._scope is None:
            await self._end()
            return
        self._scope.cancel()
        # Subagents and background processes are ended while the cancelled commands are, not after them.
        async with anyio.create_task_group() as ending:
            ending.start_soon(self.subagents.close_all)
            ending.start_soon(self._release)
        await self._finished.wait()

    async def close(self) -> None:
        """End the session; an input in progress is aborted. Does nothing the second time."""
        await self.abort()

    async def __aenter__(self) -> Self:
        self._require_open()
        await self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def _make_child(self, request: SpawnRequest) -> "Session":
        profile = inherit_profile(self, request)
        child = Session(
            profile,
            await inherit_environment(self, request),
            client=self.llm_client,
            config=inherit_config(self, request),
            retry_policy=self.retry_policy,
            clock=self.clock,
            approvers=self.approvers,
            ask_host=self.ask_host,
        )
        child.depth = self.depth + 1
        return child

    def _require_open(self) -> None:
        if self._ending or self.state is SessionState.CLOSED:
            raise SessionError("the session is closed")

    async def _start(self) -> None:
        if self._started:
            return
        if not self._initialized:
            await self.execution_env.initialize()
            self._initialized = True
        self.git = await take_git_snapshot(self.execution_env)
        self.today = self.clock().date().isoformat()
        await self.recall()
        self._started = True

    def _end_processing(self, stop_reason: StopReason) -> None:
        if self.state is SessionState.PROCESSING:
            self.state = SessionState.IDLE
        self.emit(
            EventKind.PROCESSING_END, state=self.state.value, stop_reason=stop_reason.value, usage=self.total_usage
        )

    async def _end(self) -> None:
        """Close, once. Whoever comes second waits until that is done."""
        with anyio.CancelScope(shield=True):
            await self._closing.acquire()
        try:
            if self.state is SessionState.CLOSED:
                return
            with anyio.CancelScope(shield=True):
                await self.subagents.close_all()
            await self._release()
            self.state = SessionState.CLOSED
            try:
                await self.remember()
            finally:
                self.emit(EventKind.SESSION_END, state=self.state.value)
        finally:
            self._closing.release()

    async def _release(self) -> None:
        """Give up the environment, once. Whoever comes second waits until that is done."""
        with anyio.CancelScope(shield=True):
            async with self._releasing:
                if not self._initialized:
                    return
                self._initialized = False
                try:
                    with anyio.fail_after(_CLEANUP_SECONDS):
                        await self.execution_env.cleanup()
                except Exception as error:
                    self.emit(EventKind.WARNING, message=f"Cleaning up the environment failed: {error}")


def _report_error(session: Session, error: Exception) -> bool:
    """Emit what happened. Returns whether the session can't go on."""
    if isinstance(error, ContextLengthError):
        session.emit(EventKind.WARNING, message=f"The conversation no longer fits the context window: {error}")
        return False
    session.emit(EventKind.ERROR, message=str(error), error=type(error).__name__)
    # Time that ran out is not tried again by itself, for it would take as long again; the host may well do so.
    return not (isinstance(error, RequestTimeoutError) or (isinstance(error, SDKError) and error.retryable))


def _require_words(text: str) -> None:
    if not text.strip():
        raise SessionError("the message is empty; no provider takes one without words")


def _last_text(history: Sequence[Turn]) -> str:
    """The model's last answer to the last input, if it got as far as that."""
    for turn in reversed(history):
        if isinstance(turn, AssistantTurn):
            return turn.content
        if isinstance(turn, UserTurn):
            break
    return ""
