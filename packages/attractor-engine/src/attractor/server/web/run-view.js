// A run: what happens, what it asks, and what each stage did.

import { ActivityView } from "./activity-view.js";
import { EventFeed, pathOf } from "./connection.js";
import { element, fill } from "./dom.js";
import { formatMoment, formatSeconds, formatUsage } from "./format.js";
import { GateView } from "./gate-view.js";
import { GraphView, makeLegend } from "./graph-view.js";
import { RunRecord } from "./run-record.js";
import { StagePanel } from "./stage-panel.js";
import { TimelineView } from "./timeline-view.js";
import { RUN_STATES } from "./words.js";

const REFRESH_PAUSE = 250;
const TICK = 1000;
const REST = 1500;
// What changes more than a stage: the run's status, or what it asks.
const TELLING = new Set(["PipelineStarted", "PipelineCompleted", "PipelineFailed", "PipelineWaiting", "InterviewStarted",
  "InterviewCompleted", "InterviewTimeout", "InterviewWithdrawn", "StageCompleted", "StageFailed"]);

export class RunView {
  constructor(app, runId, stageName) {
    Object.assign(this, { app, runId, selected: stageName ?? null, run: null });
    this.record = new RunRecord();
    this.feed = new EventFeed(app.connection, runId, {
      onEvents: (events) => this.takeEvents(events),
      onState: (state, error) => this.takeState(state, error),
    });
    const onSelect = (name) => app.go(`/runs/${encodeURIComponent(runId)}/${encodeURIComponent(name)}`);
    this.graph = new GraphView({ onSelect });
    this.timeline = new TimelineView({ onSelect });
    this.activity = new ActivityView((name) => this.nameOf(name));
    this.gates = new GateView(app.connection, runId, { onAnswered: () => this.refresh(), say: (text) => app.say(text) });
    this.panel = new StagePanel(app.connection, runId, { onClose: () => this.closePanel(), say: (text) => app.say(text) });
    this.head = element("div", { class: "run-head" });
    this.note = element("div", { class: "notes" });
    this.body = element("div", { class: "run-body" },
      element("div", { class: "run-left" },
        section("Graph", "graph-section", this.graph.element, makeLegend()),
        section("Stages", "stages-section", this.timeline.element)),
      element("div", { class: "run-right" }, this.panel.element,
        section("Activity", "activity-section", this.activity.element)));
    this.element = element("div", { class: "run" }, this.head, this.note, this.gates.element, this.body);
  }

  async open() {
    await this.refresh();
    if (!this.run) return;
    this.loadGraph();
    this.feed.start();
    this.ticker = setInterval(() => this.tick(), TICK);
  }

  close() {
    this.closed = true;
    this.feed.stop();
    this.graph.close();
    clearInterval(this.ticker);
    clearTimeout(this.later);
    this.app.showConnection("");
  }

  get title() {
    return this.run ? this.run.label || this.run.name || this.runId : "Run";
  }

  /** Show another stage of the same run; null for none. */
  show(stageName) {
    const before = this.selected;
    this.selected = stageName;
    this.graph.select(stageName);
    this.timeline.select(stageName);
    if (!stageName) {
      this.panel.close();
      const from = this.graph.nodes.get(before)?.group;
      if (from) this.graph.rove(from, true);
      return;
    }
    this.panel.open(this.record.stage(stageName), this.graph.nodes.get(stageName), this.canSteer());
    this.panel.title.focus({ preventScroll: true });
    // Beside the graph there is nothing to scroll to; below it there is.
    if (this.panel.element.getBoundingClientRect().top > window.innerHeight - 120) this.panel.element.scrollIntoView();
  }

  /** Take a key that nothing else wanted; true if it meant something. */
  key(event) {
    if (event.key === "Escape" && this.selected) {
      this.closePanel();
      return true;
    }
    return this.gates.key(event);
  }

  closePanel() {
    this.app.go(`/runs/${encodeURIComponent(this.runId)}`);
  }

  canSteer() {
    return Boolean(this.run?.executed) && !this.run.simulate && !this.run.dry_run;
  }

  async refresh() {
    clearTimeout(this.later);
    this.later = null;
    try {
      this.run = await this.app.connection.get(pathOf(this.runId));
    } catch (error) {
      if (error.status === 404) this.showMissing();
      else this.schedule(REST);
      return;
    }
    if (this.closed) return;
    this.showHead();
    this.gates.show(this.run.questions);
    this.app.setTitle(this.title, this.run.questions.length);
    if (this.selected && this.panel.stage) this.panel.update(this.record.stage(this.selected), this.canSteer());
    if (this.feedEnded && this.run.executed) {
      this.feedEnded = false;
      this.feed.start();
    } else if (this.feedEnded && this.run.status !== "completed") {
      this.schedule(REST);
    }
  }

  schedule(pause) {
    this.later ??= setTimeout(() => this.refresh(), pause);
  }

