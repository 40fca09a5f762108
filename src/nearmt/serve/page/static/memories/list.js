// All memories: what is in each, whether it is used for translating and how strongly, which one learns.

import { h, show } from "../core/dom.js";
import { bytes, count, directionName } from "../core/format.js";
import { glyph } from "../core/glyphs.js";
import { bones, dropZone, failure } from "../core/parts.js";
import { choose, learner, learnInto, loadMemories, may, state, usable } from "../core/state.js";
import { weightField } from "../translate/picker.js";
import { createMemory } from "./creating.js";

export function listView(go) {
  const title = h("h1", { tabindex: "-1" }, "Memories");
  const place = h("div", { class: "memories" }, bones(4));
  const make = (file) => createMemory(go, file);
  const create = h(
    "button",
    { class: "button primary", type: "button", on: { click: () => make() } },
    glyph("plus"),
    "New memory",
  );
  const element = h(
    "div",
    { class: "page" },
    h("div", { class: "page-head" }, title, h("div", { class: "end" }, may("admin") && create)),
    h(
      "p",
      { class: "page-lead" },
      "Stored translations. Those in use speak for words of new translations, as strongly as their weights say.",
    ),
    place,
  );
  if (may("admin")) dropZone(element, (files) => make(files[0]));
  const again = () => focusKept(place, () => show(place, table(again)));
  const draw = async () => {
    try {
      await loadMemories();
      show(place, state.memories.length > 0 ? table(again) : empty(make));
    } catch (error) {
      show(place, failure(error, draw));
    }
  };
  draw();
  return { element, focus: () => title.focus(), close: () => {} };
}

/** Draw anew; the control that had the focus has it again. */
function focusKept(place, draw) {
  const name = place.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
  draw();
  if (name) place.querySelector(`[aria-label="${CSS.escape(name)}"]`)?.focus();
}

function empty(make) {
  const files = h("input", { type: "file", class: "unseen", tabindex: "-1", "aria-label": "File to import" });
  files.addEventListener("change", () => files.files[0] && make(files.files[0]));
  return h(
    "div",
    { class: "empty" },
    h("h2", {}, "No memory yet"),
    h(
      "p",
      {},
      "Import the translations that you have: TMX, XLIFF, PO, CSV, TSV, JSONL or XLSX. ",
      "Or make an empty one that learns from your corrections.",
    ),
    may("admin") &&
      h(
        "button",
        { class: "button outlined", type: "button", on: { click: () => files.click() } },
        glyph("upload"),
        "Import a file",
      ),
    files,
  );
}

/** `changed` is called when another memory is used. */
function table(changed) {
  const fitting = new Set(usable().map((one) => one.name));
  const head = ["Use", "Memory", "Pairs", "Size", "Weight", "Learns"];
  return h(
    "table",
    { class: "memory-table" },
    h("caption", { class: "unseen" }, "Memories"),
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        head.map((name) => h("th", { scope: "col" }, name)),
      ),
    ),
    h(
      "tbody",
      {},
      state.memories.map((memory) => row(memory, fitting.has(memory.name) && !memory.problem, changed)),
    ),
  );
}

function row(memory, fits, changed) {
  const { name } = memory;
  const used = h("input", {
    type: "checkbox",
    checked: state.weights.has(name),
    disabled: !fits,
    "aria-label": `Use ${name}`,
  });
  used.addEventListener("change", () => {
    choose(name, used.checked ? 1 : 0);
    changed();
  });
  const weight = weightField(name);
  weight.disabled = !used.checked || !fits;
  const learns = h("input", {
    type: "radio",
    name: "learns",
    checked: learner() === name,
    disabled: weight.disabled || !may("learn"),
    "aria-label": `${name} learns`,
  });
  learns.addEventListener("change", () => learnInto(name));
  return h(
    "tr",
    {},
    h("td", {}, used),
    h(
      "th",
      { scope: "row" },
      h("a", { href: `#/memories/${encodeURIComponent(name)}` }, name),
      h("span", { class: memory.problem ? "problem" : "meta" }, memory.problem || directionName(memory)),
    ),
    h("td", { class: "number" }, count(memory.pairs)),
    h("td", { class: "number" }, bytes(memory.bytes)),
    h("td", {}, weight),
    h("td", {}, learns),
  );
}
