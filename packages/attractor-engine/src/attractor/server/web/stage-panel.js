// One stage, looked at closely: what it was asked, what it answered, what it is doing.

import { element, fill } from "./dom.js";
import { formatBytes, formatSeconds, formatUsage } from "./format.js";
import { pathOf } from "./connection.js";
import { secondsOf } from "./run-record.js";
import { describeType, STAGE_STATES } from "./words.js";

const FILES = {
  "prompt.md": { title: "Prompt", about: "What the stage was asked.", open: true },
  "response.md": { title: "Response", about: "What it answered.", open: true },
  "tool_output.txt": { title: "Output of the command", about: "", open: true },
  "changes.diff": { title: "Changed files", about: "", open: true },
  "status.json": { title: "Reported status", about: "", open: false },
};
const ORDER = Object.keys(FILES);
const MOST_SHOWN = 200_000;
const MOST_ATTEMPTS = 20;

/** A panel about a stage. `onClose` is called when somebody closes it, `onSteer(name)` sends a message to an agent. */
export class StagePanel {
  constructor(connection, runId, { onClose, say }) {
    Object.assign(this, { connection, runId, say, stage: null });
    this.title = element("h2", { id: "stage-title", tabindex: "-1" });
    this.facts = element("dl", { class: "facts" });
    this.about = element("p", { class: "hint" });
    this.error = element("p", { class: "error", hidden: true });
    this.attempts = element("ol", { class: "attempts", "aria-label": "Attempts" });
    this.doing = element("p", { class: "doing", hidden: true });
    this.files = element("div", { class: "files" });
    this.steering = this.makeSteering();
    const close = element("button", { type: "button", class: "plain", "aria-label": "Close this panel",
      "aria-keyshortcuts": "Escape", on: { click: onClose } }, "Close");
    this.element = element("section", { class: "panel stage-panel", "aria-labelledby": "stage-title", hidden: true },
      element("div", { class: "panel-head" }, this.title, close),
      this.about, this.facts, this.error, this.attempts, this.doing, this.steering, this.files);
  }

  /** Show a stage; `node` is what the graph knows of it. */
  open(stage, node, canSteer) {
    const isOther = this.stage?.name !== stage.name;
    this.element.hidden = false;
    this.node = node ?? { label: stage.name, type: "" };
    this.title.textContent = this.node.label || stage.name;
    const type = describeType(this.node.type);
    this.about.textContent = `${type.name}. ${type.means}`;
    if (isOther) fill(this.files);
    this.update(stage, canSteer);
    this.loadFiles();
  }

  close() {
    this.element.hidden = true;
    this.stage = null;
  }

  /** Show what has become of the stage. */
  update(stage, canSteer) {
    const hasMoved = this.stage?.name === stage.name && this.shownState !== stage.state;
    this.stage = stage;
    this.shownState = stage.state;
    const { mark, name } = STAGE_STATES[stage.state];
    const usage = stage.usage ?? {};
    fill(this.facts, [
      fact("State", element("span", { class: "pill", data: { state: stage.state } }, `${mark} ${name}`.trim())),
      fact("Name in the graph", element("code", {}, stage.name)),
      stage.attempts ? fact("Attempts", String(stage.attempts)) : null,
      stage.bars.length ? fact("Time", formatSeconds(secondsOf(stage))) : null,
      usage.input_tokens || usage.output_tokens
        ? fact("Tokens", `${(usage.input_tokens ?? 0).toLocaleString("en")} in, ` +
          `${(usage.output_tokens ?? 0).toLocaleString("en")} out`) : null,
      usage.cost ? fact("Cost", formatUsage(usage).split(", ").at(-1)) : null,
    ].flat());
    this.attempts.hidden = stage.bars.length < 2;
    fill(this.attempts, stage.bars.slice(-MOST_ATTEMPTS).map((bar, at) => describeAttempt(bar, at, stage.state)));
    this.error.hidden = !stage.error;
    this.error.textContent = stage.error;
    this.doing.hidden = !stage.doing;
    this.doing.textContent = `Now: ${stage.doing}`;
    const isAgent = ["codergen", ""].includes(this.node.type);
    this.steering.hidden = !(canSteer && isAgent && ["running", "retrying"].includes(stage.state));
    if (hasMoved) this.loadFiles();
  }

