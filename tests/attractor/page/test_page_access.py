"""The page for everybody: by keyboard alone, on a phone, by ear, in light and dark; and for nobody's scripts."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]

GATE = """
digraph Gate {
    graph [label="A gate", goal="Ask somebody", rankdir=LR]
    start [shape=Mdiamond, label="Start"]; done [shape=Msquare, label="Done"]
    work [shape=parallelogram, label="Work", max_retries=1, tool_command="test -e NAME || { touch NAME; exit 1; }"]
    gate [shape=hexagon, label="Go on?"]
    start -> work -> gate
    gate -> done [label="[Y] Yes"]
    gate -> work [label="[N] No"]
}
"""
BROKEN = """
digraph Broken {
    start [shape=Mdiamond]; done [shape=Msquare]; bad [shape=parallelogram, tool_command="echo no >&2; exit 1"]
    start -> bad -> done
}
"""
ATTACK = "<img src=x onerror=alert(1)><script>alert(2)</script>"
HOSTILE = f"""
digraph Hostile {{
    graph [label="{ATTACK}", goal="{ATTACK}"]
    start [shape=Mdiamond]; done [shape=Msquare]
    subgraph cluster_x {{ label="{ATTACK}"; work [label="{ATTACK}", prompt="{ATTACK}"] }}
    tool [shape=parallelogram, label="Tool", tool_command="echo '{ATTACK}'"]
    gate [shape=hexagon, label="{ATTACK}"]
    start -> work -> tool -> gate
    gate -> done [label="[Y] {ATTACK}"]
    gate -> work [label="[N] No"]
}}
"""
PHONE = {"width": 360, "height": 740}
# Nothing but the colours is different in the dark.
RULES: dict[str, Any] = {"light": {}, "dark": {"runOnly": ["color-contrast"]}}
VIEWS = ["runs", "gate", "stage", "failed", "new", "help"]


@pytest.fixture(scope="module")
def runs(server: Any, chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A run that waits and one that failed, by name."""
    context = chromium.new_context(base_url=server.url)
    flag = tmp_path_factory.mktemp("flag") / "seen"
    ids = {}
    for name, source in (("gate", GATE.replace("NAME", str(flag))), ("failed", BROKEN)):
        answer = context.request.post("/pipelines", data={"dot_source": source, "simulate": True})
        ids[name] = answer.json()["pipeline_id"]
    context.close()
    return ids


def go_to(page: Page, view: str, runs: dict[str, str]) -> None:
    """Open a view, and wait until it shows what it has to show."""
    match view:
        case "runs":
            page.goto("/#/")
            expect(page.locator(".run-row").first).to_be_visible()
        case "gate":
            page.goto(f"/#/runs/{runs['gate']}")
            expect(page.locator(".gate")).to_be_visible()
            expect(page.locator("[data-node=gate]")).to_have_attribute("data-state", "waiting")
        case "stage":
            page.goto(f"/#/runs/{runs['gate']}/work")
            expect(page.locator(".stage-panel pre").first).to_be_visible()
        case "failed":
            page.goto(f"/#/runs/{runs['failed']}/bad")
            expect(page.locator(".notes .error")).to_be_visible()
            expect(page.locator(".stage-panel pre").first).to_be_visible()
        case "new":
            page.goto("/#/new")
            page.get_by_role("textbox", name="Source").fill(BROKEN.replace("->", "--", 1))
            expect(page.locator(".findings li").first).to_be_visible()
        case "help":
            page.goto("/#/")
            page.get_by_role("button", name="Help").click()
            expect(page.get_by_role("dialog")).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_no_barrier(server: Any, open_page: Callable[..., Page], runs: dict[str, str], theme: str) -> None:
    page = open_page(server, color_scheme=theme, reduced_motion="reduce")
    axe = Axe()
    found = {}
    for view in VIEWS:
        page.goto("about:blank")
        go_to(page, view, runs)
        violations = axe.run(page, options=RULES[theme]).response["violations"]
        found[view] = [(one["id"], [node["html"][:200] for node in one["nodes"]]) for one in violations]
    assert {view: violations for view, violations in found.items() if violations} == {}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_no_barrier_on_the_way_in(
    own_server: Callable[..., Any], open_page: Callable[..., Page], tmp_path: Path, theme: str
) -> None:
    """The login page of the server, the form that comes when a session has ended, and the memory with its own."""
    seeds = tmp_path / "seeds.json"
    seeds.write_text(json.dumps([{"label": "Planning", "keywords": ["plans"]}, {"label": "Debugging"}]))
    command = [sys.executable, "-m", "attractor", "memory", "seed", seeds, "--memory", tmp_path / "memory.json"]
    subprocess.run(command, check=True, capture_output=True)
    server = own_server("--simulate", "--memory", str(tmp_path / "memory.json"), token="open-sesame")
    page = open_page(server, "/", color_scheme=theme, reduced_motion="reduce", viewport=PHONE)
    page.get_by_label("Token of this server").fill("wrong")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_contain_text("not the server's token")
    check(page, theme)
    page.get_by_label("Token of this server").fill("open-sesame")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.get_by_role("link", name="Memory").click()
    expect(page.get_by_label("Token")).to_be_visible()
    check(page, theme)
    page.get_by_label("Token").fill("open-sesame")
    page.get_by_role("button", name="Show the memory").click()
    expect(page.locator(".basin h2").first).to_be_visible()
    check(page, theme)
    page.context.clear_cookies()
    page.evaluate("location.hash = '#/'")
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    check(page, theme)


