// What the server's timers say, in numbers that a user can read. Nothing here touches the document.

/** Parts of the time, in the order in which they are drawn. */
export const PARTS = ["model", "search", "cache", "other"];

/** What parts are called, and what they do. */
export const NAMES = {
  model: ["Model", "the translation model, and choosing among its hypotheses"],
  search: ["Search", "looking for similar places in the memories"],
  cache: ["Cache", "what earlier searches of the sentence found, mixed in"],
  other: ["Other", "what belongs to none of these"],
};

/** The part of each family of timers; as in the times of an answer. */
const FAMILIES = { model: "model", beam: "model", index: "search", store: "search", cache: "cache", mix: "cache" };

/** Which part a timer of the server belongs to. */
function partOf(timer) {
  return FAMILIES[timer.split("/")[0]] ?? "other";
}

/** Seconds by part, from seconds by timer. */
export function byPart(timers) {
  const sums = { model: 0, search: 0, cache: 0, other: 0 };
  for (const [name, seconds] of Object.entries(timers)) sums[partOf(name)] += seconds;
  return sums;
}

/** Shares of a whole; all 0 if there is none. */
export function shares(sums) {
  const whole = PARTS.reduce((sum, part) => sum + sums[part], 0);
  return Object.fromEntries(PARTS.map((part) => [part, whole > 0 ? sums[part] / whole : 0]));
}

/** Seconds a sentence by part, and of all. */
export function eachOf(sums, sentences) {
  const each = Object.fromEntries(PARTS.map((part) => [part, sums[part] / sentences]));
  return { ...each, all: PARTS.reduce((sum, part) => sum + each[part], 0) };
}
