// The translate view: a composer, or a text or document with its grid and inspector.

import { api } from "../core/api.js";
import { confirmed } from "../core/dialogs.js";
import { h, show } from "../core/dom.js";
import { counted } from "../core/format.js";
import { bones, dropZone, failure, hint } from "../core/parts.js";
import { chosen, changed, state } from "../core/state.js";
import { complain } from "../core/toasts.js";
import { composer } from "./composer.js";
import { DocumentWork } from "./document_work.js";
import { Grid } from "./grid.js";
import { Inspector } from "./inspector.js";
import { TextWork } from "./text_work.js";
import { toolbar } from "./toolbar.js";

/**
 * @param {string[]} parts of the address: the id of a document, or nothing
 * @returns {{element: any, focus: () => void, close: () => void}}
 */
export function translateView(parts, go) {
  const id = parts[0] ?? "";
  const element = h("div", { class: "translate" });
  const view = { element, focus: () => {}, close: () => {} };
  dropZone(element, (files) => send(view, files[0], go));
  if (id) showDocument(view, id, go);
  else {
    const work = TextWork.restored();
    if (work) showText(view, work, go);
    else compose(view, "", go);
  }
  return view;
}

function compose(view, text, go) {
  view.close();
  view.close = () => {};
  const start = async (typed) => {
    showText(view, await TextWork.of(typed, state.direction), go);
  };
  const made = composer({ text, translate: start, open: (file) => send(view, file, go) });
  show(view.element, made.element);
  view.focus = made.focus;
  if (view.element.isConnected) made.focus();
}

function showText(view, work, go) {
  const edit = async () => {
    const { unsaved } = work;
    const lost = `${counted(unsaved, "edited sentence")} not confirmed: what you wrote there is lost.`;
    if (unsaved > 0 && !(await confirmed("Leave this text?", lost, "Leave"))) return;
    compose(view, work.text, go);
    TextWork.forget(); // after it was closed, which keeps it
  };
  showWork(view, work, { back: edit, backLabel: "New text", glyphName: "plus" });
  work.start();
  view.grid.begin();
}

async function showDocument(view, id, go) {
  const work = new DocumentWork(id);
  view.close = () => work.close();
  const title = h("h1", { class: "unseen", tabindex: "-1" }, "Document");
  const page = (content) => show(view.element, h("div", { class: "page" }, title, content));
  page(bones(6));
  work.addEventListener("failed", (/** @type {any} */ { detail }) => complain(detail, "Not translated further"));
  try {
    await work.start();
  } catch (error) {
    if (view.element.isConnected) page(failure(error, () => showDocument(view, id, go)));
    return;
  }
  if (!view.element.isConnected) return;
  showWork(view, work, { back: () => go("/translate"), backLabel: "Close", glyphName: "close" });
  watchEnd(view, work);
  view.focus();
  view.grid.begin();
}

/** Load further units when the end of those that are shown comes near. */
function watchEnd(view, work) {
  const seen = new IntersectionObserver(
    (entries) =>
      entries.some((one) => one.isIntersecting) && work.more().catch((error) => complain(error, "Not loaded")),
    { rootMargin: "1200px" },
  );
  seen.observe(view.grid.element.querySelector(".rows-end"));
}

function showWork(view, work, leaving) {
  const grid = new Grid(work, (segment, word) => inspector.show(segment, word));
  const inspector = new Inspector(work, (text) => grid.insert(text));
  const tools = toolbar(work, leaving);
  let used = JSON.stringify(chosen());
  const other = () => {
    if (used === JSON.stringify(chosen())) return;
    used = JSON.stringify(chosen());
    grid.forgetWords();
    work.again({ number: -1 });
  };
  changed.addEventListener("change", other);
  show(
    view.element,
    tools.element,
    h("div", { class: "workspace" }, h("div", { class: "grid-place" }, grid.element, keysHint()), inspector.element),
  );
  view.grid = grid;
  view.focus = tools.focus;
  view.close = () => {
    changed.removeEventListener("change", other);
    if (grid.active) work.leave(grid.active);
    work.close();
  };
}

function keysHint() {
  const keys = [
    ["Ctrl ↵", "confirm, learn, go on"],
    ["Ctrl 1–9", "insert a match"],
    ["Alt ↑ ↓", "move"],
    ["Ctrl ⇧ ↵", "undo the last confirmation"],
  ];
  return h(
    "p",
    { class: "keys-hint meta", id: "keys-hint" },
    keys.map(([key, what]) => h("span", {}, h("kbd", {}, key), ` ${what}`)),
  );
}

/** Upload a document, and go to it. */
async function send(view, file, go) {
  view.close();
  const cancel = new AbortController();
  view.close = () => cancel.abort();
  const bar = h("progress", { "aria-label": "Upload", max: 1, value: 0 });
  show(
    view.element,
    h(
      "div",
      { class: "page sending", role: "status" },
      h("h1", {}, file.name),
      hint("The document is sent to the server."),
      bar,
    ),
  );
  const form = new FormData();
  form.append("file", file, file.name);
  for (const [name, value] of Object.entries(state.direction)) if (value) form.append(name, value);
  form.append("memories", JSON.stringify(chosen()));
  try {
    const job = await api.sendDocument(form, { signal: cancel.signal, progress: (part) => (bar.value = part) });
    view.close = () => {};
    go(`/translate/${encodeURIComponent(job.id)}`);
  } catch (error) {
    if (cancel.signal.aborted) return;
    complain(error, file.name);
    compose(view, "", go);
  }
}
