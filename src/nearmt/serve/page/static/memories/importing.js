// Imports and other background jobs of a memory, with their progress.

import { api } from "../core/api.js";
import { announce, h, show } from "../core/dom.js";
import { bytes, count, counted, sentence } from "../core/format.js";
import { isAbort } from "../core/problems.js";

/** Files to import when the page of their memory is opened. @type {Map<string, File>} */
export const waitingImports = new Map();

/** Shows the jobs of a memory; `ended` is called after each. */
export class JobList {
  constructor(ended) {
    this.ended = ended;
    this.cancel = new AbortController();
    this.element = h("ul", { class: "jobs", "aria-label": "Running work" });
  }

  /** Upload a file and follow its import. */
  async importFile(name, file) {
    const line = this.#line(`Sending ${file.name}`);
    const form = new FormData();
    form.append("file", file, file.name);
    await this.#guard(line, async () => {
      const job = await api.importFile(name, form, {
        signal: this.cancel.signal,
        progress: (part) => line.draw(part, 1, ""),
      });
      await this.#follow(job, `Importing ${file.name}`, line);
    });
  }

  /** Follow a job that `begin` starts. */
  async run(label, begin) {
    const line = this.#line(label);
    await this.#guard(line, async () => this.#follow(await begin(), label, line));
  }

  /** Follow a job that runs already. */
  resume(job) {
    const label = { import: "Importing", compact: "Compacting", verify: "Verifying" }[job.kind] ?? job.kind;
    return this.run(label, async () => job);
  }

  close() {
    this.cancel.abort();
  }

  async #guard(line, work) {
    try {
      await work();
    } catch (error) {
      if (isAbort(error)) line.element.remove();
      else line.end(error.message, true);
    }
  }

  async #follow(started, label, line) {
    line.say(label);
    line.stopWith(() => api.cancelJob(started.id));
    let job = started;
    for await (job of api.follow(started.id, this.cancel.signal)) line.draw(job.done, job.total, job.message);
    line.end(outcome(job), job.state === "failed" || job.result?.damaged > 0);
    await this.ended(job);
  }

  #line(label) {
    const name = h("span", {}, label);
    const detail = h("span", { class: "meta number" });
    const bar = h("progress", { "aria-label": label });
    const stop = h("button", { class: "button", type: "button", hidden: true }, "Cancel");
    const element = h("li", {}, h("div", { class: "job-head" }, name, detail, stop), bar);
    this.element.append(element);
    return {
      element,
      say: (text) => {
        name.textContent = text;
        bar.setAttribute("aria-label", text);
      },
      stopWith: (cancel) => {
        stop.hidden = false;
        stop.onclick = () => cancel().catch(() => {});
      },
      draw: (done, total, message) => {
        if (total > 0) Object.assign(bar, { max: total, value: done });
        else bar.removeAttribute("value");
        detail.textContent = total > 1 ? `${count(done)} of ${count(total)}` : message;
      },
      end: (text, bad = false) => {
        const close = h("button", { class: "button", type: "button", on: { click: () => element.remove() } }, "Close");
        show(
          element,
          h(
            "div",
            { class: "job-head", role: bad ? "alert" : null },
            h("span", { class: bad ? "problem" : "" }, text),
            close,
          ),
        );
        announce(text);
      },
    };
  }
}

/** What a finished job did, in one line. */
export function outcome(job) {
  if (job.state === "failed") return sentence(job.message) || "Failed";
  if (job.state === "cancelled") return "Cancelled. What was done until then is kept.";
  return { import: imported, compact: compacted, verify: verified }[job.kind]?.(job.result) ?? "Done";
}

function imported({ pairs, skipped, dropped, problem_count: problems }) {
  const left = Object.entries({ ...skipped, ...dropped }).filter(([, number]) => number > 0);
  const parts = left.map(([reason, number]) => `${count(number)} left out (${reason})`);
  if (problems > 0) parts.push(counted(problems, "problem"));
  return [`${counted(pairs, "pair")} imported`, ...parts].join(", ");
}

function compacted({ bytes_before: before, bytes: after }) {
  return `Compacted: ${bytes(after)} on disk, ${bytes(before)} before`;
}

function verified({ damaged }) {
  return damaged > 0
    ? `${counted(damaged, "file")} damaged: run nearmt verify --repair`
    : "Every file is as it was written";
}
