// What a run's events tell, kept up to date event by event. Bars stand at seconds since the run began. The pauses in which
// nobody executed the run are left out, and what it did nothing but wait for a person is shortened: hours would hide work.

const UNDER_WAY = ["running", "retrying", "waiting"];
const LEAST_WAIT = 2;
const WAIT_PART = 0.15;

/** A run as its events tell it. Each event is taken in once, whatever comes twice. */
export class RunRecord {
  constructor() {
    this.sequence = 0;
    this.stages = new Map();
    this.underWay = new Set();
    this.elapsed = 0;
    this.ending = null;
    this.lastTime = 0;
    this.questions = new Map();
    this.origin = null;
  }

  /** The stage of a node, pending if nothing was told of it. */
  stage(name) {
    let stage = this.stages.get(name);
    if (!stage) {
      stage = { name, state: "pending", bars: [], attempts: 0, visits: 0, usage: null, error: "", doing: "" };
      this.stages.set(name, stage);
    }
    return stage;
  }

  /** Take in an event; true if it was new. `changed` collects the names of the stages that are different now. */
  apply(event, changed = new Set()) {
    if (event.sequence <= this.sequence) return false;
    this.sequence = event.sequence;
    if (this.origin !== null && this.isIdle()) this.shorten(event.time);
    this.lastTime = event.time;
    if (this.origin === null || event.type === "PipelineStarted") this.origin = event.time - this.elapsed;
    this.elapsed = Math.max(event.time - this.origin, this.elapsed);
    this.take(event, changed);
    return true;
  }

  /** Whether the run does nothing but wait for people. */
  isIdle() {
    const active = [...this.underWay].map((name) => this.stages.get(name).state);
    return active.length > 0 && active.every((state) => state === "waiting");
  }

  /** How much of the time from the last event until a moment is left out. */
  surplus(time) {
    const gap = Math.max(time - this.lastTime, 0);
    return Math.max(gap - Math.max(LEAST_WAIT, this.elapsed * WAIT_PART), 0);
  }

  shorten(time) {
    this.origin += this.surplus(time);
  }

  take(event, changed) {
    switch (event.type) {
      case "PipelineStarted":
        this.ending = null;
        return;
      case "PipelineCompleted":
        this.end("completed", "succeeded", changed);
        return;
      case "PipelineFailed":
        this.end("failed", "failed", changed);
        return;
      case "PipelineWaiting":
        this.end("waiting", "waiting", changed);
        return;
      case "InterviewStarted":
        this.questions.set(event.qid, event.stage);
        this.setState(event.stage, "waiting", changed);
        return;
      case "InterviewCompleted":
        if (this.questions.has(event.qid)) this.setState(this.questions.get(event.qid), "running", changed);
        this.questions.delete(event.qid);
        return;
      case "InterviewWithdrawn":
        this.questions.delete(event.qid);
        return;
      case "InterviewTimeout":
        this.questions.delete(event.qid);
        this.setState(event.stage, "running", changed);
        return;
      default:
        if (event.name !== undefined) this.takeStage(this.stage(event.name), event, changed);
    }
  }

  takeStage(stage, event, changed) {
    switch (event.type) {
      case "StageStarted":
        stage.visits += 1;
        stage.error = "";
        stage.doing = "";
        this.closeBars(stage, "waiting");
        this.openBar(stage, event.index);
        this.setState(stage.name, "running", changed);
        break;
      case "StageCompleted":
        stage.usage = event.usage ?? stage.usage;
        stage.error = "";
        stage.doing = "";
        this.closeBars(stage, "succeeded");
        this.setState(stage.name, "succeeded", changed);
        break;
      case "StageFailed":
        stage.usage = event.usage ?? stage.usage;
        stage.error = event.error;
        this.closeBars(stage, "failed", event.error);
        this.setState(stage.name, event.will_retry ? "retrying" : "failed", changed);
        break;
      case "StageRetrying":
        this.openBar(stage, event.index, event.delay);
        this.setState(stage.name, "retrying", changed);
        break;
      case "StageSuspended":
        this.closeBars(stage, "waiting");
        this.setState(stage.name, "waiting", changed);
        break;
      case "StageActivity":
        stage.doing = event.text;
        // The attempt that was announced is under way.
        if (stage.state === "retrying") this.setState(stage.name, "running", changed);
        changed.add(stage.name);
        break;
      case "ChildProgressed":
        stage.doing = event.active_stage;
        changed.add(stage.name);
        break;
    }
  }

  openBar(stage, index, delay = 0) {
    stage.attempts += 1;
    const begun = this.elapsed + delay;
    const from = this.lastTime + delay;
    stage.bars.push({ index, begun, ended: null, from, until: null, state: "running", error: "" });
  }

  closeBars(stage, state, error = "") {
    for (const bar of stage.bars) {
      if (bar.ended !== null) continue;
      const until = Math.max(this.lastTime, bar.from);
      Object.assign(bar, { ended: Math.max(this.elapsed, bar.begun), until, state, error });
    }
  }

  setState(name, state, changed) {
    this.stage(name).state = state;
    if (UNDER_WAY.includes(state)) this.underWay.add(name);
    else this.underWay.delete(name);
    changed.add(name);
  }

  end(ending, state, changed) {
    this.ending = ending;
    for (const name of this.underWay) {
      const stage = this.stage(name);
      this.closeBars(stage, state);
      stage.state = state;
      stage.doing = "";
      changed.add(name);
    }
    this.underWay.clear();
  }

  /** How far the run is now, a running one by the clock of this machine. */
  now(clock = Date.now() / 1000) {
    if (this.ending !== null || this.origin === null) return this.elapsed;
    return Math.max(this.elapsed, clock - this.origin - (this.isIdle() ? this.surplus(clock) : 0));
  }

  /** The names of the stages that are being worked on. */
  active() {
    return [...this.underWay];
  }
}

/** For how many seconds a stage was worked on, until now if it is still; the shortened waits count whole. */
export function secondsOf(stage, clock = Date.now() / 1000) {
  return stage.bars.reduce((sum, bar) => sum + Math.max((bar.until ?? clock) - bar.from, 0), 0);
}
