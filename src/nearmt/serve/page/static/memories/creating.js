// A new memory, and what is imported into it.

import { api } from "../core/api.js";
import { dialog, field } from "../core/dialogs.js";
import { h } from "../core/dom.js";
import { directionName } from "../core/format.js";
import { choose, loadMemories, state } from "../core/state.js";
import { waitingImports } from "./importing.js";

const NAME = "[A-Za-z0-9][A-Za-z0-9._\\-]{0,63}";

/** Ask for a name, make the memory and go to it; `file` is imported there. */
export async function createMemory(go, file = null) {
  const made = await dialog({
    title: file ? `Import ${file.name}` : "New memory",
    fields: [
      field(
        "Name",
        "name",
        { required: true, pattern: NAME, maxlength: "64", value: file ? nameFor(file.name) : "", autofocus: true },
        "Letters, digits, dots, hyphens and underscores",
      ),
      direction(),
    ],
    action: file ? "Create and import" : "Create",
    submit: async (values) => {
      const pair = state.directions[Number(values.direction ?? 0)] ?? {};
      return api.createMemory({ name: values.name.trim(), ...pair });
    },
  });
  if (!made) return;
  const first = state.weights.size === 0;
  await loadMemories();
  if (first) choose(made.name, 1);
  if (file) waitingImports.set(made.name, file);
  go(`/memories/${encodeURIComponent(made.name)}`);
}

function direction() {
  if (state.directions.length < 2) return null;
  const chosen = state.directions.indexOf(state.direction);
  const options = state.directions.map((one, place) =>
    h("option", { value: String(place), selected: place === chosen }, directionName(one)),
  );
  return h(
    "label",
    { class: "field" },
    h("span", {}, "Direction"),
    h("select", { class: "input", name: "direction" }, options),
  );
}

/** A name that the server accepts, made from that of a file. */
export function nameFor(filename) {
  const stem = filename.replace(/\.[^.]*$/, "");
  return (
    stem
      .replace(/[^A-Za-z0-9._-]+/g, "-")
      .replace(/^[^A-Za-z0-9]+/, "")
      .slice(0, 64) || "memory"
  );
}
