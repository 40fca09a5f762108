// The empty state of the translate view: type, paste, drop, or go on with a document.

import { api } from "../core/api.js";
import { confirmed } from "../core/dialogs.js";
import { h, show } from "../core/dom.js";
import { ago, count, directionName } from "../core/format.js";
import { glyph } from "../core/glyphs.js";
import { setDirection, state } from "../core/state.js";
import { complain } from "../core/toasts.js";
import { picker } from "./picker.js";

const MOST = 200_000;
const RECENT = 5;
const DRAFT = "nearmt.draft";

/**
 * @param {{text?: string, translate: (text: string) => Promise<void>, open: (file: File) => void}} options
 */
export function composer({ text = "", translate, open }) {
  text ||= sessionStorage.getItem(DRAFT) ?? "";
  const { source_lang: language } = state.direction;
  const field = h("textarea", {
    class: "composer-field",
    lang: language,
    value: text,
    placeholder: "Type or paste text, or drop a document",
    "aria-label": "Text to translate",
    "aria-describedby": "composer-problem",
    spellcheck: "true",
  });
  const files = h("input", { type: "file", class: "unseen", tabindex: "-1", "aria-label": "Document" });
  const go = h("button", { class: "button primary", type: "button" }, "Translate", h("kbd", {}, "Ctrl ↵"));
  const problem = h("p", { id: "composer-problem", class: "problem", role: "alert" });
  const update = () => {
    const long = field.value.length > MOST;
    problem.textContent = long ? `At most ${count(MOST)} characters at a time: open longer texts as a document.` : "";
    go.disabled = long || field.value.trim() === "";
  };
  const run = async () => {
    if (go.disabled) return;
    go.disabled = true;
    try {
      await translate(field.value);
      keep("");
    } catch (error) {
      problem.textContent = error.message;
      go.disabled = false;
    }
  };
  field.addEventListener("input", () => (update(), keep(field.value)));
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      run();
    }
  });
  go.addEventListener("click", run);
  files.addEventListener("change", () => files.files[0] && open(files.files[0]));
  update();
  const recent = h("section", { class: "recent" });
  showRecent(recent);
  const element = h(
    "div",
    { class: "page composer" },
    h("h1", { class: "unseen" }, "Translate"),
    h("div", { class: "composer-head" }, directionControl(), picker({ start: true })),
    field,
    problem,
    h(
      "div",
      { class: "composer-end" },
      go,
      h(
        "button",
        { class: "button", type: "button", on: { click: () => files.click() } },
        glyph("file"),
        "Open a document",
      ),
      files,
      h("span", { class: "meta composer-formats" }, "XLIFF, PO, TMX, HTML, Markdown, JSON, CSV, XLSX, text and more"),
    ),
    recent,
  );
  return { element, focus: () => field.focus() };
}

/** What is typed survives other views and loading the page again. */
function keep(text) {
  try {
    sessionStorage.setItem(DRAFT, text);
  } catch {
    // Too long to keep.
  }
}

/** The direction: a choice if there are several models, else only its name. */
function directionControl() {
  if (state.directions.length < 2) return h("p", { class: "direction" }, directionName(state.direction));
  const select = h(
    "select",
    { class: "input direction", "aria-label": "Direction" },
    state.directions.map((one, place) =>
      h("option", { value: String(place), selected: one === state.direction }, directionName(one)),
    ),
  );
  select.addEventListener("change", () => setDirection(state.directions[Number(select.value)]));
  return select;
}

async function showRecent(place) {
  let jobs;
  try {
    const answer = await api.jobs();
    jobs = answer.jobs ?? answer;
  } catch {
    return; // A list of earlier work is not worth an error.
  }
  const documents = jobs.filter((job) => job.kind === "document").sort((a, b) => b.created.localeCompare(a.created));
  if (documents.length === 0) {
    show(place);
    return;
  }
  show(
    place,
    h("h2", {}, "Recent documents"),
    h(
      "ul",
      {},
      documents.slice(0, RECENT).map((job) => recentRow(job, place)),
    ),
  );
}

const STATES = { queued: "waiting", running: "is translated", done: "", failed: "failed", cancelled: "cancelled" };

function recentRow(job, place) {
  const name = job.result?.filename ?? job.filename ?? job.id;
  return h(
    "li",
    {},
    h("a", { href: `#/translate/${encodeURIComponent(job.id)}` }, glyph("file"), h("span", {}, name)),
    h("span", { class: "meta" }, [STATES[job.state], ago(Date.parse(job.created))].filter(Boolean).join(" · ")),
    h(
      "button",
      {
        class: "button icon",
        type: "button",
        "aria-label": `Delete ${name}`,
        on: { click: () => remove(job, name, place) },
      },
      glyph("trash"),
    ),
  );
}

async function remove(job, name, place) {
  const text = "Its translations and corrections are deleted from the server. What memories have learnt stays.";
  if (!(await confirmed(`Delete ${name}?`, text, "Delete"))) return;
  try {
    await api.deleteDocument(job.id);
  } catch (error) {
    complain(error, "Not deleted");
  }
  showRecent(place);
}
