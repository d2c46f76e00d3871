// Talking to the server: requests, and the stream of a run's events, which survives interruptions.

const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 5000;

/** What the server answered instead of what was asked for. `problem` is the problem document (RFC 9457). */
export class ServerError extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.error || problem.title || `The server answered ${status}.`);
    this.status = status;
    this.problem = problem;
  }
}

/** The server could not be reached. */
export class UnreachableError extends Error {}

/** Requests to the server that this page came from. A cookie, which no script can read, says who asks. */
export class Connection {
  constructor() {
    /** Called when the server doesn't let this browser in any more. */
    this.onUnauthorized = () => {};
  }

  async request(path, { method = "GET", body, headers = {}, signal } = {}) {
    let response;
    try {
      response = await fetch(path, {
        method,
        signal,
        cache: "no-store",
        headers: { ...(body === undefined ? {} : { "Content-Type": "application/json" }), ...headers },
        body: body === undefined ? undefined : JSON.stringify(body),
      });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new UnreachableError("The server can't be reached.");
    }
    if (response.ok) return response;
    const problem = await response.json().catch(() => ({}));
    // The memory has a token of its own, and errors of its own kind.
    if (response.status === 401 && !problem.error) this.onUnauthorized();
    throw new ServerError(response.status, problem);
  }

  /** Exchange the server's token for the cookie; throws a ServerError 401 if it isn't the token. */
  async signIn(token) {
    await this.post("login", { token });
  }

  async get(path) {
    return (await this.request(path)).json();
  }

  async text(path) {
    return (await this.request(path)).text();
  }

  async post(path, body = {}, options = {}) {
    const text = await (await this.request(path, { ...options, method: "POST", body })).text();
    return text ? JSON.parse(text) : null;
  }
}

/** The path of something that belongs to a run. */
export function pathOf(runId, ...parts) {
  return ["pipelines", runId, ...parts].map(encodeURIComponent).join("/");
}

/**
 * Splits a stream of text into events (text/event-stream): `push(text)` gives those that are complete, as objects with
 * `id`, `event` and `data`.
 */
export class EventParser {
  constructor() {
    this.rest = "";
    this.fields = { id: "", event: "", data: [] };
  }

  push(text) {
    const events = [];
    const lines = (this.rest + text).split(/\r\n|\n|\r(?!$)/);
    this.rest = lines.pop();
    for (const line of lines) {
      if (line === "") {
        if (this.fields.data.length) events.push({ ...this.fields, data: this.fields.data.join("\n") });
        this.fields = { id: this.fields.id, event: "", data: [] };
        continue;
      }
      const colon = line.indexOf(":");
      if (colon === 0) continue;
      const name = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
      if (name === "data") this.fields.data.push(value);
      else if (name === "id" || name === "event") this.fields[name] = value;
    }
    return events;
  }
}

/**
 * The events of one run, from `after` on. When the connection is lost it is made again, and goes on behind the last event
 * that came. `onEvents` gets lists of events, `onState` one of "live", "lost" and "ended"; a stream ends when nothing
 * can come until the run is resumed.
 */
export class EventFeed {
  constructor(connection, runId, { onEvents, onState }) {
    this.connection = connection;
    this.path = pathOf(runId, "events");
    this.onEvents = onEvents;
    this.onState = onState;
    this.last = 0;
    this.controller = null;
  }

  /** Follow the run until the stream ends or `stop()` is called. */
  async start() {
    this.stop();
    const controller = (this.controller = new AbortController());
    let pause = FIRST_PAUSE;
    while (!controller.signal.aborted) {
      try {
        await this.follow(controller.signal, () => (pause = FIRST_PAUSE));
        if (!controller.signal.aborted) this.onState("ended");
        return;
      } catch (error) {
        if (controller.signal.aborted) return;
        if (error instanceof ServerError && error.status < 500) {
          this.onState("refused", error);
          return;
        }
        this.onState("lost");
        await wait(pause, controller.signal);
        pause = Math.min(pause * 2, LONGEST_PAUSE);
      }
    }
  }

  stop() {
    this.controller?.abort();
    this.controller = null;
  }

  async follow(signal, onAlive) {
    const headers = { Accept: "text/event-stream", ...(this.last ? { "Last-Event-ID": String(this.last) } : {}) };
    const response = await this.connection.request(this.path, { signal, headers });
    if (!response.body || response.status === 204) return;
    const parser = new EventParser();
    const decoder = new TextDecoder();
    const reader = response.body.getReader();
    onAlive();
    this.onState("live");
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const events = parser.push(decoder.decode(value, { stream: true })).map((event) => JSON.parse(event.data));
      const fresh = events.filter((event) => event.sequence > this.last);
      if (fresh.length) {
        this.last = fresh.at(-1).sequence;
        this.onEvents(fresh);
      }
    }
  }
}

function wait(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}
