// One memory: what it is, what is in it, and what can be done with it.

import { api } from "../core/api.js";
import { confirmed } from "../core/dialogs.js";
import { h, save, show } from "../core/dom.js";
import { bytes, count, directionName } from "../core/format.js";
import { glyph } from "../core/glyphs.js";
import { dropdown, item } from "../core/menus.js";
import { bones, dropZone, failure } from "../core/parts.js";
import { loadMemories, may } from "../core/state.js";
import { complain, toast } from "../core/toasts.js";
import { JobList, waitingImports } from "./importing.js";
import { PairList } from "./pairs.js";

export function memoryView(name, go) {
  const title = h("h1", { tabindex: "-1" }, name);
  const facts = h("dl", { class: "facts" });
  const place = h("div", {}, bones(6));
  const controls = h("div", { class: "end" });
  const element = h(
    "div",
    { class: "page memory-page" },
    h("a", { class: "back small", href: "#/memories" }, "Memories"),
    h("div", { class: "page-head" }, title, controls),
    facts,
    place,
  );
  const view = { element, focus: () => title.focus(), close: () => {} };
  const open = async () => {
    try {
      const info = await api.memory(name);
      showMemory({ info, name, go, facts, place, controls, view });
    } catch (error) {
      show(place, failure(error, open));
    }
  };
  open();
  return view;
}

function showMemory({ info, name, go, facts, place, controls, view }) {
  const refresh = async () => {
    const now = await api.memory(name);
    show(facts, factsOf(now));
    await loadMemories();
  };
  const pairs = new PairList(name, info, () => refresh().catch(() => {}));
  const jobs = new JobList(async () => {
    await refresh();
    await pairs.load();
  });
  const bring = (file) => jobs.importFile(name, file);
  show(facts, factsOf(info));
  show(controls, actions(name, jobs, bring, go));
  show(place, jobs.element, pairs.element);
  view.close = () => jobs.close();
  if (may("learn")) dropZone(view.element, (files) => Array.from(files).forEach(bring));
  pairs.load();
  resume(name, jobs);
  const waiting = waitingImports.get(name);
  if (waiting) {
    waitingImports.delete(name);
    bring(waiting);
  }
}

/** Jobs that began before the page was opened. */
async function resume(name, jobs) {
  try {
    const answer = await api.jobs();
    const running = (answer.jobs ?? answer).filter(
      (job) => job.memory === name && ["queued", "running"].includes(job.state),
    );
    for (const job of running.slice(0, 3)) jobs.resume(job);
  } catch {
    // Their progress is not shown, which changes nothing.
  }
}

function factsOf(info) {
  const shown = [
    ["Direction", directionName(info)],
    ["Pairs", count(info.pairs)],
    ["Entries", count(info.entries)],
    ["On disk", bytes(info.bytes)],
    ["Index", info.index || "none"],
    info.pending > 0 && ["Not encoded yet", count(info.pending)],
  ].filter(Boolean);
  const notes = [info.problem, info.stale && `The index should be made anew: ${info.stale}`].filter(Boolean);
  return [
    shown.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", { class: "number" }, value))),
    notes.map((text) => h("p", { class: "problem" }, text)),
  ];
}

function actions(name, jobs, bring, go) {
  const files = h("input", {
    type: "file",
    class: "unseen",
    tabindex: "-1",
    multiple: true,
    "aria-label": "Files to import",
  });
  files.addEventListener("change", () => {
    Array.from(files.files).forEach(bring);
    files.value = "";
  });
  const open = h(
    "button",
    { class: "button primary", type: "button", on: { click: () => files.click() } },
    glyph("upload"),
    "Import",
  );
  const exporting = h(
    "button",
    { class: "button outlined", type: "button" },
    glyph("download"),
    "Export",
    glyph("down"),
  );
  const more = h("button", { class: "button outlined", type: "button" }, "More", glyph("down"));
  return [
    may("learn") && [open, files],
    dropdown(
      exporting,
      (close) =>
        ["tmx", "tsv", "jsonl"].map((format) => item(format.toUpperCase(), () => (close(), exportAs(name, format)))),
      { label: "Export" },
    ),
    dropdown(more, (close) => upkeep(name, jobs, close, go), { label: "More" }),
  ];
}

function upkeep(name, jobs, close, go) {
  const run = (label, begin) => () => {
    close();
    jobs.run(label, begin);
  };
  return [
    item(
      "Verify",
      run("Verifying", () => api.verify(name)),
      "compare with checksums",
    ),
    item(
      "Compact",
      run("Compacting", () => api.compact(name)),
      "remove deleted text",
    ),
    may("admin") && item("Delete…", () => (close(), remove(name, go))),
  ];
}

async function exportAs(name, format) {
  try {
    const file = await api.exportMemory(name, format);
    save(file.blob, file.name || `${name}.${format}`);
  } catch (error) {
    complain(error, "Not exported");
  }
}

async function remove(name, go) {
  if (
    !(await confirmed(`Delete ${name}?`, "All its pairs are deleted from the disk. This cannot be undone.", "Delete"))
  )
    return;
  try {
    await api.deleteMemory(name);
    await loadMemories();
    toast(`${name} is deleted`);
    go("/memories");
  } catch (error) {
    complain(error, "Not deleted");
  }
}
