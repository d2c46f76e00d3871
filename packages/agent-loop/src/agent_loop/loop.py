"""The loop of section 2.5: ask the model, run the tools it calls, and again until it is done."""

from unified_llm import Message, Request, Response, ToolChoice

from agent_loop.config import SessionState, StopReason
from agent_loop.events import EventKind
from agent_loop.guards import CONTEXT_WARNING_SHARE, context_usage, detect_loop
from agent_loop.history import AssistantTurn, SteeringTurn, ToolResultsTurn, UserTurn
from agent_loop.model_call import call_model
from agent_loop.session_record import SessionRecord
from agent_loop.system_prompt import discover_project_docs, join_layers
from agent_loop.tool_call import cancelled_results, execute_tool_calls


async def process_inputs(session: SessionRecord, user_input: str) -> StopReason:
    """Process an input, and then the follow-ups that are queued by then. Returns why the last one ended."""
    stop_reason = await process_input(session, user_input)
    while session.followup_queue and not session.abort_signaled:
        stop_reason = await process_input(session, session.followup_queue.popleft())
    session.state = SessionState.AWAITING_INPUT if stop_reason is StopReason.AWAITING_INPUT else SessionState.IDLE
    return stop_reason


async def process_input(session: SessionRecord, user_input: str) -> StopReason:
    """Process one input. Raises what the model call raises."""
    session.state = SessionState.PROCESSING
    session.history.append(UserTurn(user_input, session.clock()))
    session.emit(EventKind.USER_INPUT, content=user_input)
    session.project_docs = await discover_project_docs(
        session.execution_env,
        session.provider_profile.project_doc_names,
        session.git.root if session.git is not None else None,
    )
    drain_steering(session)
    round_count = 0

    while True:
        if limit := find_limit(session, round_count):
            return limit

        request = build_request(session)
        check_context_usage(session)
        response = await call_model(session, request)
        record_response(session, response)

        if not response.tool_calls:
            return StopReason.AWAITING_INPUT if session.config.awaits_input(response.text) else StopReason.COMPLETED

        round_count += 1
        results = cancelled_results(response.tool_calls)
        try:
            await execute_tool_calls(session, response.tool_calls, results)
        finally:
            session.history.append(ToolResultsTurn(tuple(results), session.clock()))

        drain_steering(session)
        warn_of_loop(session)


def find_limit(session: SessionRecord, round_count: int) -> StopReason | None:
    """Whether a limit, or an abort, ends the processing here."""
    config = session.config
    if 0 < config.max_tool_rounds_per_input <= round_count:
        session.emit(EventKind.TURN_LIMIT, round=round_count)
        return StopReason.ROUND_LIMIT
    if 0 < config.max_turns <= session.turn_count:
        session.emit(EventKind.TURN_LIMIT, total_turns=session.turn_count)
        return StopReason.TURN_LIMIT
    return StopReason.ABORTED if session.abort_signaled else None


def build_request(session: SessionRecord) -> Request:
    """What the model is asked: the system prompt, the whole history, and the tools."""
    profile = session.provider_profile
    system_prompt = profile.build_system_prompt(
        session.execution_env,
        join_layers([session.project_docs, session.personal_context]),
        git=session.git,
        today=session.today,
        user_instructions=session.config.user_instructions,
    )
    tools = profile.tools()
    return Request(
        model=profile.model,
        messages=[Message.system(system_prompt), *session.history_view.update(session.history)],
        tools=tools or None,
        tool_choice=ToolChoice(mode="auto") if tools else None,
        reasoning_effort=session.config.reasoning_effort,
        provider=profile.id,
        provider_options=profile.provider_options(),
    )


def record_response(session: SessionRecord, response: Response) -> None:
    """Append the answer to the history."""
    session.history.append(AssistantTurn.from_response(response, session.clock()))
    session.turn_count += 1
    session.usage += response.usage
    for warning in response.warnings:
        session.emit(EventKind.WARNING, message=warning.message)
    session.emit(
        EventKind.ASSISTANT_TEXT_END,
        text=response.text,
        reasoning=response.reasoning,
        usage=response.usage,
        finish_reason=response.finish_reason.reason,
    )


def drain_steering(session: SessionRecord) -> None:
    """Put what the host has said in the meantime into the history."""
    if session.listen is not None and (heard := session.listen().strip()):
        session.steering_queue.append(heard)
    while session.steering_queue:
        message = session.steering_queue.popleft()
        session.history.append(SteeringTurn(message, session.clock()))
        session.emit(EventKind.STEERING_INJECTED, content=message)


def warn_of_loop(session: SessionRecord) -> None:
    """Tell the model when it goes round in circles. It is never stopped for that."""
    window = session.config.loop_detection_window
    if session.config.enable_loop_detection and window > 0 and detect_loop(session.history, window):
        warning = f"Loop detected: the last {window} tool calls follow a repeating pattern. Try a different approach."
        session.history.append(SteeringTurn(warning, session.clock()))
        session.emit(EventKind.LOOP_DETECTION, message=warning)


def check_context_usage(session: SessionRecord) -> None:
    """Warn, once each time, when the history fills four fifths of the context window (section 5.5)."""
    share = context_usage(session.history_view.characters, session.provider_profile.context_window_size)
    crossed = share > CONTEXT_WARNING_SHARE
    if crossed and not session.context_warned:
        session.emit(EventKind.WARNING, message=f"Context usage at ~{round(share * 100)}% of context window")
    session.context_warned = crossed
