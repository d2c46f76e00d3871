"""The page as people use it: submit, watch, answer, reload, come back after the server was killed."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]

GATE = """
digraph Gate {
    graph [goal="Ask before it goes out"]
    rankdir=LR
    start [shape=Mdiamond, label="Start"]
    done  [shape=Msquare, label="Done"]
    write [label="Write it", prompt="Write about $goal"]
    gate  [shape=hexagon, label="Ship it?"]
    ship  [shape=parallelogram, label="Ship", tool_command="echo shipped"]
    start -> write -> gate
    gate -> ship [label="[S] Ship it"]
    gate -> write [label="[A] Again"]
    ship -> done
}
"""
# Goes on once somebody makes the file: no test waits for a time to pass.
HELD = """
digraph Held {
    start [shape=Mdiamond]; done [shape=Msquare]
    hold [shape=parallelogram, label="Hold", tool_command="until test -e NAME; do sleep 0.05; done; echo released"]
    start -> hold -> done
}
"""
FLAKY = """
digraph Flaky {
    start [shape=Mdiamond]; done [shape=Msquare]
    try [shape=parallelogram, label="Try", max_retries=2,
         tool_command="test -e NAME || { touch NAME; echo first >&2; exit 3; }; echo second"]
    later [shape=parallelogram, label="Later", tool_command="echo never >&2; exit 4"]
    start -> try -> later -> done
}
"""


def run_path(run_id: str, stage: str = "") -> str:
    return f"/#/runs/{run_id}{'/' + stage if stage else ''}"


def node(page: Page, name: str) -> Any:
    return page.locator(f'[data-node="{name}"]')


def choice(page: Page, name: str) -> Any:
    return page.locator(".gate").get_by_role("button", name=name)


def expect_state(page: Page, name: str, state: str) -> None:
    expect(node(page, name)).to_have_attribute("data-state", state)


def expect_status(page: Page, text: str) -> None:
    expect(page.locator(".run-title .pill")).to_contain_text(text)


def events_told(page: Page) -> list[str]:
    return page.locator(".activity li").all_inner_texts()


def test_submit_watch_and_answer_with_a_button(server: Any, open_page: Callable[..., Page]) -> None:
    page = open_page(server)
    page.get_by_role("link", name="New run").first.click()
    page.get_by_role("textbox", name="Source").fill(GATE)
    expect(page.locator("#findings-title")).to_contain_text(re.compile("no errors", re.IGNORECASE))
    expect(node(page, "gate")).to_be_visible()
    page.get_by_role("button", name="Start the run").click()
    expect_status(page, "waiting for you")
    expect_state(page, "write", "succeeded")
    expect_state(page, "gate", "waiting")
    expect_state(page, "ship", "pending")
    expect(page).to_have_title(re.compile(r"^\(1\) Gate"))
    choice(page, "Ship it").click()
    expect_status(page, "completed")
    for name in ("start", "write", "gate", "ship", "done"):
        expect_state(page, name, "succeeded")
    expect(page.locator(".gates")).to_be_hidden()
    expect(page.locator(".activity")).to_contain_text("Answered: [S] Ship it")


def test_an_accelerator_key_answers(server: Any, open_page: Callable[..., Page], submit: Callable[..., str]) -> None:
    page = open_page(server, run_path(submit(server, GATE)))
    expect_status(page, "waiting for you")
    expect(choice(page, "Again")).to_have_attribute("aria-keyshortcuts", "A")
    page.keyboard.press("a")
    expect(page.locator(".activity li", has_text="Ship it? asks")).to_have_count(2)
    expect(choice(page, "Ship it")).to_be_enabled()
    page.keyboard.press("s")
    expect_status(page, "completed")


def test_a_second_answer_is_told(server: Any, open_page: Callable[..., Page], submit: Callable[..., str]) -> None:
    run = submit(server, GATE)
    first, second = open_page(server, run_path(run)), open_page(server, run_path(run))
    for page in (first, second):
        expect_status(page, "waiting for you")
    # The second window has not heard of the first one's answer yet.
    second.route(re.compile(r"/pipelines/[^/]+$"), lambda route: route.abort())
    second.route(re.compile("/answer$"), lambda route: route.fulfill(status=409, json={"detail": "answered already"}))
    choice(first, "Ship it").click()
    expect_status(first, "completed")
    choice(second, "Ship it").click()
    expect(second.locator(".gate-message")).to_contain_text("answered already")


@pytest.mark.parametrize(
    ("attributes", "answers", "kept"),
    [
        ('human.type="freeform"', ["fill"], "A text of mine"),
        ('human.type="yes_no"', ["Yes"], ""),
        ('human.type="confirmation"', ["Confirm"], ""),
        ('human.type="freeform", human.questions="Your name?\\nYour town?"', ["fill", "fill"], "A text of mine"),
    ],
    ids=["freeform", "yes-no", "confirmation", "several"],
)
def test_other_questions(
    server: Any,
    open_page: Callable[..., Page],
    submit: Callable[..., str],
    attributes: str,
    answers: list[str],
    kept: str,
) -> None:
    source = (
        "digraph G { start [shape=Mdiamond]; done [shape=Msquare];"
        f' ask [shape=hexagon, label="Well?", {attributes}]; start -> ask; ask -> done [label="Yes"] }}'
    )
    run = submit(server, source)
    page = open_page(server, run_path(run))
    expect(page.locator(".gate")).to_have_count(len(answers))
    for answer in answers:
        card = page.locator(".gate").first
        question = card.locator("h3").inner_text()
        if answer == "fill":
            card.get_by_label("Your answer").fill("A text of mine")
            card.get_by_role("button", name="Send").click()
        else:
            card.get_by_role("button", name=answer).click()
        expect(page.locator(".gate h3", has_text=question)).to_have_count(0)
    expect_status(page, "completed")
    assert kept in page.request.get(f"/pipelines/{run}/context").text()


def test_reload_in_the_middle(
    server: Any, open_page: Callable[..., Page], submit: Callable[..., str], tmp_path: Any
) -> None:
    release = tmp_path / "released"
    page = open_page(server, run_path(submit(server, HELD.replace("NAME", str(release)))))
    expect_state(page, "hold", "running")
    before = events_told(page)
    page.reload()
    expect_state(page, "start", "succeeded")
    expect_state(page, "hold", "running")
    assert events_told(page) == before
    release.touch()
    expect_status(page, "completed")
    expect(page.locator(".activity")).to_contain_text("The run is complete")
    told = events_told(page)
    assert sum("Hold is done" in line for line in told) == 1
    assert len([line for line in told if "began" in line and "Hold" in line]) == 1


def test_restart_of_the_server_in_the_middle(
    own_server: Callable[..., Any], open_page: Callable[..., Page], submit: Callable[..., str]
) -> None:
    server = own_server("--simulate")
    page = open_page(server, run_path(submit(server, GATE)))
    expect_status(page, "waiting for you")
    server.kill()
    expect(page.locator("#connection")).to_contain_text("Connection lost")
    server.start()
    expect(page.locator("#connection")).to_be_hidden()
    expect(page.locator(".notes")).to_contain_text("nothing is lost")
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    choice(page, "Ship it").click()
    expect_status(page, "completed")
    expect(page.locator(".activity")).to_contain_text("The run is complete")
    told = events_told(page)
    assert sum("Write it is done" in line for line in told) == 1
    assert sum("The run is complete" in line for line in told) == 1


def test_an_interrupted_run_is_resumed(
    own_server: Callable[..., Any], open_page: Callable[..., Page], submit: Callable[..., str], tmp_path: Any
) -> None:
    server = own_server("--simulate")
    release = tmp_path / "released"
    page = open_page(server, run_path(submit(server, HELD.replace("NAME", str(release)))))
    expect_state(page, "hold", "running")
    server.kill()
    server.start()
    expect_status(page, "failed")
    expect(page.locator(".notes")).to_contain_text("Resume it to go on")
    release.touch()
    page.get_by_role("button", name="Resume").click()
    expect_status(page, "completed")
    expect_state(page, "hold", "succeeded")


def test_cancel(server: Any, open_page: Callable[..., Page], submit: Callable[..., str], tmp_path: Any) -> None:
    page = open_page(server, run_path(submit(server, HELD.replace("NAME", str(tmp_path / "never")))))
    expect_state(page, "hold", "running")
    page.get_by_role("button", name="Cancel the run").click()
    expect_status(page, "cancelled")
    expect_state(page, "hold", "failed")


def test_a_stage_looked_at(
    server: Any, open_page: Callable[..., Page], submit: Callable[..., str], tmp_path: Any
) -> None:
    run = submit(server, FLAKY.replace("NAME", str(tmp_path / "tried")))
    page = open_page(server, run_path(run))
    expect_status(page, "failed")
    expect_state(page, "try", "succeeded")
    expect_state(page, "later", "failed")
    expect_state(page, "done", "pending")
    expect(page.locator(".notes")).to_contain_text("exited with code 4")
    node(page, "try").click()
    panel = page.locator(".stage-panel")
    expect(panel.get_by_role("heading", name="Try")).to_be_visible()
    expect(panel).to_contain_text("Runs a command")
    expect(panel.locator(".attempts li")).to_have_count(2)
    expect(panel.locator(".attempts li").first).to_contain_text("exited with code 3")
    expect(panel.locator("pre").first).to_have_text("second\n")
    expect(page).to_have_url(re.compile(rf"#/runs/{re.escape(run)}/try$"))
    bars = page.locator(".timeline-row", has_text="Try").locator(".bar")
    assert [bar.get_attribute("data-state") for bar in bars.all()] == ["failed", "succeeded"]
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()


def test_prompt_and_response_of_a_model_stage(
    server: Any, open_page: Callable[..., Page], submit: Callable[..., str]
) -> None:
    page = open_page(server, run_path(submit(server, GATE), "write"))
    panel = page.locator(".stage-panel")
    expect(panel.locator("[data-name='prompt.md'] pre")).to_contain_text("Write about Ask before it goes out")
    expect(panel.locator("[data-name='response.md'] pre")).to_contain_text("Simulated")


def test_the_list_of_runs_is_live(server: Any, open_page: Callable[..., Page], submit: Callable[..., str]) -> None:
    page = open_page(server)
    source = GATE.replace("digraph Gate", "digraph Listed")
    run = submit(server, source)
    row = page.locator(".run-row", has_text="Listed")
    expect(row).to_contain_text("waiting for you")
    other = open_page(server, run_path(run))
    choice(other, "Ship it").click()
    expect(row).to_contain_text("completed")
    row.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Listed")


def test_lint_points_at_lines(server: Any, open_page: Callable[..., Page]) -> None:
    page = open_page(server, "/#/new")
    editor = page.get_by_role("textbox", name="Source")
    editor.fill("digraph G {\n  start [shape=Mdiamond]\n  start -- done\n}\n")
    expect(page.locator(".findings li").first).to_contain_text("line 3")
    expect(page.locator(".line-numbers span").nth(2)).to_have_attribute("data-severity", "error")
    expect(page.get_by_role("button", name="Start the run")).to_be_disabled()
    page.locator(".finding").first.click()
    chosen = editor.evaluate("area => area.value.slice(0, area.selectionStart).split('\\n').length")
    assert chosen == 3
    editor.fill(GATE)
    expect(page.get_by_role("button", name="Start the run")).to_be_enabled()
    expect(page.locator(".line-numbers [data-severity=error]")).to_have_count(0)


def test_what_is_not_there_is_said(server: Any, open_page: Callable[..., Page]) -> None:
    page = open_page(server, "/#/runs/nothing")
    expect(page.get_by_role("heading", level=1)).to_have_text("There is no such run")


def test_the_token_is_asked_for(own_server: Callable[..., Any], open_page: Callable[..., Page]) -> None:
    server = own_server("--simulate", token="open-sesame")
    page = open_page(server, "/")
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_contain_text("not the server's token")
    page.get_by_label("Token").fill("open-sesame")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Runs")
    # A session that has ended is noticed by the page itself.
    page.context.clear_cookies()
    expect(page.get_by_role("heading", level=1)).to_have_text("Log in")
    page.get_by_label("Token").fill("open-sesame")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Runs")


def test_several_gates_at_once(server: Any, open_page: Callable[..., Page], submit: Callable[..., str]) -> None:
    source = """digraph G {
        start [shape=Mdiamond]; done [shape=Msquare]; fan [shape=component]; join [shape=tripleoctagon]
        one [shape=hexagon, label="One?"]; two [shape=hexagon, label="Two?"]
        start -> fan; fan -> one; fan -> two; join -> done
        one -> join [label="[Y] Yes"]; two -> join [label="[Y] Yes"] }"""
    page = open_page(server, run_path(submit(server, source)))
    expect(page.locator(".gates h2")).to_have_text("2 answers needed")
    for name in ("one", "two"):
        expect_state(page, name, "waiting")
    page.locator(".gate", has_text="Two?").get_by_role("button", name="Yes").click()
    expect(page.locator(".gate h3")).to_have_text(["One?"])
    page.keyboard.press("y")
    expect_status(page, "completed")
    for name in ("one", "two"):
        expect_state(page, name, "succeeded")