  async loadGraph() {
    this.hasGraph = true;
    try {
      this.graph.show(await this.app.connection.text(pathOf(this.runId, "graph")));
      this.body.classList.toggle("wide", this.graph.isWide);
    } catch (error) {
      this.graph.note(`There is no picture: ${error.message}`);
      // Asked for again when the connection is back.
      this.hasGraph = error.status !== undefined;
    }
    for (const stage of this.record.stages.values()) this.graph.setState(stage.name, stage.state);
    this.markSkipped();
    this.timeline.addStages([...this.graph.nodes].map(([name, { label }]) => [name, label || name]));
    this.activity.rename();
    if (this.selected) this.show(this.selected);
    else this.followActive();
  }

  /** The words for a stage, as far as they are known. */
  nameOf(stageName) {
    return this.graph.nodes.get(stageName)?.label || stageName;
  }

  takeEvents(events) {
    const changed = new Set();
    const fresh = events.filter((event) => this.record.apply(event, changed));
    const isHistory = fresh.length > 0 && !this.caughtUp;
    for (const name of changed) this.showStage(name);
    this.activity.add(fresh);
    if (!isHistory) this.app.tell(fresh);
    if (fresh.some((event) => TELLING.has(event.type))) this.schedule(REFRESH_PAUSE);
    this.caughtUp = true;
    if (this.record.ending !== this.knownEnding) this.markSkipped();
    this.knownEnding = this.record.ending;
    this.timeline.rescale(this.record.now());
    this.followActive();
  }

  followActive() {
    const active = this.record.active().at(-1);
    if (active) this.graph.follow(active);
  }

  showStage(name) {
    const stage = this.record.stage(name);
    this.graph.setState(name, stage.state);
    this.timeline.update(stage, this.record.now());
    if (name === this.selected && this.panel.stage) this.panel.update(stage, this.canSteer());
  }

  /** What a run that reached its end did without was not needed. */
  markSkipped() {
    const from = this.record.ending === "completed" ? "pending" : "skipped";
    const to = this.record.ending === "completed" ? "skipped" : "pending";
    for (const [name, node] of this.graph.nodes) if (node.state === from) this.graph.setState(name, to);
  }

  takeState(state, error) {
    this.app.showConnection(state === "lost" ? "Connection lost. Trying again …" : "");
    if (state === "live" && !this.hasGraph) this.loadGraph();
    if (state === "ended") this.feedEnded = true;
    if (state === "refused") fill(this.note, element("p", { class: "error" }, error.message));
    if (state !== "refused") this.schedule(REFRESH_PAUSE);
  }

  tick() {
    if (this.record.ending !== null || !this.run?.executed) return;
    this.timeline.rescale(this.record.now());
    this.clock.textContent = formatSeconds(this.record.now());
  }

  showHead() {
    const { run } = this;
    const words = RUN_STATES[run.status];
    this.clock = element("span", {}, formatSeconds(this.record.now() || run.elapsed));
    const usage = formatUsage(run.usage);
    const kind = run.dry_run ? "Dry run: no model and no command" : run.simulate ? "Simulated: no model is asked" : "";
    const facts = [`Started ${formatMoment(run.started_at)}`, this.clock, usage, kind].filter(Boolean);
    const actions = element("div", { class: "actions" }, this.makeActions());
    const focused = document.activeElement?.dataset?.action;
    fill(this.head,
      element("div", { class: "run-title" },
        element("h1", {}, this.title),
        element("span", { class: "pill", data: { state: words.state } }, `${words.mark} ${words.name}`)),
      run.goal ? element("p", { class: "goal" }, run.goal) : null,
      element("p", { class: "hint facts-line" }, facts.map((fact) => element("span", {}, fact))),
      actions);
    if (focused) actions.querySelector(`[data-action=${focused}]`)?.focus();
    this.showNote();
  }

  makeActions() {
    const { run } = this;
    const active = run.executed && ["running", "waiting"].includes(run.status);
    return [
      active ? action("cancel", "Cancel the run", "danger", () => this.act("cancel")) : null,
      run.resumable ? action("resume", "Resume", "primary", () => this.act("resume")) : null,
      action("again", "Use as a new run", "plain", () => this.app.go(`/new/${encodeURIComponent(this.runId)}`)),
    ];
  }

  showNote() {
    const { run } = this;
    const lines = [];
    if (run.failure_reason) lines.push(element("p", { class: "error" }, element("b", {}, "Why it stopped: "), run.failure_reason));
    if (run.interrupted) {
      lines.push(element("p", { class: "warning" }, run.questions.length
        ? "The server was stopped while this run waited. Answer the question, or resume: nothing is lost."
        : "The server was stopped during this run. Resume it to go on where it was: nothing that was done is done again."));
    }
    fill(this.note, lines);
  }

  async act(name) {
    try {
      await this.app.connection.post(pathOf(this.runId, name));
    } catch (error) {
      fill(this.note, element("p", { class: "error", role: "alert" }, error.message));
      return;
    }
    await this.refresh();
  }

  showMissing() {
    fill(this.element, element("h1", {}, "There is no such run"), element("p", {}, "It may have been deleted. ",
      element("a", { href: "#/" }, "See all runs.")));
  }
}

function section(title, id, ...children) {
  return element("section", { class: "panel", id, "aria-labelledby": `${id}-title` },
    element("h2", { id: `${id}-title` }, title), ...children);
}

function action(name, text, kind, onClick) {
  return element("button", { type: "button", class: kind, data: { action: name }, on: { click: onClick } }, text);
}
