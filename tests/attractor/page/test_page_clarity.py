"""What the page shows is what is so: no old clock, no picture of another source, nothing out of sight."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]

HELD = """
digraph Held {
    graph [goal="Hold on"]
    start [shape=Mdiamond]; done [shape=Msquare]
    hold [shape=parallelogram, tool_command="until test -e NAME; do sleep 0.05; done"]
    start -> hold -> done
}
"""
LONG = """
digraph Long {
    rankdir=LR
    start [shape=Mdiamond]; done [shape=Msquare]
    one [label="The first of three"]; two [label="The second of three"]; three [label="The third of three"]
    start -> one -> two -> three -> done [label="and further"]
}
"""


def test_the_time_of_a_run_at_work_is_that_of_now(
    server: Any, open_page: Callable[..., Page], submit: Callable[..., str], tmp_path: Path
) -> None:
    release = tmp_path / "released"
    run = submit(server, HELD.replace("NAME", str(release)))
    page = open_page(server)
    # Another clock, and none that ticks: the head is drawn when something is heard of the run.
    page.add_init_script("const now = Date.now; Date.now = () => now() + 90_000; window.setInterval = () => 0")
    page.goto("about:blank")
    page.goto(f"/#/runs/{run}")
    expect(page.locator("[data-node=hold]")).to_have_attribute("data-state", "running")
    expect(page.locator(".facts-line")).to_contain_text("1 min")
    other = open_page(server)
    row = other.locator(".run-row", has_text="Held").first
    expect(row).to_contain_text("at the stage hold")
    expect(row).not_to_contain_text(re.compile(r"\d s\b"))
    release.touch()
    expect(page.locator(".run-title .pill")).to_contain_text("completed")
    expect(row).to_contain_text(re.compile(r"\d s\b"))


def test_a_source_that_can_not_be_read_has_no_picture(server: Any, open_page: Callable[..., Page]) -> None:
    page = open_page(server, "/#/new")
    editor = page.get_by_role("textbox", name="Source")
    editor.fill(LONG)
    expect(page.locator("[data-node=three]")).to_be_visible()
    expect(page.locator(".stale")).to_be_hidden()
    editor.fill(LONG.replace("->", "--"))
    expect(page.locator(".stale")).to_contain_text("what could be read last")
    editor.fill(LONG)
    expect(page.locator(".stale")).to_be_hidden()


def test_a_preview_shows_the_whole(server: Any, open_page: Callable[..., Page]) -> None:
    page = open_page(server, "/#/new")
    page.get_by_role("textbox", name="Source").fill(LONG)
    done = page.locator("[data-node=done]")
    expect(done).to_be_visible()
    expect(page.locator("[data-node]")).to_have_count(5)
    expect(done).to_be_in_viewport(ratio=1)
    box, pane = done.bounding_box(), page.locator(".graph-pane").bounding_box()
    assert box
    assert pane
    assert box["x"] + box["width"] <= pane["x"] + pane["width"]


def test_what_is_shown_of_a_graph_leaves_no_room_empty(server: Any, open_page: Callable[..., Page]) -> None:
    """A node near the picture's end is brought into sight at the edge, with as much as fits beside it."""
    seen = open_page(server).evaluate(
        """async () => {
          const { Viewport } = await import("/static/viewport.js");
          const pane = document.createElement("div");
          pane.style.cssText = "width: 300px; height: 200px; overflow: hidden";
          const picture = document.createElement("div");
          pane.append(picture);
          document.querySelector("main").append(pane);
          const view = new Viewport(pane, picture, 1000, 100);
          Object.assign(view, { scale: 1, x: 16 });
          const places = [];
          for (const x of [940, 500, 0]) {
            view.reveal({ x, y: 0, width: 60, height: 60 });
            places.push(view.x);
          }
          return places;
        }"""
    )
    assert seen == [300 - 16 - 1000, 150 - 530, 16]


def test_help_begins_at_its_beginning(server: Any, open_page: Callable[..., Page]) -> None:
    page = open_page(server, viewport={"width": 390, "height": 600})
    expect(page.get_by_role("button", name="Theme: auto")).to_have_text("Theme: auto")
    page.get_by_role("button", name="Help").click()
    expect(page.get_by_role("heading", name="What am I looking at?")).to_be_in_viewport()
    page.get_by_role("button", name="Close").click()
    expect(page.get_by_role("dialog")).to_be_hidden()
