// What views share: who the user is, which memories there are, which of them are used and how strongly.

import { api } from "./api.js";

const CHOICE = "nearmt.choice";

/** Told when memories or the choice change. */
export const changed = new EventTarget();

export const state = {
  me: { name: "", may: [], memories: null, default_memory: null },
  /** @type {{source_lang: string, target_lang: string}[]} */
  directions: [],
  /** @type {any[]} */
  memories: [],
  direction: { source_lang: "", target_lang: "" },
  /** Weights by name of the memories that are used. @type {Map<string, number>} */
  weights: new Map(),
  /** The memory that learns what is confirmed, or nothing. */
  learns: "",
};

export const may = (what) => state.me.may.includes(what);

/** Memories of the present direction. */
export function usable() {
  const { source_lang: source, target_lang: target } = state.direction;
  return state.memories.filter(
    (one) => base(one.source_lang) === base(source) && base(one.target_lang) === base(target),
  );
}

/** What a request names: the chosen memories with their weights. */
export function chosen() {
  return usable()
    .filter((one) => state.weights.has(one.name))
    .map(({ name }) => ({ name, weight: state.weights.get(name) }));
}

/** The memory that learns: the one asked for if it is in use, else the first in use. */
export function learner() {
  const names = chosen().map((one) => one.name);
  return names.includes(state.learns) ? state.learns : (names[0] ?? "");
}

export function choose(name, weight) {
  if (weight > 0) state.weights.set(name, weight);
  else state.weights.delete(name);
  tell();
}

export function learnInto(name) {
  state.learns = name;
  tell();
}

export function setDirection(direction) {
  state.direction = direction;
  tell();
}

/** Load everything a view needs; later calls only load the memories again. */
export async function load() {
  [state.me, state.directions] = await Promise.all([api.me(), directions()]);
  await loadMemories();
  restore();
  tell();
}

export async function loadMemories() {
  const answer = await api.memories();
  state.memories = answer.memories ?? answer;
  for (const name of state.weights.keys()) {
    if (!state.memories.some((one) => one.name === name)) state.weights.delete(name);
  }
  tell(false);
}

async function directions() {
  const answer = await api.models();
  const models = answer.models ?? answer;
  return models.map(({ source_lang, target_lang }) => ({ source_lang, target_lang }));
}

function restore() {
  const kept = read();
  const same = (one) => one.source_lang === kept.source_lang && one.target_lang === kept.target_lang;
  state.direction = state.directions.find(same) ?? state.directions[0] ?? state.direction;
  const known = new Set(state.memories.map((one) => one.name));
  state.weights = new Map((kept.weights ?? []).filter(([name]) => known.has(name)));
  state.learns = kept.learns ?? "";
  if (kept.weights === undefined) chooseFirst();
}

/** Nothing was chosen yet: the default memory of the key, or the first one. */
function chooseFirst() {
  const names = usable().map((one) => one.name);
  const first = names.includes(state.me.default_memory) ? state.me.default_memory : names[0];
  if (first) state.weights.set(first, 1);
}

function tell(keep = true) {
  if (keep) write({ ...state.direction, weights: [...state.weights], learns: state.learns });
  changed.dispatchEvent(new Event("change"));
}

function read() {
  try {
    return JSON.parse(localStorage.getItem(CHOICE) ?? "{}");
  } catch {
    return {};
  }
}

function write(choice) {
  try {
    localStorage.setItem(CHOICE, JSON.stringify(choice));
  } catch {
    // Storage may be off or full: the choice lasts as long as the page.
  }
}

function base(language) {
  return (language ?? "").toLowerCase().split(/[-_]/)[0];
}
