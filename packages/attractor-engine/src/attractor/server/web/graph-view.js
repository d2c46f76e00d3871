// A run's graph: nodes coloured by state, selectable by mouse and keyboard.

import { element, fill } from "./dom.js";
import { readPicture } from "./picture.js";
import { Viewport } from "./viewport.js";
import { describeType, STAGE_STATES } from "./words.js";

const POINT = 1.1; // A point of Graphviz in pixels: its 13 points are to look like the text around.
const WIDE = 2.2;
const DIRECTIONS = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };

/** Shows a picture of a pipeline. `onSelect` gets the id of a node that somebody chose. */
export class GraphView {
  constructor({ onSelect = () => {}, label = "Graph of the pipeline", least } = {}) {
    Object.assign(this, { onSelect, least });
    this.nodes = new Map();
    this.pane = element("div", { class: "graph-pane", role: "group", "aria-label": label });
    this.tools = element("div", { class: "graph-tools" },
      tool("−", "Zoom out", () => this.viewport?.zoom(1 / 1.3)),
      tool("+", "Zoom in", () => this.viewport?.zoom(1.3)),
      tool("Fit", "Show the whole graph", () => ((this.viewport.touched = false), this.viewport.fit(0))));
    this.element = element("div", { class: "graph" }, this.pane, this.tools);
    this.pane.addEventListener("click", (event) => this.choose(event.target.closest("[data-node]")));
    this.pane.addEventListener("keydown", (event) => this.key(event));
    this.note("Drawing the graph …");
  }

  /** Show the picture, which is SVG as text. */
  show(text) {
    this.viewport?.close();
    const picture = readPicture(text);
    picture.removeAttribute("role");
    const [, , width, height] = (picture.getAttribute("viewBox") ?? "0 0 1 1").split(/\s+/).map(Number);
    picture.setAttribute("width", String(width * POINT));
    picture.setAttribute("height", String(height * POINT));
    this.isWide = width > WIDE * height;
    const states = new Map([...this.nodes].map(([name, { state }]) => [name, state]));
    this.nodes.clear();
    for (const group of picture.querySelectorAll("[data-node]")) this.addNode(group);
    for (const title of picture.querySelectorAll("g:not([data-node]) > title")) title.remove();
    fill(this.pane, picture);
    this.viewport = new Viewport(this.pane, picture, width * POINT, height * POINT, this.least);
    this.viewport.fit();
    this.nodes.values().next().value?.group.setAttribute("tabindex", "0");
    for (const [name, state] of states) this.setState(name, state);
    if (this.selected) this.select(this.selected);
  }

  /** Say why there is no picture. */
  note(text) {
    fill(this.pane, element("p", { class: "empty" }, text));
  }

  addNode(group) {
    const name = group.dataset.node;
    const label = [...group.querySelectorAll(":scope > text")].map((text) => text.textContent).join(" ");
    const badge = group.querySelector(".badge");
    badge?.removeAttribute("display");
    group.setAttribute("role", "button");
    group.setAttribute("tabindex", "-1");
    this.nodes.set(name, { group, label, type: group.dataset.type, mark: badge?.querySelector("text"), state: "" });
    this.setState(name, group.dataset.state ?? "pending");
  }

  /** Colour a node; the work is the same however large the graph is. */
  setState(name, state) {
    const node = this.nodes.get(name);
    if (!node || node.state === state) return;
    node.state = state;
    node.group.dataset.state = state;
    if (node.mark) node.mark.textContent = STAGE_STATES[state].mark;
    const about = `${node.label || name}, ${describeType(node.type).name}, ${STAGE_STATES[state].name}`;
    node.group.setAttribute("aria-label", about);
  }

  /** Mark a node as the one that is looked at; null for none. */
  select(name) {
    this.nodes.get(this.selected)?.group.removeAttribute("aria-pressed");
    this.selected = name;
    this.nodes.get(name)?.group.setAttribute("aria-pressed", "true");
    if (name) this.reveal(name);
  }

  /** Bring a node into sight. */
  reveal(name) {
    const node = this.nodes.get(name);
    if (node && this.viewport) this.viewport.reveal(this.boxOf(node));
  }

  /** Bring a node into sight unless somebody has moved the graph. */
  follow(name) {
    if (this.viewport && !this.viewport.touched) this.reveal(name);
  }

  close() {
    this.viewport?.close();
  }

  boxOf(node) {
    this.viewport.apply();
    const { x, y, width, height } = node.group.getBoundingClientRect();
    const pane = this.pane.getBoundingClientRect();
    const { scale } = this.viewport;
    const left = (x - pane.x - this.viewport.x) / scale;
    return { x: left, y: (y - pane.y - this.viewport.y) / scale, width: width / scale, height: height / scale };
  }

  choose(group) {
    if (!group) return;
    this.rove(group);
    this.onSelect(group.dataset.node);
  }

  key(event) {
    const group = event.target.closest("[data-node]");
    if (!group) return;
    if (event.key === "Enter" || event.key === " ") this.choose(group);
    else if (event.key in DIRECTIONS) this.rove(this.nearest(group, DIRECTIONS[event.key]), true);
    else if (event.key === "Home") this.rove([...this.nodes.values()].at(0)?.group, true);
    else if (event.key === "End") this.rove([...this.nodes.values()].at(-1)?.group, true);
    else return;
    event.preventDefault();
  }

  /** Make a node the one that the tab key comes to. */
  rove(group, focus = false) {
    if (!group) return;
    this.pane.querySelector("[data-node][tabindex='0']")?.setAttribute("tabindex", "-1");
    group.setAttribute("tabindex", "0");
    if (!focus) return;
    group.focus({ preventScroll: true });
    this.reveal(group.dataset.node);
  }

  /** The node that lies nearest in a direction: what lies off to the side counts as further away. */
  nearest(from, [dx, dy]) {
    const centre = (group) => {
      const box = group.getBoundingClientRect();
      return [box.x + box.width / 2, box.y + box.height / 2];
    };
    const [x, y] = centre(from);
    let best = null;
    let least = Infinity;
    for (const { group } of this.nodes.values()) {
      const [otherX, otherY] = centre(group);
      const along = (otherX - x) * dx + (otherY - y) * dy;
      const across = Math.abs((otherX - x) * dy) + Math.abs((otherY - y) * dx);
      if (group !== from && along > 1 && along + 2 * across < least) [best, least] = [group, along + 2 * across];
    }
    return best;
  }
}

/** What the colours and signs mean, in words. */
export function makeLegend() {
  return element("ul", { class: "legend", "aria-label": "What the signs mean" },
    Object.entries(STAGE_STATES).map(([state, { mark, name }]) =>
      element("li", {}, element("span", { class: "mark", data: { state }, "aria-hidden": "true" }, mark), name)));
}

function tool(text, label, onClick) {
  return element("button", { type: "button", class: "plain", "aria-label": label, title: label, on: { click: onClick } },
    text);
}
