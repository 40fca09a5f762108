// A document: the server translates it in the background, keeps corrections, and gives it back in its own format.

import { api } from "../core/api.js";
import { save, settled } from "../core/dom.js";
import { isAbort } from "../core/problems.js";
import { learner, may } from "../core/state.js";
import { isOpen, replaceText, segment } from "./segments.js";
import { Work } from "./work.js";

const PAGE = 200;
const PAUSE = 700;
/** Units that are translated again in one job: the nearest come first, and a correction changes the order. */
const TOGETHER = 16;

export class DocumentWork extends Work {
  total = 0;
  job = null;
  #cancel = new AbortController();
  #loading = null;
  #working = false;
  /** An edit that is being kept. */
  #keeping = null;
  /** Edits are kept when typing pauses: loading the page again loses little. */
  #keep = settled((one) => this.leave(one), 1000);

  constructor(id) {
    super();
    this.id = id;
    this.title = "Document";
  }

  get count() {
    return this.total;
  }

  get ready() {
    return this.job?.state === "done" ? this.total : Math.min(this.job?.done ?? 0, this.total);
  }

  get running() {
    return this.job !== null && ["queued", "running"].includes(this.job.state);
  }

  /** Load what is there, and follow the job until it has ended. */
  async start() {
    this.#took(await api.document(this.id));
    await this.more();
    if (this.running) this.#follow();
  }

  async #follow() {
    let last = 0;
    try {
      for await (const job of api.follow(this.id, this.#cancel.signal)) {
        this.#took(job);
        if (performance.now() - last < PAUSE && ["queued", "running"].includes(job.state)) continue;
        last = performance.now();
        await this.refresh();
      }
      this.#work();
    } catch (error) {
      if (!isAbort(error)) this.dispatchEvent(new CustomEvent("failed", { detail: error }));
    }
  }

  #took(job) {
    this.job = job;
    this.title = job.result?.filename ?? job.filename ?? "Document";
    this.tellProgress();
  }

  /** Load the next units, if there are any that are not shown. */
  async more() {
    if (this.#loading || (this.total > 0 && this.segments.length >= this.total)) return;
    this.#loading = this.#load(this.segments.length, PAGE);
    try {
      await this.#loading;
    } finally {
      this.#loading = null;
    }
  }

  async #load(offset, limit) {
    const { units, total } = await api.units(this.id, { offset, limit }, this.#cancel.signal);
    this.total = total;
    const known = new Map(this.segments.map((one) => [one.unit, one]));
    let added = false;
    for (const unit of units) {
      const one = known.get(unit.number);
      if (one) this.#update(one, unit);
      else {
        this.segments.push(fresh(unit, this.segments.length));
        added = true;
      }
    }
    if (added) this.dispatchEvent(new Event("segments"));
    this.tellProgress();
  }

  /** Ask again for the units that are shown. */
  async refresh() {
    const shown = this.segments.length;
    for (let offset = 0; offset < Math.max(shown, 1); offset += PAGE) await this.#load(offset, PAGE);
  }

  #update(one, unit) {
    if (!isOpen(one) || unit.origin === "" || (one.state === "ready" && one.target === unit.target)) return;
    one.origin = unit.origin;
    one.warnings = unit.warnings;
    replaceText(one, unit.target, this.direction.target_lang);
    this.tell(one);
  }

  async store(one) {
    const { unit, target } = one;
    const learn = (may("learn") && learner()) || null;
    await this.#keeping; // else what is kept could come after what is confirmed
    const { learnt, warnings } = await api.putUnit(this.id, unit, { target, confirmed: true, learn });
    one.warnings = warnings;
    const isNew = learnt !== null && learnt.before !== target;
    const takeBack = async () => {
      if (isNew) await restore(learnt);
      await api.putUnit(this.id, unit, { target, confirmed: false, learn: null });
      return isNew;
    };
    return { learnt: isNew, takeBack };
  }

  again(changed) {
    const below = this.segments.filter((one) => one.number > changed.number && isOpen(one) && one.state === "ready");
    for (const one of below) {
      one.busy = true;
      one.turn += 1;
      this.tell(one);
    }
    this.#work();
  }

  /** Translate what is busy again, until nothing is. What is under way when the user corrects more comes once more. */
  async #work() {
    if (this.#working || this.running) return;
    this.#working = true;
    try {
      for (let next = this.#nearest(); next.length > 0; next = this.#nearest()) await this.#retranslate(next);
    } catch (error) {
      if (!isAbort(error)) this.dispatchEvent(new CustomEvent("failed", { detail: error }));
      for (const one of this.segments.filter((each) => each.busy)) this.#rest(one);
    } finally {
      this.#working = false;
      this.tellProgress();
    }
  }

  #nearest() {
    const busy = this.segments.filter((one) => one.busy && isOpen(one));
    return busy.sort((a, b) => this.rank(a.number) - this.rank(b.number)).slice(0, TOGETHER);
  }

  async #retranslate(some) {
    const turns = some.map((one) => one.turn);
    const { id } = await api.retranslate(
      this.id,
      some.map((one) => one.unit),
      this.#cancel.signal,
    );
    for await (const job of api.follow(id, this.#cancel.signal)) {
      if (job.state === "failed") throw new Error(job.message || "Failed");
    }
    const first = Math.min(...some.map((one) => one.number));
    const last = Math.max(...some.map((one) => one.number));
    for (let at = first; at <= last; at += PAGE) await this.#load(at, Math.min(PAGE, last - at + 1));
    some.forEach((one, place) => one.turn === turns[place] && this.#rest(one));
  }

  #rest(one) {
    one.busy = false;
    this.tell(one);
  }

  edit(one, text) {
    super.edit(one, text);
    this.#keep(one);
  }

  /** Keep an edit that is not confirmed: it is in the document, but it is not learnt. */
  async leave(one) {
    await this.#keeping;
    if (!one.edited || one.confirmed || one.saving || one.kept === one.target) return;
    one.kept = one.target;
    this.#keeping = api
      .putUnit(this.id, one.unit, { target: one.target, confirmed: false, learn: null })
      .catch((error) => {
        one.kept = null;
        this.dispatchEvent(new CustomEvent("failed", { detail: error }));
      });
    await this.#keeping;
  }

  /** Wait until everything that is asked for is translated. */
  async #idle() {
    while (this.running || this.#working) {
      await new Promise((resolve) => this.addEventListener("progress", resolve, { once: true }));
    }
  }

  downloads() {
    const run = async () => {
      await this.leave(this.segments[this.focus]);
      await this.#idle();
      const { blob, name } = await api.result(this.id);
      save(blob, name || this.title);
    };
    return [{ label: "Document", aside: suffix(this.title), run }];
  }

  close() {
    super.close();
    this.#keep.now();
    this.#cancel.abort();
  }
}

/** Give a memory back what it had before it learnt a pair. */
function restore({ memory, id, before }) {
  return before === null ? api.deletePair(memory, id) : api.updatePair(memory, id, before);
}

function fresh(unit, number) {
  const ready = unit.origin !== "";
  return segment(number, unit.source, {
    unit: unit.number,
    target: unit.target,
    origin: unit.origin,
    confirmed: unit.confirmed,
    edited: unit.origin === "edited" && !unit.confirmed,
    warnings: unit.warnings,
    state: ready ? "ready" : "waiting",
  });
}

function suffix(name) {
  const dot = name.lastIndexOf(".");
  return dot > 0 ? name.slice(dot) : "";
}
