// The stages as a list, each with bars for when it was worked on. Says in words what the graph says in a picture.

import { count, element } from "./dom.js";
import { formatSeconds } from "./format.js";
import { secondsOf } from "./run-record.js";
import { STAGE_STATES } from "./words.js";

/** Rows for the stages of a run. `onSelect` gets the name of one that somebody chose. */
export class TimelineView {
  constructor({ onSelect }) {
    this.onSelect = onSelect;
    this.rows = new Map();
    this.list = element("ol", { class: "timeline" });
    this.waiting = element("ol", { class: "timeline" });
    this.summary = element("summary", {});
    this.more = element("details", { class: "pending", hidden: true }, this.summary, this.waiting);
    this.scale = element("div", { class: "timeline-scale", "aria-hidden": "true" });
    this.empty = element("p", { class: "empty" }, "No stage has begun yet.");
    this.element = element("div", {}, this.scale, this.list, this.empty, this.more);
  }

  /** List stages that have not begun, with the words that they are known by. */
  addStages(labels) {
    for (const [name, label] of labels) this.row(name).title.textContent = label;
    this.count();
  }

  /** Show a stage as it is now; `total` is how many seconds the timeline covers. */
  update(stage, total) {
    const row = this.row(stage.name);
    const { mark, name } = STAGE_STATES[stage.state];
    row.mark.dataset.state = stage.state;
    row.mark.textContent = mark;
    row.state.textContent = `, ${name}`;
    row.stage = stage;
    if (stage.bars.length && !row.begun) {
      row.begun = true;
      this.list.append(row.element);
      this.count();
    }
    this.draw(row, total);
  }

  /** Draw all bars to a new scale. */
  rescale(total) {
    this.scale.replaceChildren(...[0, 0.25, 0.5, 0.75, 1].map((part) => {
      const tick = element("span", {}, formatSeconds(total * part));
      tick.style.left = `${part * 100}%`;
      return tick;
    }));
    for (const row of this.rows.values()) if (row.begun) this.draw(row, total);
  }

  select(name) {
    for (const [other, row] of this.rows) {
      if (other === name) row.button.setAttribute("aria-current", "true");
      else row.button.removeAttribute("aria-current");
    }
  }

  count() {
    const pending = [...this.rows.values()].filter((row) => !row.begun).length;
    this.more.hidden = pending === 0;
    this.empty.hidden = pending !== this.rows.size;
    this.summary.textContent = `${count(pending, "stage")} not begun`;
  }

  row(name) {
    const known = this.rows.get(name);
    if (known) return known;
    const row = {
      begun: false,
      bars: [],
      mark: element("span", { class: "mark", "aria-hidden": "true", data: { state: "pending" } }),
      state: element("span", { class: "visually-hidden" }, `, ${STAGE_STATES.pending.name}`),
      track: element("span", { class: "track", "aria-hidden": "true" }),
      time: element("span", { class: "time" }),
    };
    row.title = element("span", { class: "name", title: name }, name);
    row.button = element("button", { type: "button", class: "timeline-row", on: { click: () => this.onSelect(name) } },
      row.mark, row.title, row.state, row.track, row.time);
    row.element = element("li", {}, row.button);
    this.rows.set(name, row);
    this.waiting.append(row.element);
    return row;
  }

  draw(row, total) {
    row.stage.bars.forEach((bar, at) => {
      const ended = bar.ended ?? Math.max(total, bar.begun);
      if (!row.bars[at]) {
        row.bars[at] = element("span", { class: "bar" });
        row.track.append(row.bars[at]);
      }
      const drawn = row.bars[at];
      drawn.dataset.state = bar.ended === null ? row.stage.state : bar.state;
      drawn.style.left = `${(100 * bar.begun) / (total || 1)}%`;
      drawn.style.width = `${(100 * (ended - bar.begun)) / (total || 1)}%`;
    });
    const tries = row.stage.bars.length > 1 ? `${row.stage.bars.length} × ` : "";
    row.time.textContent = `${tries}${formatSeconds(secondsOf(row.stage))}`;
  }
}
