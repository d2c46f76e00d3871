// The page: which view is shown, and what all views share.

import { Announcer } from "./announcer.js";
import { Connection } from "./connection.js";
import { setUpHelp } from "./help.js";
import { LoginView } from "./login-view.js";
import { MEMORY_PATH, MemoryView } from "./memory-view.js";
import { RunView } from "./run-view.js";
import { RunsView } from "./runs-view.js";
import { SubmitView } from "./submit-view.js";
import { setUpTheme } from "./theme.js";

const find = (id) => document.getElementById(id);

class App {
  constructor() {
    this.connection = new Connection();
    this.connection.onUnauthorized = () => this.signIn();
    this.announcer = new Announcer(find("announcer"), (name) => this.view?.nameOf?.(name) ?? name);
    this.main = find("main");
    this.view = null;
  }

  start() {
    setUpTheme(find("theme"));
    setUpHelp(find("help"), find("help-button"));
    find("skip").addEventListener("click", (event) => (event.preventDefault(), this.main.focus()));
    window.addEventListener("hashchange", () => this.route());
    document.addEventListener("keydown", (event) => this.key(event));
    this.route();
    this.offerMemory();
  }

  go(path) {
    window.location.hash = `#${path}`;
  }

  /** Say something to screen readers. */
  say(text) {
    this.announcer.say(text);
  }

  tell(events) {
    this.announcer.tell(events);
  }

  /** Show what is wrong with the connection; empty when nothing is. */
  showConnection(text) {
    const note = find("connection");
    if (note.textContent !== text) note.textContent = text;
    note.hidden = text === "";
  }

  /** Name the window; `asking` is how many answers are needed, which shows in its tab. */
  setTitle(title, asking = 0) {
    document.title = `${asking ? `(${asking}) ` : ""}${title} · Attractor`;
  }

  route() {
    const [name, id, stage] = window.location.hash.replace(/^#\/?/, "").split("/").map(decodePart);
    if (this.view instanceof RunView && name === "runs" && this.view.runId === id && !this.view.closed) {
      this.view.show(stage ?? null);
      return;
    }
    switch (name) {
      case "runs": return id ? this.show(new RunView(this, id, stage)) : this.show(new RunsView(this));
      case "new": return this.show(new SubmitView(this, id));
      case "memory": return this.show(new MemoryView(this));
      default: return this.show(new RunsView(this));
    }
  }

  async show(view) {
    const isFirst = this.view === null;
    this.view?.close();
    this.view = view;
    this.main.replaceChildren(view.element);
    for (const link of find("nav").children) {
      const isHere = link.getAttribute("href") === (window.location.hash.replace(/^(#\/\w*).*/, "$1") || "#/");
      if (isHere) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    if (!isFirst) {
      window.scrollTo(0, 0);
      this.main.focus({ preventScroll: true });
    }
    this.setTitle(view.title);
    await view.open();
    if (this.view === view) document.documentElement.dataset.ready = view.constructor.name;
  }

  signIn() {
    if (this.view instanceof LoginView) return;
    this.show(new LoginView(this));
  }

  signedIn() {
    this.view = null;
    this.route();
    this.offerMemory();
  }

  /** Show the way to the memory if the server has one. */
  async offerMemory() {
    const answer = await this.connection.request(MEMORY_PATH).catch((error) => error);
    // A server without a memory answers with a problem document; a memory has errors of its own kind.
    find("nav-memory").hidden = !(answer.ok || ([401, 404].includes(answer.status) && answer.problem.error));
  }

  key(event) {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || find("help").open) return;
    const isTyping = event.target.closest("input, textarea, select, [contenteditable]");
    if (isTyping && event.key !== "Escape") return;
    if (event.key === "?" && !isTyping) {
      find("help").showModal();
      event.preventDefault();
    } else if (this.view?.key?.(event)) {
      event.preventDefault();
    }
  }
}

function decodePart(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

new App().start();
