// The form for the token that the server asks for.

import { element } from "./dom.js";

export class LoginView {
  constructor(app) {
    Object.assign(this, { app, title: "Log in" });
    this.input = element("input", { type: "password", id: "token", autocomplete: "current-password", required: true });
    this.message = element("p", { class: "error", role: "alert" });
    this.element = element("form", { class: "panel login", on: { submit: (event) => this.submit(event) } },
      element("h1", {}, "Log in"),
      element("p", { class: "hint" }, "This server asks for its token: the one that was given to attractor serve with " +
        "--token, or in ATTRACTOR_TOKEN."),
      element("label", { for: "token" }, "Token"), this.input,
      element("button", { type: "submit", class: "primary" }, "Log in"), this.message);
  }

  async open() {
    this.input.focus();
  }

  close() {}

  async submit(event) {
    event.preventDefault();
    try {
      await this.app.connection.signIn(this.input.value);
    } catch (error) {
      this.message.textContent = error.status === 401 ? "That is not the token." : error.message;
      this.input.select();
      return;
    }
    this.app.signedIn();
  }
}
