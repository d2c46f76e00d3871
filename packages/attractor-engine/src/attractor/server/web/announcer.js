// Tells a screen reader what changed, in few words: what comes fast is told together.

import { element } from "./dom.js";
import { describeEvent } from "./words.js";

const PAUSE = 1200;
const MOST_AT_ONCE = 3;

/** Writes lines into a live region. */
export class Announcer {
  /** `nameOf` gives the words for a stage. */
  constructor(region, nameOf = (name) => name) {
    this.nameOf = nameOf;
    this.region = region;
    this.lines = [];
    this.timer = null;
  }

  /** Tell the events that matter. */
  tell(events) {
    for (const event of events) {
      const told = describeEvent(event);
      if (told?.loud) this.say(told.stage ? `${this.nameOf(told.stage)} ${told.text}` : told.text);
    }
  }

  say(text) {
    this.lines.push(text);
    this.timer ??= setTimeout(() => this.flush(), PAUSE);
  }

  flush() {
    this.timer = null;
    const left = Math.max(this.lines.length - MOST_AT_ONCE, 0);
    const lines = this.lines.splice(0).slice(-MOST_AT_ONCE);
    if (left) lines.unshift(`${left} more changes`);
    this.region.replaceChildren(...lines.map((line) => element("p", {}, line)));
  }
}
