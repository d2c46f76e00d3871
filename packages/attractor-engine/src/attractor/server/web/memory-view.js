// What is remembered of a person: basins of attention as bars, with how they changed.

import { count, element, fill } from "./dom.js";

export const MEMORY_PATH = "api/attractor/state";
const STABLE = 0.02;

export class MemoryView {
  constructor(app) {
    Object.assign(this, { app, title: "Memory" });
    this.content = element("div", {});
    this.element = element("div", {}, element("div", { class: "page-head" }, element("h1", {}, "Memory"),
      element("p", { class: "hint" }, "What agents are told of how you work: modes such as planning, and how much each has weighed lately.")),
    this.content);
  }

  async open() {
    const headers = this.app.memoryToken ? { Authorization: `Bearer ${this.app.memoryToken}` } : {};
    try {
      this.show(await (await this.app.connection.request(MEMORY_PATH, { headers })).json());
    } catch (error) {
      if (error.status === 401) this.askForToken(headers.Authorization ? error.message : "");
      else this.say(error.status === 404 ? "There is nothing in the memory yet: attractor memory seed begins it." : error.message);
    }
  }

  say(text) {
    fill(this.content, element("p", { class: "blank" }, text));
  }

  /** The memory is let out only for the token itself, not for the cookie. This page forgets it when it is closed. */
  askForToken(message) {
    const input = element("input", { type: "password", id: "memory-token", required: true, autocomplete: "off" });
    const submit = (event) => {
      event.preventDefault();
      this.app.memoryToken = input.value;
      this.open();
    };
    fill(this.content, element("form", { class: "panel login", on: { submit } },
      element("h2", {}, "The memory asks for the token again"),
      element("label", { for: "memory-token" }, "Token of the server"), input,
      element("button", { type: "submit", class: "primary" }, "Show the memory"),
      element("p", { class: "error", role: "alert" }, message)));
    input.focus();
  }

  close() {}

  show(state) {
    const basins = [...state.basins].sort((one, other) => other.weight - one.weight);
    const labels = new Map(basins.map((basin) => [basin.id, basin.label]));
    fill(this.content,
      element("ul", { class: "basins" }, basins.map((basin) => describe(basin, labels))),
      state.emerging?.length
        ? element("p", {}, element("b", {}, "Coming up: "), state.emerging.join("; ")) : null,
      element("p", { class: "hint" }, `${count(state.update_count ?? 0, "update")} so far.`));
  }
}

function describe(basin, labels) {
  const bar = element("span", { class: "basin-fill" });
  bar.style.width = `${Math.round(basin.weight * 100)}%`;
  const trend = trendOf(basin.trajectory);
  const connected = basin.connections.map((id) => labels.get(id)).filter(Boolean);
  return element("li", { class: "panel basin" },
    element("div", { class: "basin-head" }, element("h2", {}, basin.label),
      element("span", { class: "trend" }, element("span", { "aria-hidden": "true" }, trend.mark), ` ${trend.name}`),
      element("span", { class: "weight" }, `${Math.round(basin.weight * 100)} %`)),
    element("div", { class: "basin-bar", role: "img", "aria-label": `Weight ${Math.round(basin.weight * 100)} percent` }, bar),
    basin.trajectory.length > 1 ? spark(basin.trajectory) : null,
    basin.description ? element("p", {}, basin.description) : null,
    basin.keywords.length ? element("p", { class: "hint" }, basin.keywords.join(", ")) : null,
    connected.length ? element("p", { class: "hint" }, `Goes with ${connected.join(", ")}`) : null);
}

function trendOf(trajectory) {
  if (trajectory.length < 2) return { mark: "→", name: "steady" };
  const change = trajectory.at(-1) - trajectory.at(Math.max(-trajectory.length, -4));
  if (Math.abs(change) < STABLE) return { mark: "→", name: "steady" };
  return change > 0 ? { mark: "↗", name: "growing" } : { mark: "↘", name: "fading" };
}

/** The last weights as columns. */
function spark(trajectory) {
  return element("div", { class: "spark", "aria-hidden": "true" }, trajectory.slice(-24).map((weight) => {
    const column = element("span", {});
    column.style.height = `${Math.max(weight * 100, 4)}%`;
    return column;
  }));
}
