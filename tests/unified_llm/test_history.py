"""What is repaired in a history before it is sent again."""

from hypothesis import given
from hypothesis import strategies as st
from unified_llm.provider_utils.history import MISSING_RESULT, repair_history
from unified_llm.spec.messages import ContentKind, ContentPart, Message, Role, ToolCallData


def calling(*ids, text=None):
    parts = [] if text is None else [ContentPart(kind=ContentKind.TEXT, text=text)]
    parts += [ContentPart(kind=ContentKind.TOOL_CALL, tool_call=ToolCallData(id=call_id, name="f")) for call_id in ids]
    return Message.assistant(parts)


def outline(messages):
    """Role, and the ids of results with a ! for errors, calls, or texts."""
    lines = []
    for message in messages:
        items = []
        for part in message.content:
            if part.tool_result is not None:
                items.append(part.tool_result.tool_call_id + "!" * part.tool_result.is_error)
            else:
                items.append(part.tool_call.id if part.tool_call is not None else part.text)
        lines.append((str(message.role), *items))
    return lines


def test_a_sound_history_is_left_alone():
    messages = [
        Message.system("s"),
        Message.user("u"),
        calling("a", "b", text="let me see"),
        Message.tool_result("b", "2"),
        Message.tool_result("a", "1"),
        Message.assistant("done"),
    ]
    repaired, warnings = repair_history(messages)
    assert all(new is old for new, old in zip(repaired, messages, strict=True))
    assert warnings == []


def test_calls_without_a_result_get_an_error():
    repaired, warnings = repair_history(
        [Message.user("u"), calling("a", "b", "c"), Message.tool_result("b", "2"), Message.user("go on"), calling("d")]
    )
    assert outline(repaired) == [
        ("user", "u"),
        ("assistant", "a", "b", "c"),
        ("tool", "b"),
        ("tool", "a!"),
        ("tool", "c!"),
        ("user", "go on"),
        ("assistant", "d"),
        ("tool", "d!"),
    ]
    assert repaired[3].content[0].tool_result.content == MISSING_RESULT
    assert [warning.code for warning in warnings] == ["missing_tool_result"] * 3


def test_a_result_may_come_after_another_message():
    messages = [calling("a"), Message.user("by the way"), Message.tool_result("a", "1")]
    assert repair_history(messages) == (messages, [])


def test_results_without_a_call_are_dropped():
    repaired, warnings = repair_history(
        [Message.tool_result("x", "early"), calling("a"), Message.tool_result("a", "1"), Message.tool_result("a", "2")]
    )
    assert outline(repaired) == [("assistant", "a"), ("tool", "a")]
    assert [warning.code for warning in warnings] == ["orphan_tool_result"] * 2


def test_blank_text_and_empty_messages_are_dropped():
    signed = ContentPart(kind=ContentKind.TEXT, text="", provider_metadata={"gemini": {"thoughtSignature": "s"}})
    repaired, warnings = repair_history(
        [
            Message.user(""),
            Message.user(" \n"),
            Message.assistant([]),
            calling("a", text=" "),
            Message.assistant([signed]),
        ]
    )
    assert outline(repaired) == [("assistant", "a"), ("tool", "a!"), ("assistant", "")]
    assert sorted({warning.code for warning in warnings}) == ["empty_message", "empty_text", "missing_tool_result"]


def test_a_tool_message_of_text_answers_its_call():
    message = Message(role=Role.TOOL, content="sunny", tool_call_id="a")
    repaired, warnings = repair_history([calling("a"), message])
    assert repaired[1].content[0].tool_result.content == "sunny"
    assert warnings == []


ids = st.sampled_from("abc")
messages = st.lists(
    st.one_of(
        st.lists(ids, max_size=3, unique=True).map(lambda found: calling(*found)),
        ids.map(lambda found: Message.tool_result(found, "x")),
        st.sampled_from(["", "text"]).map(Message.user),
    ),
    max_size=10,
)


@given(messages)
def test_every_call_is_answered_once_before_the_next_answer(history):
    repaired, _ = repair_history(history)
    opened = []
    for message in repaired:
        assert message.content
        if message.role is Role.ASSISTANT:
            assert not opened
        for part in message.content:
            if part.tool_call is not None:
                opened.append(part.tool_call.id)
            if part.tool_result is not None:
                opened.remove(part.tool_result.tool_call_id)
    assert not opened
    assert repair_history(repaired) == (repaired, [])
