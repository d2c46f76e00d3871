"""A conversation saved as JSON Lines, and gone on with in another process."""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest
from agent_loop import (
    AssistantTurn,
    LocalExecutionEnvironment,
    SavedHistoryError,
    Session,
    SessionConfig,
    SteeringTurn,
    StopReason,
    SystemTurn,
    ToolResultsTurn,
    Turn,
    UserTurn,
    create_anthropic_profile,
    dump_history,
    dump_turn,
    load_history,
)
from hypothesis import given
from hypothesis import strategies as st
from unified_llm import (
    Client,
    ContentKind,
    ContentPart,
    ThinkingData,
    ToolCall,
    ToolCallData,
    ToolResultData,
    Usage,
)
from unified_llm.testing import ScriptedAdapter, respond

NOW = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
OBJECTS = st.dictionaries(st.text(max_size=4), JSON, max_size=3)
TEXT = st.text(max_size=12)


def turns() -> st.SearchStrategy[Turn]:
    spoken = st.builds(lambda kind, text: kind(text, NOW), st.sampled_from([UserTurn, SystemTurn, SteeringTurn]), TEXT)
    results = st.builds(
        lambda content, image: ToolResultsTurn(
            (
                ToolResultData(
                    tool_call_id="c", content=content, is_error=True, image_data=image, image_media_type="image/png"
                ),
            ),
            NOW,
        ),
        TEXT | OBJECTS,
        st.none() | st.binary(max_size=8),
    )
    return spoken | results | st.builds(assistant, TEXT, OBJECTS, OBJECTS)


def assistant(text: str, arguments: dict[str, object], opaque: dict[str, object]) -> AssistantTurn:
    parts = (
        ContentPart(
            kind=ContentKind.THINKING, thinking=ThinkingData(text=text, signature="s"), provider_metadata={"p": opaque}
        ),
        ContentPart(kind=ContentKind.TEXT, text=text),
        ContentPart(kind=ContentKind.TOOL_CALL, tool_call=ToolCallData(id="c", name="f", arguments=arguments)),
        ContentPart(kind=ContentKind.TOOL_CALL, tool_call=ToolCallData(id="d", name="f", arguments="{broken")),
    )
    return AssistantTurn(
        content=text,
        tool_calls=(ToolCall(id="c", name="f", arguments=arguments), ToolCall(id="d", name="f", parse_error="broken")),
        reasoning=None,
        usage=Usage(input_tokens=3, output_tokens=4, total_tokens=7, raw=opaque),
        response_id="r",
        timestamp=NOW,
        parts=parts,
    )


@given(st.lists(turns(), max_size=5))
def test_turns_come_back_as_they_were(history: list[Turn]) -> None:
    text = dump_history(history)
    assert load_history(text) == history
    assert text == "".join(f"{dump_turn(turn)}\n" for turn in history)
    assert len(text.splitlines()) == len(history)


def test_undecodable_bytes_in_a_result_survive() -> None:
    history: list[Turn] = [UserTurn("stray \udce9 and \u2028", NOW)]
    assert load_history(dump_history(history)) == history


RESUME = """
import sys
import anyio
from agent_loop import LocalExecutionEnvironment, Session, create_anthropic_profile, load_history
from unified_llm import Client
from unified_llm.testing import ScriptedAdapter


async def main():
    adapter = ScriptedAdapter("I remember.")
    history = load_history(open("history.jsonl", encoding="utf-8").read())
    client = Client({"anthropic": adapter})
    session = Session(create_anthropic_profile("m"), LocalExecutionEnvironment("."), client=client, history=history)
    async with session:
        await session.submit("what was it?")
    for message in adapter.requests[0].messages[1:]:
        print(message.model_dump_json())


anyio.run(main)
"""


async def test_a_new_process_goes_on_with_tool_results_intact(tmp_path: Path) -> None:
    (tmp_path / "dot.png").write_bytes(b"\x89PNG pretend")
    adapter = ScriptedAdapter(
        respond(
            tool_calls=[("shell", {"command": "echo kept"}), ("read_file", {"file_path": "dot.png"})], reasoning="hm"
        ),
        "Done.",
        "I remember.",
    )
    client = Client({"anthropic": adapter})
    async with Session(create_anthropic_profile("m"), LocalExecutionEnvironment(tmp_path), client=client) as session:
        await session.submit("go")
        (tmp_path / "history.jsonl").write_text(dump_history(session.history), encoding="utf-8")
        await session.submit("what was it?")
    done = await anyio.run_process([sys.executable, "-c", RESUME], cwd=tmp_path)
    assert done.stdout.decode().splitlines() == [
        message.model_dump_json() for message in adapter.requests[2].messages[1:]
    ]
    assert b"kept" in done.stdout


async def test_turns_of_the_past_count(tmp_path: Path) -> None:
    history = [UserTurn("go", NOW), assistant("ok", {}, {})]
    client = Client({"anthropic": ScriptedAdapter()})
    async with Session(
        create_anthropic_profile("m"),
        LocalExecutionEnvironment(tmp_path),
        client=client,
        history=history,
        config=SessionConfig(max_turns=1),
    ) as session:
        assert (await session.submit("on")).stop_reason is StopReason.TURN_LIMIT


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        "null",
        "[" * 100_000,
        '{"turn": "user"}',
        '{"turn": "steering", "timestamp": "2026-01-02", "content": null}',
        '{"turn": "dream", "timestamp": "2026-01-02"}',
        '{"turn": "user", "timestamp": "yesterday", "content": ""}',
        '{"turn": "tool_results", "timestamp": "2026-01-02", "results": [{}]}',
    ],
    ids=range(9),
)
def test_what_is_no_turn_is_named_by_its_line(line: str) -> None:
    good = dump_turn(UserTurn("x", NOW))
    with pytest.raises(SavedHistoryError, match="line 2 of the saved history"):
        load_history(f"{good}\n{line}\n{good}\n")


def test_lines_are_json_that_says_what_it_is() -> None:
    kinds = [
        json.loads(dump_turn(turn))["turn"] for turn in (UserTurn("", NOW), SystemTurn("", NOW), SteeringTurn("", NOW))
    ]
    assert kinds == ["user", "system", "steering"]
