"""Takes pictures of the page in headless Chromium, to be looked at: python tests/bench/page_screenshots.py FOLDER.

Desktop and phone, light and dark; a run at work, one that asks, one that failed. docs/images has two of them.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = ["--no-sandbox", "--disable-background-networking", "--disable-gpu", "--disable-quic", "--no-first-run"]
DESKTOP = {"width": 1360, "height": 900}
PHONE = {"width": 360, "height": 740}
RELEASE = """
digraph Release {
    graph [label="Release notes", goal="Write the notes of version 2.4 and publish them once somebody has read them"]
    rankdir=LR
    start   [shape=Mdiamond, label="Start"]
    done    [shape=Msquare, label="Done"]
    collect [shape=parallelogram, label="Collect commits", tool_command="sleep 0.8; echo 42 commits since v2.3"]
    subgraph cluster_write {
        label="Writing"
        outline [label="Outline", prompt="Group the commits by what they mean to users.\\n\\nGoal: $goal"]
        draft   [label="Write the notes", prompt="Write the release notes from the outline.\\n\\nGoal: $goal"]
        links   [shape=parallelogram, label="Check links", max_retries=2,
                 tool_command="sleep 0.7; test -e again || { touch again; echo 404 https://example.org >&2; exit 1; }"]
    }
    passed  [shape=diamond, label="Links fine?"]
    review  [shape=hexagon, label="Shall these notes be published?"]
    publish [shape=parallelogram, label="Publish", tool_command="sleep 0.5; echo published"]
    start -> collect -> outline -> draft -> links -> passed
    passed -> review [label="yes", condition="outcome=success"]
    passed -> draft [label="no", condition="outcome!=success"]
    review -> publish [label="[P] Publish"]
    review -> draft [label="[R] Rewrite"]
    review -> done [label="[D] Drop them"]
    publish -> done
}
"""
FAILING = """
digraph Build {
    graph [label="Nightly build", goal="Build and test the nightly"]
    start [shape=Mdiamond]; done [shape=Msquare]
    fetch [shape=parallelogram, label="Fetch", tool_command="echo fetched"]
    build [shape=parallelogram, label="Build", tool_command="sleep 0.3; echo 'error: no header zlib.h' >&2; exit 2"]
    test  [shape=parallelogram, label="Test", tool_command="true"]
    start -> fetch -> build -> test -> done
}
"""
WORKING = """
digraph Work {
    graph [label="Try every port", goal="Find out on which ports the service answers"]
    start [shape=Mdiamond]; done [shape=Msquare]
    plan [prompt="Plan"]; fan [shape=component, label="Side by side"]; join [shape=tripleoctagon, label="Compare"]
    a [shape=parallelogram, label="Port 80", tool_command="sleep 0.4"]
    b [shape=parallelogram, label="Port 443", tool_command="sleep 60"]
    c [shape=parallelogram, label="Port 8080", tool_command="sleep 60"]
    start -> plan -> fan; fan -> a -> join; fan -> b -> join; fan -> c -> join; join -> done
}
"""


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "attractor", "serve", "--port", "0", "--simulate", "--logs", str(folder / "runs")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=folder) as process:
        assert process.stderr
        line = process.stderr.readline()
        try:
            yield next(word for word in line.split() if word.startswith("http"))
        finally:
            process.terminate()


def submit(page: Page, source: str) -> str:
    answer = page.request.post("/pipelines", data={"dot_source": source, "simulate": True})
    return str(answer.json()["pipeline_id"])


def wait_for(page: Page, run_id: str, *statuses: str) -> None:
    while page.request.get(f"/pipelines/{run_id}").json()["status"] not in statuses:
        time.sleep(0.1)


def take(browser: Browser, base: str, folder: Path, runs: dict[str, str]) -> None:
    for device, size in (("desktop", DESKTOP), ("phone", PHONE)):
        for theme in ("light", "dark"):
            page = browser.new_page(viewport=size, color_scheme=theme, base_url=base)  # type: ignore[arg-type]
            for name, path in runs.items():
                page.goto("about:blank")
                page.goto(path)
                page.wait_for_timeout(900)
                page.screenshot(path=folder / f"{name}-{device}-{theme}.png", full_page=device == "phone")
            page.close()


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work, serving(Path(work)) as base, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = browser.new_page(base_url=base, viewport=DESKTOP)  # type: ignore[arg-type]
        page.goto("/#/")
        page.wait_for_timeout(600)
        page.screenshot(path=folder / "empty-desktop-light.png")
        release, failing, working = (submit(page, source) for source in (RELEASE, FAILING, WORKING))
        wait_for(page, release, "waiting")
        wait_for(page, failing, "failed")
        page.close()
        runs = {
            "runs": "/#/",
            "gate": f"/#/runs/{release}",
            "stage": f"/#/runs/{release}/links",
            "failed": f"/#/runs/{failing}/build",
            "working": f"/#/runs/{working}",
            "new": "/#/new",
        }
        take(browser, base, folder, runs)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
