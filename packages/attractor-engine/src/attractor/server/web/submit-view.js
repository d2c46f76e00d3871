// A new run: the pipeline's source, what lint says of it, how it looks, and the button that starts it.

import { pathOf } from "./connection.js";
import { count, element, fill } from "./dom.js";
import { Editor } from "./editor.js";
import { EXAMPLE } from "./example.js";
import { GraphView } from "./graph-view.js";

// What a preview is for is the whole rather than each word.
const PREVIEW_LEAST = 0.3;
const DRAFT_KEY = "attractor-draft";
const SEVERITIES = { error: "Error", warning: "Warning", info: "Note" };
const MODES = [
  { value: "simulate", name: "Simulated", means: "No model is asked and nothing is paid. Commands run." },
  { value: "dry_run", name: "Dry run", means: "No model is asked, and no command runs." },
  { value: "", name: "For real", means: "Models are asked, and commands run on the server's machine." },
];

export class SubmitView {
  constructor(app, fromRun) {
    Object.assign(this, { app, fromRun, title: "New run", version: 0 });
    this.graph = new GraphView({
      label: "Preview of the graph", least: PREVIEW_LEAST, onSelect: (name) => this.find(name) });
    this.editor = new Editor({ onChange: (text) => this.check(text) });
    this.findings = element("ol", { class: "findings" });
    this.summary = element("p", { class: "hint", role: "status", id: "findings-title" }, "Type or paste a pipeline.");
    this.message = element("p", { class: "error", role: "alert", hidden: true });
    this.button = element("button", { type: "submit", class: "primary" }, "Start the run");
    this.stale = element("p", { class: "hint stale", hidden: true },
      "There is no picture of a source that can't be read. This one is of what could be read last.");
    this.element = element("form", { class: "submit", on: { submit: (event) => this.submit(event) } },
      element("div", { class: "page-head" }, element("h1", {}, "New run"),
        element("p", { class: "hint" },
          "A pipeline is a graph in the DOT language: each node is a stage, each arrow a way on.")),
      element("div", { class: "submit-body" }, this.makeSource(), this.makePreview()));
  }

  makeSource() {
    const load = element("input", { type: "file", accept: ".dot,.gv,text/plain", class: "visually-hidden", id: "file",
      on: { change: async (event) => (this.editor.text = await event.target.files[0].text()) } });
    const example = element("button", { type: "button", class: "plain",
      on: { click: () => (this.editor.text = EXAMPLE) } }, "Use the example");
    return element("section", { class: "panel", "aria-labelledby": "source-title" },
      element("div", { class: "panel-head" },
        element("h2", { id: "source-title" }, element("label", { for: "source" }, "Source")),
        element("div", { class: "actions" }, example, load,
          element("label", { for: "file", class: "button plain" }, "Open a file"))),
      this.editor.element, this.summary, this.findings);
  }

  makePreview() {
    const modes = MODES.map(({ value, name, means }, at) => element("label", { class: "mode" },
      element("input", { type: "radio", name: "mode", value, checked: at === 0 }),
      element("span", {}, element("b", {}, name), element("span", { class: "hint" }, means))));
    return element("div", { class: "submit-right" },
      element("section", { class: "panel", "aria-labelledby": "preview-title" },
        element("h2", { id: "preview-title" }, "Preview"), this.stale, this.graph.element),
      element("fieldset", { class: "panel modes" }, element("legend", {}, "How to run it"), modes,
        this.message, this.button));
  }

  async open() {
    let text = sessionStorage.getItem(DRAFT_KEY) ?? EXAMPLE;
    if (this.fromRun) {
      try {
        text = await this.app.connection.text(pathOf(this.fromRun, "source"));
      } catch (error) {
        this.say(error.message);
      }
    }
    this.editor.text = text;
  }

  close() {
    this.editor.close();
    this.graph.close();
  }

  async check(text) {
    sessionStorage.setItem(DRAFT_KEY, text);
    const version = ++this.version;
    try {
      const { diagnostics } = await this.app.connection.post("lint", { dot_source: text });
      if (version !== this.version) return;
      this.showFindings(diagnostics);
      this.stale.hidden = !diagnostics.some((found) => found.rule === "syntax");
      if (!this.stale.hidden) return;
      const picture = await (await this.app.connection.request("graph", { method: "POST", body: { dot_source: text } })).text();
      if (version === this.version) this.graph.show(picture);
    } catch (error) {
      if (version !== this.version) return;
      if (error.status === 501) this.graph.note(error.message);
      else this.summary.textContent = error.message;
    }
  }

  showFindings(diagnostics) {
    const errors = diagnostics.filter((found) => found.severity === "error").length;
    const others = diagnostics.length - errors;
    this.summary.textContent = diagnostics.length === 0 ? "✓ No errors." :
      [errors ? count(errors, "error") : "No errors", others ? count(others, "remark") : ""].filter(Boolean).join(", ") + ".";
    this.button.disabled = errors > 0;
    const marks = new Map();
    for (const found of [...diagnostics].reverse()) {
      if (found.line && marks.get(found.line) !== "error") marks.set(found.line, found.severity);
    }
    this.editor.mark(marks);
    fill(this.findings, diagnostics.map((found) => element("li", { data: { severity: found.severity } },
      element("button", { type: "button", class: "finding", disabled: !found.line,
        on: { click: () => this.editor.go(found.line, found.column ?? 1) } },
      element("b", {}, `${SEVERITIES[found.severity]}${found.line ? `, line ${found.line}` : ""}: `), found.message),
      found.fix ? element("span", { class: "hint" }, found.fix) : null)));
  }

  /** Put the cursor where a node is written. */
  find(name) {
    const lines = this.editor.text.split("\n");
    const written = [`${name} `, `${name}[`, `"${name}"`];
    const at = lines.findIndex((line) => line.includes("[") && written.some((form) => line.trim().startsWith(form)));
    if (at >= 0) this.editor.go(at + 1);
  }

  async submit(event) {
    event.preventDefault();
    const mode = new FormData(this.element).get("mode");
    this.button.disabled = true;
    try {
      const body = { dot_source: this.editor.text, ...(mode ? { [mode]: true } : {}) };
      const { pipeline_id: id } = await this.app.connection.post("pipelines", body);
      this.app.go(`/runs/${encodeURIComponent(id)}`);
    } catch (error) {
      this.say(error.message);
      if (error.problem?.diagnostics) this.showFindings(error.problem.diagnostics);
    }
    this.button.disabled = false;
  }

  say(text) {
    this.message.hidden = false;
    this.message.textContent = text;
  }
}
