// What happened, line by line, the latest at the end.

import { element } from "./dom.js";
import { formatClock } from "./format.js";
import { describeEvent } from "./words.js";

const MOST_LINES = 400;

/** A log for people. It follows the end unless somebody has scrolled up. */
export class ActivityView {
  /** `nameOf` gives the words for a stage. */
  constructor(nameOf) {
    this.nameOf = nameOf;
    this.list = element("ol", { class: "activity", tabindex: "0", "aria-label": "What happened" });
    this.element = this.list;
  }

  /** Use the words that are known by now. */
  rename() {
    const atEnd = this.isAtEnd();
    for (const name of this.list.querySelectorAll("[data-stage]")) name.textContent = this.nameOf(name.dataset.stage);
    if (atEnd) this.list.scrollTop = this.list.scrollHeight;
  }

  isAtEnd() {
    return this.list.scrollTop + this.list.clientHeight >= this.list.scrollHeight - 24;
  }

  add(events) {
    const atEnd = this.isAtEnd();
    const lines = [];
    for (const event of events.slice(-MOST_LINES)) {
      const told = describeEvent(event);
      if (!told) continue;
      lines.push(element("li", { data: { kind: event.type } },
        element("time", {}, formatClock(event.time)),
        element("span", {}, told.stage ? element("b", { data: { stage: told.stage } }, this.nameOf(told.stage)) : null, told.stage ? " " : "", told.text)));
    }
    this.list.append(...lines);
    while (this.list.childElementCount > MOST_LINES) this.list.firstElementChild.remove();
    if (atEnd) this.list.scrollTop = this.list.scrollHeight;
  }
}