  makeSteering() {
    const input = element("textarea", { rows: "2", id: "steer-text" });
    const note = element("p", { class: "hint", role: "status" });
    const submit = async (event) => {
      event.preventDefault();
      if (!input.value.trim()) return;
      try {
        await this.connection.post(pathOf(this.runId, "steer"), { text: input.value, node_id: this.stage.name });
        input.value = "";
        note.textContent = "Sent. The agent reads it before its next step.";
      } catch (error) {
        note.textContent = error.message;
      }
    };
    return element("form", { class: "steer", hidden: true, on: { submit } },
      element("label", { for: "steer-text" }, "Tell the agent what to do differently"),
      input, element("button", { type: "submit" }, "Send"), note);
  }

  async loadFiles() {
    const { name } = this.stage;
    let files = [];
    try {
      ({ files } = await this.connection.get(pathOf(this.runId, "stages", name, "files")));
    } catch {
      // A stage that has not begun has no directory yet.
    }
    if (this.stage?.name !== name) return;
    const rank = (file) => (ORDER.includes(file.name) ? ORDER.indexOf(file.name) : ORDER.length);
    files.sort((one, other) => rank(one) - rank(other) || one.name.localeCompare(other.name));
    if (!files.length) {
      fill(this.files, element("p", { class: "empty" }, this.stage.visits ? "This stage left no files." :
        "This stage has not begun. What it was asked and what it answered will be here."));
      return;
    }
    const open = new Map([...this.files.querySelectorAll("details")].map((one) => [one.dataset.name, one.open]));
    fill(this.files, files.map((file) => this.makeFile(name, file, open.get(file.name))));
  }

  makeFile(stage, file, wasOpen) {
    const known = FILES[file.name] ?? { title: file.name, about: "", open: false };
    const content = element("div", { class: "file-content" });
    const isOpen = wasOpen ?? known.open;
    const made = element("details", { data: { name: file.name }, open: isOpen },
      element("summary", {}, known.title, element("span", { class: "size" }, formatBytes(file.size))),
      content);
    const load = async () => {
      if (!made.open || made.loaded) return;
      made.loaded = true;
      try {
        fill(content, showText(file.name, await this.connection.text(pathOf(this.runId, "stages", stage, "files", file.name))));
      } catch (error) {
        fill(content, element("p", { class: "error" }, error.message));
      }
    };
    made.addEventListener("toggle", load);
    load();
    return made;
  }
}

function fact(name, value) {
  return [element("dt", {}, name), element("dd", {}, value)];
}

function describeAttempt(bar, at, now) {
  const { mark, name } = STAGE_STATES[bar.until === null ? now : bar.state];
  const state = bar.until === null ? now : bar.state;
  return element("li", {},
    element("span", { class: "mark", data: { state }, "aria-hidden": "true" }, mark),
    element("span", {}, `Attempt ${at + 1}: ${name}, ${formatSeconds(secondsOf({ bars: [bar] }))}`,
      bar.error ? element("span", { class: "hint" }, ` ${bar.error}`) : null));
}

/** A file's text: JSON laid out, a diff with its lines told apart. */
function showText(name, text) {
  const shown = text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN)}\n… (the file goes on)` : text;
  const attributes = { tabindex: "0", role: "group", "aria-label": `Content of ${name}` };
  if (/\.(diff|patch)$/.test(name)) {
    return element("pre", { ...attributes, class: "diff" }, shown.split("\n").map((line) =>
      element("span", { data: { line: /^(\+|-)/.exec(line)?.[0] ?? "" } }, `${line}\n`)));
  }
  if (name.endsWith(".json")) {
    try {
      return element("pre", attributes, JSON.stringify(JSON.parse(text), null, 2));
    } catch {
      // Not whole yet: shown as it is.
    }
  }
  return element("pre", attributes, shown || "(empty)");
}
