// Numbers and times as people read them.

/** Seconds as a length of time: 0.4 s, 12 s, 3 min 5 s, 2 h 10 min. */
export function formatSeconds(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "–";
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days`;
}

/** A moment, in seconds since the epoch, in the reader's own zone. */
export function formatMoment(seconds) {
  if (!seconds) return "–";
  return new Date(seconds * 1000).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
}

/** The time of day, to the second. */
export function formatClock(seconds) {
  return new Date(seconds * 1000).toLocaleTimeString(undefined, { hour12: false });
}

/** How long ago something was. */
export function formatAge(seconds, now = Date.now() / 1000) {
  const age = Math.max(now - seconds, 0);
  if (age < 45) return "just now";
  if (age < 3600) return `${Math.max(Math.round(age / 60), 1)} min ago`;
  if (age < 86400) return `${Math.round(age / 3600)} h ago`;
  return formatMoment(seconds);
}

/** What a model used: tokens and, where it is known, the cost in dollars. Empty if it used none. */
export function formatUsage(usage) {
  if (!usage) return "";
  const tokens = (usage.input_tokens ?? 0) + (usage.output_tokens ?? 0);
  if (!tokens) return "";
  const cost = usage.cost ? `, ${formatDollars(usage.cost)}` : "";
  return `${tokens.toLocaleString("en")} tokens${cost}`;
}

/** An amount in dollars, small ones with more places. */
export function formatDollars(amount) {
  return `$${amount.toFixed(amount < 0.1 ? 4 : 2)}`;
}

/** A size in bytes. */
export function formatBytes(bytes) {
  if (bytes < 1024) return `${bytes} bytes`;
  const kilobytes = bytes / 1024;
  return kilobytes < 1024 ? `${kilobytes.toFixed(1)} KB` : `${(kilobytes / 1024).toFixed(1)} MB`;
}
