// The list of runs, kept up to date.

import { count, element, fill } from "./dom.js";
import { formatAge, formatMoment, formatSeconds, formatUsage } from "./format.js";
import { RUN_STATES } from "./words.js";

const PAUSE = 2000;

export class RunsView {
  constructor(app) {
    Object.assign(this, { app, title: "Runs", rows: new Map() });
    this.list = element("ul", { class: "runs" });
    this.more = element("p", { class: "hint" });
    this.element = element("div", {},
      element("div", { class: "page-head" }, element("h1", {}, "Runs"),
        element("a", { class: "button primary", href: "#/new" }, "New run")),
      this.list, this.more);
  }

  async open() {
    await this.refresh();
  }

  close() {
    clearTimeout(this.timer);
    this.closed = true;
    this.app.showConnection("");
  }

  async refresh() {
    try {
      const { pipelines, total } = await this.app.connection.get("pipelines?limit=200");
      if (this.closed) return;
      this.app.showConnection("");
      this.show(pipelines);
      const left = (total ?? pipelines.length) - pipelines.length;
      this.more.textContent = left > 0 ? `${count(left, "older run")} not listed here.` : "";
      const asking = pipelines.filter((run) => run.questions).length;
      this.app.setTitle("Runs", asking);
    } catch (error) {
      if (this.closed) return;
      if (error.status !== 401) this.app.showConnection(error.status ? error.message : "Connection lost. Trying again …");
    }
    if (!this.closed) this.timer = setTimeout(() => this.refresh(), PAUSE);
  }

  show(runs) {
    if (!runs.length) {
      fill(this.list, element("li", { class: "blank" },
        element("h2", {}, "No runs yet"),
        element("p", {}, "A run carries out a pipeline: stages that a language model, a command or a person takes care of, " +
          "one after the other or side by side."),
        element("a", { class: "button", href: "#/new" }, "Try the example")));
      this.rows.clear();
      return;
    }
    this.list.querySelector(".blank")?.remove();
    const known = new Set(runs.map((run) => run.pipeline_id));
    for (const [id, row] of this.rows) {
      if (!known.has(id)) {
        row.element.remove();
        this.rows.delete(id);
      }
    }
    runs.forEach((run, at) => {
      const row = this.rows.get(run.pipeline_id) ?? this.add(run);
      const text = JSON.stringify([run, formatAge(run.started_at)]);
      if (row.text !== text) {
        row.text = text;
        fill(row.link, this.describe(run));
      }
      if (this.list.children[at] !== row.element) this.list.insertBefore(row.element, this.list.children[at] ?? null);
    });
  }

  add(run) {
    const link = element("a", { href: `#/runs/${encodeURIComponent(run.pipeline_id)}`, class: "run-row" });
    const row = { link, element: element("li", {}, link) };
    this.rows.set(run.pipeline_id, row);
    return row;
  }

  describe(run) {
    const words = RUN_STATES[run.status];
    const stage = ["running", "waiting"].includes(run.status) ? run.next_node || run.current_node : "";
    const facts = [
      formatAge(run.started_at),
      // How long it took is known once it has ended.
      stage ? `at the stage ${stage}` : formatSeconds(run.elapsed),
      formatUsage(run.usage),
      run.dry_run ? "dry run" : run.simulate ? "simulated" : "",
    ].filter(Boolean);
    return [
      element("span", { class: "mark", data: { state: words.state }, "aria-hidden": "true" }, words.mark),
      element("span", { class: "run-name" }, element("b", {}, run.label || run.name || run.pipeline_id),
        element("span", { class: "hint" }, run.failure_reason || run.goal)),
      element("span", { class: "pill", data: { state: words.state } },
        run.interrupted && !run.questions ? "interrupted" : words.name),
      element("span", { class: "hint run-facts", title: formatMoment(run.started_at) }, facts.join(" · ")),
    ];
  }
}
