// What the page can do, in a dialog.

import { element, fill } from "./dom.js";
import { makeLegend } from "./graph-view.js";
import { STAGE_TYPES } from "./words.js";

const KEYS = [
  ["Tab", "go through the page"],
  ["Arrow keys", "go from node to node in the graph"],
  ["Enter", "look at the node or the stage"],
  ["Esc", "close the panel, or this window"],
  ["The letter on a button", "answer the question that is open"],
  ["Ctrl + wheel", "zoom the graph"],
  ["?", "open this window"],
];

/** Fill the dialog; the button and the key `?` open it. */
export function setUpHelp(dialog, button) {
  fill(dialog,
    // The button comes first, as it gets the focus, and what has that is scrolled to.
    element("div", { class: "panel-head" }, element("h2", { id: "help-title" }, "What am I looking at?"),
      element("form", { method: "dialog" }, element("button", { class: "plain" }, "Close"))),
    element("p", {}, "A pipeline is a graph. Each node is a stage, and the run goes along the arrows from Start to End. " +
      "What a node looks like says who takes care of it:"),
    element("dl", { class: "facts" }, Object.values(STAGE_TYPES).flatMap(({ name, means }) =>
      [element("dt", {}, name), element("dd", {}, means)])),
    element("h3", {}, "States"), makeLegend(),
    element("h3", {}, "Keys"),
    element("dl", { class: "facts" }, KEYS.flatMap(([key, what]) =>
      [element("dt", {}, element("kbd", {}, key)), element("dd", {}, what)])));
  button.addEventListener("click", () => dialog.showModal());
}
