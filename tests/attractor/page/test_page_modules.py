"""Modules of the page by themselves, in the browser that they are made for."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attractor
import pytest
from playwright.sync_api import Page, expect

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]

USAGE = {"input_tokens": 3, "output_tokens": 4}
EVENTS: list[dict[str, Any]] = [
    {"type": "PipelineStarted", "name": "g", "id": "r"},
    {"type": "StageStarted", "name": "a", "index": 0},
    {"type": "StageFailed", "name": "a", "index": 0, "error": "no", "will_retry": True},
    {"type": "StageRetrying", "name": "a", "index": 0, "attempt": 2, "delay": 1},
    {"type": "StageActivity", "name": "a", "index": 0, "activity": "text", "text": "hello"},
    {
        "type": "StageCompleted",
        "name": "a",
        "index": 0,
        "duration": 3,
        "usage": {"input_tokens": 3, "output_tokens": 4},
    },
    {"type": "StageStarted", "name": "ask", "index": 1},
    {"type": "InterviewStarted", "question": "Well?", "stage": "ask", "qid": "q"},
    {"type": "InterviewCompleted", "question": "Well?", "answer": "yes", "duration": 1, "qid": "q"},
]
STATES = [None, "running", "retrying", "retrying", "running", "succeeded", "running", "waiting", "running"]


@pytest.fixture
def page(server: Any, open_page: Callable[..., Page]) -> Page:
    return open_page(server)


def test_a_stream_is_read_however_it_is_cut(page: Page) -> None:
    stream = (
        ": hello\nretry: 2000\n\nid: 1\nevent: A\ndata: {\r\ndata: }\r\n\r\nid: 2\ndata:x\n\n: bye\n\nevent: no\n\n"
    )
    wanted = [{"id": "1", "event": "A", "data": "{\n}"}, {"id": "2", "event": "", "data": "x"}]
    seen = page.evaluate(
        """async (stream) => {
          const { EventParser } = await import("/static/connection.js");
          const found = [];
          for (let size = 1; size <= stream.length; size += 1) {
            const parser = new EventParser();
            const events = [];
            for (let at = 0; at < stream.length; at += size) events.push(...parser.push(stream.slice(at, at + size)));
            found.push(JSON.stringify(events));
          }
          return [...new Set(found)];
        }""",
        stream,
    )
    assert [json.loads(one) for one in seen] == [wanted]


def test_events_become_states_and_count_once(page: Page) -> None:
    events = [{**event, "sequence": at, "time": 1000.0 + at} for at, event in enumerate(EVENTS, 1)]
    seen = page.evaluate(
        """async (events) => {
          const { RunRecord, secondsOf } = await import("/static/run-record.js");
          const record = new RunRecord();
          const states = [];
          for (const event of events) {
            const changed = new Set();
            record.apply(event, changed);
            const again = record.apply(event, changed);
            const name = [...changed][0];
            states.push(again ? "twice" : name ? record.stage(name).state : null);
          }
          const { attempts, bars, usage } = record.stage("a");
          return { states, attempts, bars: bars.map((bar) => bar.state), usage, seconds: secondsOf(record.stage("a")),
            active: record.active() };
        }""",
        events,
    )
    assert seen == {
        "states": STATES,
        "attempts": 2,
        "bars": ["failed", "succeeded"],
        "usage": USAGE,
        "seconds": 2,
        "active": ["ask"],
    }


def test_waiting_for_a_person_does_not_hide_the_work(page: Page) -> None:
    events = [{**event, "sequence": at, "time": 1000.0 + at} for at, event in enumerate(EVENTS, 1)]
    events[-1]["time"] += 7200
    seen = page.evaluate(
        """async (events) => {
          const { RunRecord, secondsOf } = await import("/static/run-record.js");
          const record = new RunRecord();
          for (const event of events) record.apply(event);
          return [record.elapsed, secondsOf(record.stage("ask"), events.at(-1).time)];
        }""",
        events,
    )
    assert seen[0] < 20
    assert seen[1] > 7200


def test_an_agent_is_steered_and_its_changes_are_shown(page: Page) -> None:
    page.evaluate(
        """async () => {
          const { StagePanel } = await import("/static/stage-panel.js");
          const files = [{ name: "changes.diff", size: 20 }, { name: "prompt.md", size: 2 }];
          window.sent = [];
          const connection = {
            get: async () => ({ files }),
            text: async (path) => path.endsWith("diff") ? "@@ -1 +1 @@\\n-old <i>\\n+new" : "Do it",
            post: async (path, body) => window.sent.push([path, body]),
          };
          const panel = new StagePanel(connection, "r", { onClose: () => {}, say: () => {} });
          document.querySelector("main").replaceChildren(panel.element);
          const bars = [{ begun: 0, ended: null, from: 0, until: null, state: "running", error: "" }];
          const stage = { name: "s", state: "running", bars, attempts: 1, visits: 1, error: "", doing: "shell ls",
            usage: { input_tokens: 1200, output_tokens: 34, cost: 0.0123 } };
          panel.open(stage, { label: "Stage", type: "codergen" }, true);
        }"""
    )
    panel = page.locator(".stage-panel")
    expect(panel.locator("summary").first).to_contain_text("Prompt")
    expect(panel.locator(".diff [data-line='-']")).to_have_text("-old <i>\n")
    expect(panel).to_contain_text("Now: shell ls")
    expect(panel).to_contain_text("1,200 in, 34 out")
    expect(panel).to_contain_text("$0.0123")
    panel.get_by_label("Tell the agent what to do differently").fill("Use fewer words")
    panel.get_by_role("button", name="Send").click()
    expect(panel).to_contain_text("Sent.")
    assert page.evaluate("window.sent") == [["pipelines/r/steer", {"text": "Use fewer words", "node_id": "s"}]]


def test_a_key_is_for_the_question_that_has_the_focus(page: Page) -> None:
    page.evaluate(
        """async () => {
          const { GateView } = await import("/static/gate-view.js");
          window.sent = [];
          const connection = { post: async (path, { value }) => window.sent.push([path.split("/")[3], value]) };
          const gates = new GateView(connection, "r", { onAnswered: () => {}, say: () => {} });
          const options = [{ key: "Y", label: "[Y] Yes" }, { key: "N", label: "N) No" }];
          const ask = (qid) => ({ qid, text: qid, stage: "s", type: "multiple_choice", options, deadline: null });
          gates.show([ask("first"), ask("second")]);
          document.querySelector("main").replaceChildren(gates.element);
          document.addEventListener("keydown", (event) => gates.key(event));
        }"""
    )
    expect(page.get_by_role("heading", level=2)).to_have_text("2 answers needed")
    assert page.locator(".choice").all_inner_texts() == ["Y\nYes", "N\nNo"] * 2
    page.keyboard.press("y")
    page.locator(".gate").nth(1).focus()
    page.keyboard.press("n")
    expect(page.locator(".gate-message").nth(1)).to_contain_text("Answered")
    assert page.evaluate("window.sent") == [["second", "N"]]


WEB = Path(attractor.__file__).parent / "server/web"
FILES = sorted(path.name for path in WEB.iterdir())


@pytest.mark.parametrize("name", FILES)
def test_the_page_brings_all_that_it_needs(name: str) -> None:
    """Nothing comes from the network, nothing is built, and each file can be read in one sitting."""
    text = (WEB / name).read_text(encoding="utf-8")
    assert len(text.splitlines()) < 400
    assert set(re.findall(r"https?://[\w./]+", text)) <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text)
    for other in re.findall(r'from "\./([\w.-]+)"', text):
        assert other in FILES


def test_the_page_has_nothing_inline() -> None:
    page = (WEB / "index.html").read_text(encoding="utf-8")
    assert re.findall(r"<script[^>]*>", page) == ['<script type="module" src="static/app.js">']
    assert not re.search(r"<style|style=|\son\w+=", page)
