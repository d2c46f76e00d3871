"""How quick the page is with a graph of 500 nodes, in headless Chromium; nothing where there is none."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from playwright.sync_api import sync_playwright

Row = tuple[str, float, str, float | None, float | None]
ARGUMENTS = ["--no-sandbox", "--disable-background-networking", "--disable-gpu", "--disable-quic", "--no-first-run"]
NODES = 500
# Some ways back, so that the layout isn't a mere line.
SOURCE = "\n".join(
    [
        "digraph Large {",
        "start [shape=Mdiamond]; exit [shape=Msquare]",
        *(f'n{at} [label="Stage {at}", prompt="p"];' for at in range(NODES)),
        *(f"n{at} -> n{at + 1}" for at in range(NODES - 1)),
        *(f'n{at} -> n{at - 7} [condition="outcome=fail"]' for at in range(10, NODES, 10)),
        f"start -> n0; n{NODES - 1} -> exit }}",
    ]
)
MEASURE = """async (source) => {
  const { GraphView } = await import("/static/graph-view.js");
  const body = JSON.stringify({ dot_source: source });
  const headers = { "content-type": "application/json" };
  const text = await (await fetch("/graph", { method: "POST", headers, body })).text();
  const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
  const timed = async (work) => {
    const begun = performance.now();
    work();
    await frame();
    await frame();
    return performance.now() - begun;
  };
  const view = new GraphView();
  document.querySelector("main").prepend(view.element);
  const shown = await timed(() => view.show(text));
  const coloured = await timed(() => {
    for (let at = 0; at < 500; at += 1) view.setState(`n${at}`, "running");
  });
  const frames = [];
  for (let at = 0; at < 20; at += 1) {
    frames.push(await timed(() => { view.viewport.pan(-3, -2); view.viewport.zoom(at % 2 ? 1.05 : 0.95); }));
  }
  return [shown, coloured, frames.sort((one, other) => one - other)[10]];
}"""


def rows() -> Iterator[Row]:
    """Milliseconds, each with the two frames that show what was done."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "attractor", "serve", "--simulate", "--port", "0", "--logs", folder]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server, sync_playwright() as playwright:
            assert server.stderr is not None
            url = server.stderr.readline().split()[2]
            browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
            try:
                page = browser.new_page()
                page.goto(url)
                shown, coloured, moved = page.evaluate(MEASURE, SOURCE)
            finally:
                browser.close()
                server.terminate()
    yield f"page: a graph of {NODES} nodes, shown", shown, "ms", None, 2000.0
    yield "page: all of them in another colour", coloured, "ms", None, 250.0
    yield "page: a step of moving and zooming it", moved, "ms", None, 250.0
