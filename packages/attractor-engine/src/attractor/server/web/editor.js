// A text area for DOT with line numbers, in which the lines that lint has something to say about are marked.

import { element } from "./dom.js";

/** An editor; `onChange` is called with the text some time after the last key. */
export class Editor {
  constructor({ onChange, pause = 350 }) {
    this.onChange = onChange;
    this.pause = pause;
    this.lines = element("div", { class: "line-numbers", "aria-hidden": "true" });
    this.area = element("textarea", {
      id: "source", class: "source", spellcheck: "false", autocapitalize: "off", autocomplete: "off", wrap: "off",
      "aria-describedby": "findings-title",
    });
    this.area.addEventListener("input", () => this.changed());
    this.area.addEventListener("scroll", () => (this.lines.scrollTop = this.area.scrollTop));
    this.element = element("div", { class: "editor" }, this.lines, this.area);
    this.marks = new Map();
  }

  get text() {
    return this.area.value;
  }

  set text(text) {
    this.area.value = text;
    this.number();
    this.onChange(text);
  }

  /** Mark lines: a map from their numbers, from 1 on, to a severity. */
  mark(marks) {
    this.marks = marks;
    this.number();
  }

  /** Put the cursor at a place, from 1 on. */
  go(line, column = 1) {
    const before = this.text.split("\n").slice(0, line - 1);
    const at = before.reduce((sum, one) => sum + one.length + 1, 0);
    const end = this.text.indexOf("\n", at);
    this.area.focus();
    this.area.setSelectionRange(at + column - 1, end < 0 ? this.text.length : end);
    const height = this.area.scrollHeight / Math.max(this.text.split("\n").length, 1);
    this.area.scrollTop = Math.max(0, (line - 4) * height);
  }

  close() {
    clearTimeout(this.timer);
  }

  changed() {
    this.number();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.onChange(this.text), this.pause);
  }

  number() {
    const count = this.text.split("\n").length;
    while (this.lines.childElementCount > count) this.lines.lastElementChild.remove();
    while (this.lines.childElementCount < count) {
      this.lines.append(element("span", {}, String(this.lines.childElementCount + 1)));
    }
    [...this.lines.children].forEach((line, at) => {
      const mark = this.marks.get(at + 1) ?? "";
      if (line.dataset.severity !== mark) line.dataset.severity = mark;
    });
    this.lines.scrollTop = this.area.scrollTop;
  }
}
