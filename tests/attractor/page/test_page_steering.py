"""An agent at work is told from the page what to do differently, and its model reads it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]

SOURCE = """
digraph Work {
    start [shape=Mdiamond]; done [shape=Msquare]; write [label="Write", prompt="Write a poem"]
    start -> write -> done
}
"""
ADVICE = 'Use fewer words, please: "short" <b>and</b> sweet'


def test_the_model_is_told(
    own_server: Callable[..., Any],
    open_page: Callable[..., Page],
    chat_server: Any,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    release = tmp_path / "released"
    # The agent is at work until somebody makes the file.
    chat_server.calls = [("shell", {"command": f"until test -e '{release}'; do sleep 0.05; done; echo released"})]
    monkeypatch.setenv("OPENAI_COMPATIBLE_BASE_URL", chat_server.url)
    server = own_server("--provider", "openai_compatible", "--model", "scripted")
    page = open_page(server, "/#/new")
    page.get_by_role("textbox", name="Source").fill(SOURCE)
    page.get_by_role("radio", name="For real").check()
    page.get_by_role("button", name="Start the run").click()
    page.locator("[data-node=write][data-state=running]").click()
    panel = page.locator(".stage-panel")
    expect(panel).to_contain_text("Now: shell")
    assert ADVICE not in str(chat_server.requests[0]["messages"])
    panel.get_by_label("Tell the agent what to do differently").fill(ADVICE)
    panel.get_by_role("button", name="Send").click()
    expect(panel).to_contain_text("Sent.")
    release.touch()
    expect(page.locator(".run-title .pill")).to_contain_text("completed")
    _, request = chat_server.requests
    told = [message for message in request["messages"] if message["role"] == "user"][-1]
    assert ADVICE in told["content"]
    answer = next(message for message in request["messages"] if message["role"] == "tool")
    assert "released" in answer["content"]
    expect(panel.get_by_label("Tell the agent what to do differently")).to_be_hidden()
