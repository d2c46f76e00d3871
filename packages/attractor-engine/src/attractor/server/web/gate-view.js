// Questions that a run asks people: a card each, with buttons, accelerator keys and free text.

import { count, element, fill } from "./dom.js";
import { formatSeconds } from "./format.js";
import { pathOf } from "./connection.js";

const YES_NO = [{ key: "Y", label: "Yes" }, { key: "N", label: "No" }];
const CONFIRM = [{ key: "Y", label: "Confirm" }, { key: "N", label: "Don't" }];

/** The open questions of a run. `onAnswered` is called when one was answered, here or elsewhere. */
export class GateView {
  constructor(connection, runId, { onAnswered, say }) {
    Object.assign(this, { connection, runId, onAnswered, say });
    this.cards = new Map();
    this.heading = element("h2", { id: "gates-title" });
    this.list = element("div", { class: "gates-list" });
    this.element = element("section", { class: "gates", "aria-labelledby": "gates-title", hidden: true },
      this.heading, this.list);
  }

  /** Show these questions, and no others; cards that stay keep what was typed into them. */
  show(questions) {
    const open = new Set(questions.map((question) => question.qid));
    for (const [qid, card] of this.cards) {
      if (!open.has(qid)) {
        card.element.remove();
        this.cards.delete(qid);
      }
    }
    for (const question of questions) {
      if (this.cards.has(question.qid)) continue;
      const card = new QuestionCard(question, (value) => this.answer(question.qid, value));
      this.cards.set(question.qid, card);
      this.list.append(card.element);
    }
    const several = questions.length > 1;
    for (const card of this.cards.values()) card.showKeys(!several || card.hasFocus());
    this.element.hidden = questions.length === 0;
    fill(this.heading, questions.length === 1 ? "Your answer is needed" : `${count(questions.length, "answer")} needed`);
  }

  /** Take an accelerator key; true if it was one. With several questions it is for the one that has the focus. */
  key(event) {
    const cards = [...this.cards.values()];
    const card = cards.length === 1 ? cards[0] : cards.find((one) => one.hasFocus());
    const option = card?.find(event.key);
    if (!option) return false;
    card.choose(option);
    return true;
  }

  async answer(qid, value) {
    const card = this.cards.get(qid);
    card.setBusy(true);
    try {
      await this.connection.post(pathOf(this.runId, "questions", qid, "answer"), { value });
      this.say("Your answer was taken.");
      card.note("Answered. Going on …");
      this.onAnswered();
    } catch (error) {
      card.setBusy(false);
      card.note(error.status === 409 ? `${error.message}. Somebody was faster.` : error.message, true);
      if (error.status === 409) this.onAnswered();
    }
  }
}

class QuestionCard {
  constructor(question, onAnswer) {
    this.question = question;
    this.onAnswer = onAnswer;
    this.options = question.options.length ? question.options : choicesFor(question.type);
    this.buttons = this.options.map((option) => this.makeButton(option));
    this.message = element("p", { class: "gate-message", role: "status" });
    const title = element("h3", { id: `question-${question.qid}` }, question.text);
    this.element = element("article", { class: "gate", "aria-labelledby": title.id, tabindex: "-1" },
      title,
      element("p", { class: "hint" }, this.describe()),
      this.buttons.length ? element("div", { class: "gate-options" }, this.buttons) : null,
      question.type === "freeform" || question.type === "multiple_choice" ? this.makeForm() : null,
      this.message);
  }

  describe() {
    const { stage, deadline } = this.question;
    const left = deadline ? deadline - Date.now() / 1000 : null;
    const limit = left === null ? "The run waits until somebody answers." :
      `The run waits ${formatSeconds(Math.max(left, 0))} more.`;
    return `Asked by the stage ${stage}. ${limit}`;
  }

  makeButton(option) {
    const key = option.key.length === 1 ? option.key.toUpperCase() : option.key;
    return element("button", {
      type: "button",
      class: "choice",
      "aria-keyshortcuts": option.key.length === 1 ? key : null,
      on: { click: () => this.choose(option) },
    }, element("kbd", { "aria-hidden": "true" }, key), withoutKey(option.label));
  }

  makeForm() {
    const isFree = this.question.type === "freeform";
    this.input = element(isFree ? "textarea" : "input", { rows: isFree ? 3 : null, "aria-label": "Your answer" });
    const send = element("button", { type: "submit", class: isFree ? "primary" : "plain" }, "Send");
    const submit = (event) => {
      event.preventDefault();
      if (this.input.value.trim()) this.onAnswer(this.input.value);
      else this.note("Write something first.", true);
    };
    const form = element("form", { class: "gate-form", on: { submit } }, this.input, send);
    if (isFree) {
      this.input.addEventListener("keydown", (event) => {
        if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit(event);
      });
      return form;
    }
    return element("details", {}, element("summary", {}, "Answer in your own words"), form);
  }

  choose(option) {
    if (!this.busy) this.onAnswer(option.key);
  }

  find(key) {
    return this.options.find((option) => option.key.toLowerCase() === key.toLowerCase());
  }

  hasFocus() {
    return this.element.contains(document.activeElement);
  }

  showKeys(shown) {
    this.element.classList.toggle("without-keys", !shown);
  }

  setBusy(busy) {
    this.busy = busy;
    for (const control of this.element.querySelectorAll("button, input, textarea")) control.disabled = busy;
  }

  note(text, isError = false) {
    this.message.textContent = text;
    this.message.classList.toggle("error", isError);
  }
}

function choicesFor(type) {
  if (type === "yes_no") return YES_NO;
  return type === "confirmation" ? CONFIRM : [];
}

/** A label without the accelerator that it begins with, such as "[Y] Yes", "Y) Yes" or "Y - Yes". */
function withoutKey(label) {
  return label.replace(/^\s*(\[\w+\]|\w+\)|\w\s+-)\s*/, "") || label;
}
