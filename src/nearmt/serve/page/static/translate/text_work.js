// A typed or pasted text: sentences are translated one by one, several at a time.

import { api } from "../core/api.js";
import { save, settled } from "../core/dom.js";
import { isAbort } from "../core/problems.js";
import { cut } from "../core/sentences.js";
import { segment, isOpen, take, wholeText } from "./segments.js";
import { Work } from "./work.js";

const KEPT = "nearmt.text";
/** The first ones come one by one; further below several share a request. */
const ONE_BY_ONE = 12;
const TOGETHER = 4;

export class TextWork extends Work {
  title = "Text";
  #keep = settled(() => this.#write(), 400);

  constructor(text, spans, direction) {
    super();
    this.text = text;
    this.spans = spans;
    this.direction = { ...direction };
    this.segments = cut(text, spans).map(({ before, text: source }, number) =>
      segment(number, source, { before, state: source ? "waiting" : "ready" }),
    );
    this.addEventListener("progress", () => this.#keep());
    window.addEventListener("pagehide", this.#keep.now);
  }

  close() {
    super.close();
    window.removeEventListener("pagehide", this.#keep.now);
    this.#keep.now();
  }

  static async of(text, direction) {
    const { sentences } = await api.sentences(text, direction.source_lang);
    return new TextWork(text, sentences, direction);
  }

  start() {
    this.#translate(this.segments.filter((one) => one.source && one.state === "waiting"));
    this.#keep();
  }

  /** Only sentences: what ends a text is no sentence. */
  get count() {
    return this.segments.filter((one) => one.source).length;
  }

  get ready() {
    return this.segments.filter((one) => one.source && one.state === "ready" && !one.busy).length;
  }

  again(changed) {
    const below = this.segments.filter((one) => one.number > changed.number && one.source && isOpen(one));
    for (const one of below) one.busy = one.state === "ready";
    this.#translate(below);
    for (const one of below) this.tell(one);
  }

  get unsaved() {
    return this.segments.filter((one) => one.edited && !one.confirmed).length;
  }

  async retry(one) {
    one.state = "waiting";
    one.problem = "";
    this.tell(one);
    this.#translate([one]);
  }

  downloads() {
    const text = () => new Blob([wholeText(this.segments)], { type: "text/plain;charset=utf-8" });
    return [
      { label: "Text", aside: ".txt", run: async () => save(text(), "translation.txt") },
      { label: "Table of both sides", aside: ".tsv", run: async () => save(this.#table(), "translation.tsv") },
    ];
  }

  #table() {
    const cell = (value) => value.replace(/[\t\r\n]+/g, " ");
    const rows = this.segments.filter((one) => one.source && one.target);
    const lines = rows.map((one) => `${cell(one.source)}\t${cell(one.target)}\n`);
    return new Blob(lines, { type: "text/tab-separated-values;charset=utf-8" });
  }

  #translate(wanted) {
    const nearest = [...wanted].sort((a, b) => this.rank(a.number) - this.rank(b.number));
    for (let at = 0; at < nearest.length;) {
      const group = nearest.slice(at, at + (at < ONE_BY_ONE ? 1 : TOGETHER));
      const turns = group.map((one) => (one.turn += 1));
      this.queue.add(
        (signal) => this.#ask(group, turns, signal),
        () => this.rank(group[0].number),
      );
      at += group.length;
    }
  }

  async #ask(group, turns, signal) {
    const wanted = group.filter((one, place) => one.turn === turns[place]);
    const still = (one) => one.turn === turns[group.indexOf(one)];
    if (wanted.length === 0) return;
    const waiting = (pause) => wanted.forEach((one) => this.#wait(one, pause));
    try {
      const answer = await api.translate(this.request(wanted.map((one) => one.source)), signal, waiting);
      wanted.forEach((one, place) => still(one) && this.#arrived(one, answer.translations[place]));
    } catch (error) {
      if (isAbort(error)) return;
      wanted.filter(still).forEach((one) => this.#failed(one, error));
    }
  }

  #wait(one, pause) {
    one.problem = `The server is busy. Next try in ${Math.ceil(pause)} s.`;
    this.tell(one);
  }

  #arrived(one, translation) {
    take(one, translation, this.direction.target_lang);
    this.tell(one);
  }

  #failed(one, error) {
    one.busy = false;
    one.problem = error.message;
    if (one.state === "waiting") one.state = "failed";
    this.tell(one);
  }

  #write() {
    const rows = this.segments.map(({ target, confirmed, edited, learnt, state }) => ({
      target,
      confirmed,
      edited,
      learnt,
      state,
    }));
    try {
      sessionStorage.setItem(
        KEPT,
        JSON.stringify({ text: this.text, spans: this.spans, direction: this.direction, rows }),
      );
    } catch {
      // Too large to keep: it is lost when the page is closed.
    }
  }

  /** The text of this tab, with its corrections, after the page was loaded again. */
  static restored() {
    let kept;
    try {
      kept = JSON.parse(sessionStorage.getItem(KEPT) ?? "null");
    } catch {
      return null;
    }
    if (!kept?.text) return null;
    const work = new TextWork(kept.text, kept.spans, kept.direction);
    work.segments.forEach((one, place) => {
      if (kept.rows[place].state !== "ready") return;
      Object.assign(one, kept.rows[place]);
      if (one.confirmed) one.undo.push(work.forgetting(one));
    });
    return work;
  }

  static forget() {
    sessionStorage.removeItem(KEPT);
  }
}
