// What things are called on the page, for people who have never read the specification.

/** States of a stage. `mark` is the sign in the picture, so that nobody needs to tell colours apart. */
export const STAGE_STATES = {
  pending: { mark: "", name: "not begun" },
  running: { mark: "▸", name: "running" },
  succeeded: { mark: "✓", name: "done" },
  failed: { mark: "✕", name: "failed" },
  retrying: { mark: "↻", name: "trying again" },
  waiting: { mark: "?", name: "waiting for an answer" },
  skipped: { mark: "–", name: "not needed" },
};

/** States of a run: the sign, the name, and what it means. */
export const RUN_STATES = {
  running: { mark: "▸", name: "running", state: "running", means: "Stages are being worked on." },
  waiting: { mark: "?", name: "waiting for you", state: "waiting", means: "The run goes on when somebody answers." },
  completed: { mark: "✓", name: "completed", state: "succeeded", means: "The run reached its end." },
  failed: { mark: "✕", name: "failed", state: "failed", means: "The run stopped before its end." },
  cancelled: { mark: "–", name: "cancelled", state: "skipped", means: "Somebody stopped the run." },
};

/** What runs a stage: the name of the type, and what such a stage does. */
export const STAGE_TYPES = {
  start: { name: "Start", means: "Where the run begins." },
  exit: { name: "End", means: "Where the run ends." },
  codergen: { name: "Model task", means: "A language model works on the prompt." },
  "wait.human": { name: "Human gate", means: "A person decides how the run goes on." },
  conditional: { name: "Decision", means: "Chooses the way on by what happened before. No model is asked." },
  parallel: { name: "Fan-out", means: "Starts several branches at the same time." },
  "parallel.fan_in": { name: "Fan-in", means: "Waits for the branches and puts their results together." },
  tool: { name: "Command", means: "Runs a command on the machine." },
  "stack.manager_loop": { name: "Supervisor", means: "Watches over another pipeline, and steers it." },
  pipeline: { name: "Pipeline", means: "Another pipeline that runs as one stage." },
  python: { name: "Python node", means: "A node of a graph written in Python." },
  function: { name: "Function", means: "Calls a function of the program that runs the pipeline." },
  converge: { name: "Loop", means: "Works and scores, until the score gets no better." },
  quality_gate: { name: "Quality gate", means: "Judges the work: on, back, or to somebody who decides." },
  skip_if_done: { name: "Once", means: "Works, unless the result is known already." },
  idempotent: { name: "At most once", means: "Has an effect that must not happen twice." },
  interrupt: { name: "Wait", means: "Waits for a value from outside." },
  tool_loop: { name: "Tool loop", means: "A model calls functions until it has an answer." },
  retry: { name: "Retry", means: "Works, and tries again if that fails." },
  timeout: { name: "Time limit", means: "Works for no longer than it may take." },
};

/** The words for a type; a type of somebody's own has its own name. */
export function describeType(type) {
  return STAGE_TYPES[type] ?? { name: type || "Stage", means: "A kind of stage that this installation adds." };
}

/** One line that tells an event, and whether it is worth announcing. Null for what only machines care about. */
export function describeEvent(event) {
  switch (event.type) {
    case "PipelineStarted": return { text: "The run began, or went on", loud: false };
    case "PipelineCompleted": return { text: "The run is complete", loud: true };
    case "PipelineFailed": return { text: `The run stopped: ${event.error}`, loud: true };
    case "PipelineWaiting": return { text: "The run waits; nothing is worked on meanwhile", loud: true };
    case "StageStarted": return { stage: event.name, text: "began", loud: true };
    case "StageCompleted": return { stage: event.name, text: "is done", loud: true };
    case "StageFailed": return { stage: event.name, text: `failed: ${event.error}`, loud: !event.will_retry };
    case "StageRetrying":
      return { stage: event.name, text: `is tried again (attempt ${event.attempt}) in ${event.delay.toFixed(1)} s`, loud: true };
    case "StageSuspended": return { stage: event.name, text: "waits for something from outside", loud: true };
    case "StageActivity": return { stage: event.name, text: describeActivity(event), loud: false };
    case "ParallelStarted": return { text: `${event.branch_count} branches began`, loud: false };
    case "ParallelCompleted":
      return { text: `The branches are through: ${event.success_count} succeeded, ${event.failure_count} failed` };
    case "ParallelBranchStarted": return { stage: event.branch, text: "began as a branch", loud: false };
    case "ParallelBranchCompleted":
      return { stage: event.branch, text: event.success ? "is done as a branch" : "failed as a branch", loud: false };
    case "GateEvaluated":
      return {
        stage: event.gate,
        text: `judged: ${event.route} (${event.attempt} of ${event.max_attempts})`,
        loud: event.route !== "pass",
      };
    case "InterviewStarted": return { stage: event.stage, text: `asks: ${event.question}`, loud: true };
    case "InterviewCompleted": return { text: `Answered: ${event.answer}`, loud: true };
    case "InterviewTimeout": return { stage: event.stage, text: "was not answered in time", loud: true };
    case "InterviewWithdrawn": return { stage: event.stage, text: "needs no answer any more", loud: false };
    case "ChildStarted": return { stage: event.name, text: "began a pipeline of its own", loud: false };
    case "ChildProgressed":
      return { stage: event.name, text: `watches its pipeline: ${event.active_stage || event.status}`, loud: false };
    case "ChildSteered": return { stage: event.name, text: `told ${event.stage}: ${event.text}`, loud: false };
    case "ChildCompleted": return { stage: event.name, text: `its pipeline ended: ${event.status}`, loud: false };
    default: return null;
  }
}

function describeActivity(event) {
  switch (event.activity) {
    case "tool_start": return `uses ${event.text}`;
    case "tool_end": return `finished ${event.text}`;
    case "text": return `says: ${event.text}`;
    default: return event.text;
  }
}
