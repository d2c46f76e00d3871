// What a run's events tell, kept up to date event by event. Times are seconds of work since the run began: the pauses in
// which nobody executed the run are left out.

const UNDER_WAY = ["running", "retrying", "waiting"];
const MOST_LOG_LINES = 2000;

/** A run as its events tell it. Each event is taken in once, whatever comes twice. */
export class RunRecord {
  constructor() {
    this.sequence = 0;
    this.stages = new Map();
    this.log = [];
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
      stage = { name, state: "pending", bars: [], attempts: 0, visits: 0, seconds: 0, usage: null, error: "", doing: "" };
      this.stages.set(name, stage);
    }
    return stage;
  }

  /** Take in an event; true if it was new. `changed` collects the names of the stages that are different now. */
  apply(event, changed = new Set()) {
    if (event.sequence <= this.sequence) return false;
    this.sequence = event.sequence;
    this.lastTime = event.time;
    if (this.origin === null || event.type === "PipelineStarted") this.origin = event.time - this.elapsed;
    this.elapsed = Math.max(event.time - this.origin, this.elapsed);
    this.take(event, changed);
    this.log.push(event);
    if (this.log.length > MOST_LOG_LINES) this.log.splice(0, MOST_LOG_LINES / 2);
    return true;
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
        stage.seconds += event.duration;
        stage.doing = "";
        this.closeBars(stage, "succeeded");
        this.setState(stage.name, "succeeded", changed);
        break;
      case "StageFailed":
        stage.usage = event.usage ?? stage.usage;
        stage.error = event.error;
        this.closeBars(stage, "failed");
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
    stage.bars.push({ index, begun, ended: null, state: "running", number: stage.attempts });
  }

  closeBars(stage, state) {
    for (const bar of stage.bars) {
      if (bar.ended === null) Object.assign(bar, { ended: Math.max(this.elapsed, bar.begun), state });
    }
  }

  setState(name, state, changed) {
    this.stage(name).state = state;
    changed.add(name);
  }

  end(ending, state, changed) {
    this.ending = ending;
    for (const stage of this.stages.values()) {
      if (UNDER_WAY.includes(stage.state)) {
        this.closeBars(stage, state);
        stage.state = state;
        stage.doing = "";
        changed.add(stage.name);
      }
    }
  }

  /** How far the run is now, a running one by the clock of this machine. */
  now(clock = Date.now() / 1000) {
    const isOver = this.ending !== null || this.origin === null;
    return isOver ? this.elapsed : Math.max(this.elapsed, Math.min(clock - this.origin, this.elapsed + 3600));
  }

  /** The names of the stages that are being worked on. */
  active() {
    return [...this.stages.values()].filter((stage) => UNDER_WAY.includes(stage.state)).map((stage) => stage.name);
  }
}