def check(page: Page, theme: str) -> None:
    violations = Axe().run(page, options=RULES[theme]).response["violations"]
    assert [(one["id"], [node["html"][:200] for node in one["nodes"]]) for one in violations] == []
    widths = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert widths == [PHONE["width"], PHONE["width"]]


def test_axe_sees_a_barrier(server: Any, open_page: Callable[..., Page], runs: dict[str, str]) -> None:
    page = open_page(server)
    go_to(page, "runs", runs)
    page.evaluate("document.querySelector('#main').append(document.createElement('button'))")
    assert [one["id"] for one in Axe().run(page).response["violations"]] == ["button-name"]


def test_a_phone_needs_no_scrolling_sideways(server: Any, open_page: Callable[..., Page], runs: dict[str, str]) -> None:
    page = open_page(server, viewport=PHONE, has_touch=True)
    for view in VIEWS:
        page.goto("about:blank")
        go_to(page, view, runs)
        widths = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert widths == [PHONE["width"], PHONE["width"]], view
    page.goto("about:blank")
    go_to(page, "gate", runs)
    panels = page.locator(".panel").all()
    assert [panel.bounding_box()["width"] for panel in panels if panel.is_visible()] == [332] * 3  # type: ignore[index]
    for button in page.locator(".choice").all():
        box = button.bounding_box()
        assert box
        assert box["height"] >= 40


def press_until(page: Page, condition: str, key: str = "Tab", limit: int = 60) -> None:
    """Press a key until an expression about the element with the focus, `it`, is true."""
    for _ in range(limit):
        page.keyboard.press(key)
        if page.evaluate(f"(() => {{ const it = document.activeElement; return Boolean({condition}); }})()"):
            return
    pytest.fail(f"{key} never led to {condition}")


def test_the_keyboard_alone_is_enough(server: Any, open_page: Callable[..., Page], tmp_path: Any) -> None:
    page = open_page(server)
    page.keyboard.press("Tab")
    expect(page.locator(".skip-link")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    press_until(page, "it.textContent === 'New run'")
    page.keyboard.press("Enter")
    press_until(page, "it.id === 'source'")
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(GATE.replace("NAME", str(tmp_path / "seen")))
    expect(page.get_by_role("button", name="Start the run")).to_be_enabled()
    press_until(page, "it.textContent === 'Start the run'")
    page.keyboard.press("Enter")
    expect(page.locator(".gate")).to_be_visible()
    press_until(page, "it.dataset.node === 'start'")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.dataset.node") == "work"
    page.keyboard.press("End")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.locator("#stage-title")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator(".stage-panel")).to_be_hidden()
    assert page.evaluate("document.activeElement.dataset.node") == "work"
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.keyboard.press("y")
    expect(page.locator(".run-title .pill")).to_contain_text("completed")


def test_the_focus_is_seen(server: Any, open_page: Callable[..., Page], runs: dict[str, str]) -> None:
    page = open_page(server)
    go_to(page, "gate", runs)
    unseen = []
    for _ in range(25):
        page.keyboard.press("Tab")
        seen = page.evaluate(
            """(() => { const it = document.activeElement; const style = getComputedStyle(it);
            const outline = it.querySelector?.(':scope > .outline');
            return it === document.body || style.outlineStyle !== 'none'
              || (outline && getComputedStyle(outline).strokeWidth === '4px'); })()"""
        )
        if not seen:
            unseen.append(page.evaluate("document.activeElement.outerHTML.slice(0, 120)"))
    assert unseen == []


