// Which memories are used for translating, how strongly, and which one learns.

import { h } from "../core/dom.js";
import { counted } from "../core/format.js";
import { glyph } from "../core/glyphs.js";
import { dropdown } from "../core/menus.js";
import { changed, choose, chosen, learner, learnInto, may, state, usable } from "../core/state.js";

/** More memories than these can be searched by name. */
const MANY = 8;

/** A button that names the chosen memories and opens the choice. */
export function picker({ start = false } = {}) {
  const label = h("span", { class: "picker-label" });
  const button = h("button", { class: "button outlined", type: "button" }, glyph("memory"), label, glyph("down"));
  const name = () => {
    const text = summary();
    label.textContent = text;
    button.setAttribute("aria-label", `Memories: ${text}`);
  };
  changed.addEventListener("change", name);
  name();
  return dropdown(button, () => choices(), { start, label: "Memories", role: "dialog" });
}

function summary() {
  const uses = chosen();
  if (uses.length === 0) return "No memory";
  const names = uses.map(({ name, weight }) => (weight === 1 ? name : `${name} × ${weight}`));
  return names.length > 2 ? `${names[0]} and ${names.length - 1} more` : names.join(" + ");
}

function choices() {
  const memories = usable();
  if (memories.length === 0) {
    return h(
      "div",
      { class: "picker" },
      h("p", { class: "soft small" }, "There is no memory in this direction yet. The model translates alone."),
      h("a", { class: "button outlined", href: "#/memories" }, "Create or import one"),
    );
  }
  const rows = chosenFirst(memories).map((one) => ({ name: one.name.toLowerCase(), element: choice(one) }));
  const found = h("div", { class: "picker-rows" }, rows.map((row) => row.element));
  const find = (text) => {
    for (const { name, element } of rows) element.hidden = !name.includes(text);
  };
  return h(
    "div",
    { class: "picker" },
    memories.length > MANY && searchField(find),
    h(
      "div",
      { class: "picker-head meta", "aria-hidden": "true" },
      h("span", {}, "Memory"),
      h("span", {}, "Weight"),
      may("learn") && h("span", {}, "Learns"),
    ),
    found,
    h(
      "p",
      { class: "meta" },
      "A memory of weight 2 counts twice as much as one of weight 1. Confirmed sentences go into the one that learns.",
    ),
  );
}

/** The memories in use, then the others. */
function chosenFirst(memories) {
  const used = (one) => Number(state.weights.has(one.name));
  return [...memories].sort((a, b) => used(b) - used(a));
}

function searchField(find) {
  return h("input", {
    class: "input",
    type: "search",
    placeholder: "Find a memory",
    "aria-label": "Find a memory",
    spellcheck: "false",
    on: { input: ({ target }) => find(target.value.trim().toLowerCase()) },
  });
}

function choice(memory) {
  const { name } = memory;
  const used = h("input", { type: "checkbox", checked: state.weights.has(name), disabled: Boolean(memory.problem) });
  const weight = weightField(name);
  const learns = h("input", {
    type: "radio",
    name: "learns",
    checked: learner() === name,
    "aria-label": `${name} learns`,
  });
  const update = () => {
    weight.disabled = learns.disabled = !used.checked;
    learns.checked = learner() === name;
  };
  used.addEventListener("change", () => {
    choose(name, used.checked ? Number(weight.value) || 1 : 0);
    for (const one of document.querySelectorAll(".picker-row")) one.dispatchEvent(new Event("update"));
  });
  learns.addEventListener("change", () => learnInto(name));
  const row = h(
    "div",
    { class: "picker-row", on: { update } },
    h(
      "label",
      {},
      used,
      h("span", { class: "picker-name" }, name),
      h("span", { class: "meta" }, memory.problem || counted(memory.pairs, "pair")),
    ),
    weight,
    may("learn") && learns,
  );
  update();
  return row;
}

/** The weight of a chosen memory. */
export function weightField(name) {
  const field = h("input", {
    class: "input number weight",
    type: "number",
    min: "0.1",
    max: "10",
    step: "0.1",
    value: String(state.weights.get(name) ?? 1),
    "aria-label": `Weight of ${name}`,
  });
  field.addEventListener("change", () => {
    const value = Math.min(10, Math.max(0.1, Number(field.value) || 1));
    field.value = String(value);
    if (state.weights.has(name)) choose(name, value);
  });
  return field;
}
