"""What docs/tutorial.md tells, done: from `attractor init` to a human gate that is answered in the browser."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]


def test_the_tutorial(own_server: Callable[..., Any], open_page: Callable[..., Page], tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "attractor", "init", tmp_path / "haiku"], check=True, capture_output=True)
    server = own_server("--simulate")
    page = open_page(server, "/")
    page.get_by_role("link", name="Try the example").click()
    page.set_input_files("#file", tmp_path / "haiku/pipeline.dot")
    expect(page.locator('[data-node="review"]')).to_be_visible()
    page.get_by_role("button", name="Start the run").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Starter")
    expect(page.locator(".gate h3")).to_have_text("Keep this?")
    page.locator('[data-node="draft"]').click()
    expect(page.locator("[data-name='prompt.md'] pre")).to_contain_text("Write a haiku about the sea")
    expect(page.locator("[data-name='response.md'] pre")).to_contain_text("Simulated")
    page.keyboard.press("Escape")
    page.keyboard.press("k")
    expect(page.locator(".run-title .pill")).to_contain_text("completed")
    assert "Simulated" in (tmp_path / "work/haiku.txt").read_text()


def test_the_memory_is_shown(own_server: Callable[..., Any], open_page: Callable[..., Page], tmp_path: Path) -> None:
    seeds = tmp_path / "seeds.json"
    seeds.write_text(json.dumps([{"label": "Planning <b>", "keywords": ["plans"]}, {"label": "Debugging"}]))
    memory = tmp_path / "memory.json"
    command = [sys.executable, "-m", "attractor", "memory", "seed", seeds, "--memory", memory]
    subprocess.run(command, check=True, capture_output=True)
    server = own_server("--simulate", "--memory", str(memory), token="open-sesame")
    page = open_page(server, "/?token=open-sesame")
    page.get_by_role("link", name="Memory").click()
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button", name="Show the memory").click()
    expect(page.get_by_role("alert")).to_contain_text("token is missing or wrong")
    page.get_by_label("Token").fill("open-sesame")
    page.get_by_role("button", name="Show the memory").click()
    expect(page.locator(".basin h2")).to_have_text(["Planning <b>", "Debugging"])
    expect(page.locator(".basin-bar").first).to_have_attribute("aria-label", "Weight 50 percent")
    assert page.locator(".basin b").count() == 0