def test_changes_are_said_aloud(server: Any, open_page: Callable[..., Page], tmp_path: Any) -> None:
    page = open_page(server, "/#/new")
    page.get_by_role("textbox", name="Source").fill(GATE.replace("NAME", str(tmp_path / "seen")))
    page.get_by_role("button", name="Start the run").click()
    page.locator(".choice", has_text="Yes").click()
    expect(page.locator("#announcer")).to_contain_text("The run is complete")
    assert page.locator("#announcer").get_attribute("aria-live") == "polite"
    stages = page.locator("#stages-section .timeline-row").all_inner_texts()
    assert any(re.search(r"Work[\s\S]*done", text) for text in stages)


def test_text_of_others_is_only_text(server: Any, open_page: Callable[..., Page], submit: Callable[..., str]) -> None:
    page = open_page(server)
    run = submit(server, HOSTILE)
    for path in ("/#/", f"/#/runs/{run}", f"/#/runs/{run}/work", f"/#/runs/{run}/tool", f"/#/new/{run}"):
        page.goto("about:blank")
        page.goto(path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        if "runs/" in path:
            expect(page.locator(".gate h3")).to_have_text(ATTACK)
            expect(page.locator("[data-node=gate]")).to_have_attribute("data-state", "waiting")
        if path.endswith(("work", "tool")):
            expect(page.locator(".stage-panel pre").first).to_contain_text("<script>alert(2)</script>")
        assert page.locator("main script, main img, main foreignObject").count() == 0
        assert page.locator("script").count() == 1
    # The fixture fails the test if a dialog opened.


EVIL_SVG = """<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 10 10"
 onload="alert(1)"><script>alert(2)</script><foreignObject><body xmlns="http://www.w3.org/1999/xhtml"
 onload="alert(3)"><img src="x" onerror="alert(4)"/></body></foreignObject><g data-node="a" onclick="alert(5)"
 style="background:url(http://elsewhere.example/)"><a xlink:href="javascript:alert(6)"><text>a</text></a>
 <use href="http://elsewhere.example/#x"/><image href="http://elsewhere.example/"/><animate attributeName="x"/>
 <path d="M0 0" fill="url(http://elsewhere.example/)" class="outline"/><text>kept</text></g></svg>"""


def test_a_picture_brings_nothing_else_along(server: Any, open_page: Callable[..., Page]) -> None:
    page = open_page(server)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    kept = page.evaluate(
        """async text => {
          const { readPicture } = await import("/static/picture.js");
          const picture = readPicture(text);
          document.querySelector("main").append(picture);
          return picture.outerHTML;
        }""",
        EVIL_SVG,
    )
    assert not re.search(r"script|foreign|onload|onclick|onerror|href|style|elsewhere|animate|<image|<use|<a[ >]", kept)
    assert "kept" in kept
    assert not [url for url in asked if "elsewhere" in url]


@pytest.fixture
def large_run(own_server: Callable[..., Any], submit: Callable[..., str], tmp_path: Any) -> tuple[Any, str]:
    """A run of 500 stages that waits near its end."""
    server = own_server("--simulate")
    lines = ["digraph Large {", "start [shape=Mdiamond]; done [shape=Msquare]; gate [shape=hexagon, label=Wait]"]
    lines += [f'n{at} [label="Stage {at}", prompt="p"];' for at in range(497)]
    lines += [f"n{at} -> n{at + 1}" for at in range(496)]
    # Some ways back, so that the layout isn't a mere line.
    lines += [f'n{at} -> n{at - 7} [condition="outcome=fail"]' for at in range(10, 490, 10)]
    lines += ["start -> n0; n496 -> gate; gate -> done [label=Go] }"]
    return server, submit(server, "\n".join(lines))


def test_a_graph_of_500_nodes_can_be_used(open_page: Callable[..., Page], large_run: tuple[Any, str]) -> None:
    server, run = large_run
    page = open_page(server, f"/#/runs/{run}")
    expect(page.locator("[data-node]")).to_have_count(500)
    expect(page.locator("[data-node=gate]")).to_have_attribute("data-state", "waiting")
    expect(page.locator("[data-node][data-state=succeeded]")).to_have_count(498)
    page.locator("[data-node=n250]").press("Enter")
    expect(page.locator("#stage-title")).to_have_text("Stage 250")
    page.keyboard.press("Escape")
    page.locator(".choice", has_text="Go").click()
    expect(page.locator(".run-title .pill")).to_contain_text("completed")
    expect(page.locator("[data-node][data-state=succeeded]")).to_have_count(500)
