// What texts and documents have in common: segments, confirming, learning, explaining.

import { api } from "../core/api.js";
import { isAbort } from "../core/problems.js";
import { Queue } from "../core/queue.js";
import { chosen, learner, may, state } from "../core/state.js";
import { edit, takeWords } from "./segments.js";

const MATCHES = 5;

/** Tells `segment` (one has changed), `segments` (there are others) and `progress`. */
export class Work extends EventTarget {
  /** @type {any[]} */
  segments = [];
  title = "";
  direction = { ...state.direction };
  /** The number of the segment that the user looks at: what is near is translated first. */
  focus = 0;
  queue = new Queue(4);
  #explaining = new Queue(1);
  /** Confirmed segments, the last one last. @type {any[]} */
  #order = [];
  #told = false;
  /** How often the memory has changed: what was explained before may not hold. */
  #generation = 0;
  /** The segment that is explained now, and what is called then. */
  #asked = null;
  #done = () => {};

  /** What every request to translate has. */
  request(texts) {
    return { texts, ...this.direction, memories: chosen(), matches: MATCHES };
  }

  tell(segment) {
    this.dispatchEvent(new CustomEvent("segment", { detail: segment }));
    this.tellProgress();
  }

  /** Once for all that changes together. */
  tellProgress() {
    if (this.#told) return;
    this.#told = true;
    queueMicrotask(() => {
      this.#told = false;
      this.dispatchEvent(new Event("progress"));
    });
  }

  get count() {
    return this.segments.length;
  }

  get ready() {
    return this.segments.filter((one) => one.state === "ready" && !one.busy).length;
  }

  get confirmedCount() {
    return this.segments.filter((one) => one.confirmed).length;
  }

  /** The first segment below that is not confirmed, else the first one at all. */
  nextOpen(segment) {
    const open = this.segments.filter((one) => !one.confirmed && one !== segment && one.source);
    return open.find((one) => one.number > segment.number) ?? open[0] ?? null;
  }

  /** The segment that was confirmed last, of those that still are. */
  lastConfirmed() {
    return this.#order.findLast((one) => one.confirmed) ?? null;
  }

  rank(number) {
    return number >= this.focus ? number - this.focus : 1_000_000 + this.focus - number;
  }

  edit(segment, text) {
    edit(segment, text);
    segment.turn += 1;
    segment.busy = false;
    segment.state = "ready";
    segment.problem = "";
    this.tell(segment);
  }

  /** Learn what a segment says, and translate those below again. Throws if it could not be stored. */
  async confirm(segment) {
    if (segment.saving || !segment.target.trim()) return;
    Object.assign(segment, { confirmed: true, saving: true, busy: false, problem: "", changed: [], previous: "" });
    segment.turn += 1;
    this.tell(segment);
    try {
      const undo = await this.store(segment);
      segment.undo.push(undo.takeBack);
      this.#order.push(segment);
      segment.edited = false;
      if (undo.learnt) this.#memoryChanged(segment);
    } catch (error) {
      Object.assign(segment, { confirmed: false, edited: true, problem: error.message });
      throw error;
    } finally {
      segment.saving = false;
      this.tell(segment);
    }
  }

  /** Take the last confirmation of a segment back; its text stays, to be corrected. */
  async unconfirm(segment) {
    const takeBack = segment.undo.at(-1);
    if (!takeBack || segment.saving) return;
    segment.saving = true;
    this.tell(segment);
    try {
      const unlearnt = await takeBack();
      segment.undo.pop();
      this.#order.splice(this.#order.lastIndexOf(segment), 1);
      Object.assign(segment, { confirmed: false, edited: true });
      if (unlearnt) this.#memoryChanged(segment);
    } finally {
      segment.saving = false;
      this.tell(segment);
    }
  }

  #memoryChanged(segment) {
    this.#generation += 1;
    this.again(segment);
  }

  /**
   * Put the pair of a segment into the memory that learns.
   * @returns {Promise<{learnt: boolean, takeBack: () => Promise<boolean>}>}
   */
  async learn(segment) {
    const memory = learner();
    const { source, target } = segment;
    const nothing = { learnt: false, takeBack: async () => false };
    if (!memory || !may("learn") || isKnown(segment, memory)) return nothing;
    const earlier = segment.learnt?.memory === memory ? segment.learnt : null;
    if (earlier) {
      const before = earlier.target;
      if (before === target) return nothing;
      const change = async (text) => {
        await api.updatePair(memory, earlier.id, text);
        earlier.target = text;
        return true;
      };
      await change(target);
      return { learnt: true, takeBack: () => change(before) };
    }
    const { id } = await api.addPair(memory, { source, target });
    segment.learnt = { memory, id, target };
    return { learnt: true, takeBack: this.forgetting(segment) };
  }

  /** What deletes the pair that a segment was learnt as; it tells whether there was one. */
  forgetting(segment) {
    return async () => {
      if (!segment.learnt) return false;
      await api.deletePair(segment.learnt.memory, segment.learnt.id);
      segment.learnt = null;
      return true;
    };
  }

  /**
   * Ask for matches and for what spoke for each word, unless it is known or could not be told. The last one that is
   * asked for counts: the server explains one sentence at a time. `done` is called when it is known.
   */
  explain(segment, done = () => {}) {
    this.#done = done;
    if (this.#asked === segment) return;
    this.#asked = null;
    this.#explaining.clear();
    if (segment.words || segment.unexplained || segment.state !== "ready" || !segment.source) return;
    this.#asked = segment;
    this.#explaining.add((signal) => this.#explain(segment, signal));
  }

  async #explain(segment, signal) {
    const generation = this.#generation;
    try {
      const answer = await api.translate({ ...this.request([segment.source]), explain: true }, signal);
      if (signal.aborted) return;
      this.#asked = null;
      if (generation === this.#generation) takeWords(segment, answer.translations[0]);
      else queueMicrotask(() => this.explain(segment, this.#done));
    } catch (error) {
      if (isAbort(error)) return;
      this.#asked = null;
      segment.unexplained = error.message;
    }
    this.dispatchEvent(new CustomEvent("segment", { detail: segment }));
    this.#done();
  }

  close() {
    this.queue.clear();
    this.#explaining.clear();
  }

  // What kinds of work do in their own way.

  /** @returns {Promise<{learnt: boolean, takeBack: () => Promise<boolean>}>} */
  async store(segment) {
    return this.learn(segment);
  }

  /** Translate open segments below again. */
  again(_segment) {}

  async retry(_segment) {}

  /** The user leaves a segment: keep what was edited. */
  async leave(_segment) {}

  /** Whether something would be lost if the work was left. */
  get unsaved() {
    return 0;
  }

  /** @returns {{label: string, aside: string, run: () => Promise<any>}[]} */
  downloads() {
    return [];
  }
}

/** Whether the memory has this pair already: then taking a confirmation back must not delete it. */
function isKnown(segment, memory) {
  return (segment.matches ?? []).some(
    (match) =>
      match.memory === memory && match.score >= 1 && match.source === segment.source && match.target === segment.target,
  );
}
