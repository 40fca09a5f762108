// The pairs of a memory: search, edit, delete.

import { api } from "../core/api.js";
import { announce, h, settled, show } from "../core/dom.js";
import { count, counted } from "../core/format.js";
import { glyph } from "../core/glyphs.js";
import { bones, failure } from "../core/parts.js";
import { isAbort } from "../core/problems.js";
import { may } from "../core/state.js";
import { complain, toast } from "../core/toasts.js";

const PAGE = 50;

export class PairList {
  #cancel = new AbortController();

  /** `changed` is called after pairs were changed or deleted. */
  constructor(name, info, changed) {
    this.name = name;
    this.info = info;
    this.changed = changed;
    this.total = 0;
    this.search = h("input", {
      class: "input",
      type: "search",
      placeholder: "Search source and target",
      "aria-label": "Search pairs",
      spellcheck: "false",
    });
    this.told = h("p", { class: "meta number", role: "status" });
    this.list = h("ol", { class: "pairs", "aria-label": "Pairs" });
    this.more = h("button", { class: "button outlined more", type: "button", hidden: true });
    this.place = h("div", {}, bones(6));
    this.element = h(
      "section",
      { "aria-label": "Pairs" },
      h("div", { class: "pairs-head" }, glyph("search"), this.search, this.told),
      this.place,
    );
    this.search.addEventListener(
      "input",
      settled(() => this.load(), 200),
    );
    this.more.addEventListener("click", () => this.#page(this.list.children.length));
  }

  /** Show the first pairs that contain what is searched. */
  async load() {
    await this.#page(0);
  }

  async #page(offset) {
    this.#cancel.abort();
    const { signal } = (this.#cancel = new AbortController());
    const query = this.search.value.trim();
    try {
      const answer = await api.pairs(this.name, { query, offset, limit: PAGE }, signal);
      if (offset === 0) show(this.list);
      const first = this.list.children.length;
      this.list.append(...answer.pairs.map((pair) => this.#row(pair)));
      this.#tell(answer.total, query);
      if (offset > 0) this.list.children[first]?.querySelector("button")?.focus();
    } catch (error) {
      if (!isAbort(error))
        show(
          this.place,
          failure(error, () => this.load()),
        );
    }
  }

  #tell(total, query) {
    const shown = this.list.children.length;
    this.total = total;
    this.told.textContent = query ? `${counted(total, "pair")} found` : counted(total, "pair");
    this.more.hidden = shown >= total;
    this.more.textContent = `Show ${count(Math.min(PAGE, total - shown))} more`;
    if (total > 0) show(this.place, this.list, this.more);
    else
      show(
        this.place,
        query
          ? nothing(`No pair contains “${query}”.`)
          : nothing("Nothing is stored yet. Import a file, or drop one here."),
      );
  }

  #row(pair) {
    const target = h("div", { class: "pair-target", lang: this.info.target_lang }, pair.target);
    const element = h(
      "li",
      { class: "pair" },
      h("div", { class: "pair-source", lang: this.info.source_lang }, pair.source),
      target,
    );
    const origin = h(
      "span",
      { class: "meta pair-origin", title: `${pair.id}${pair.origin ? ` · ${pair.origin}` : ""}` },
      pair.origin,
    );
    element.append(h("div", { class: "pair-end" }, origin, may("learn") && this.#controls(pair, element, target)));
    return element;
  }

  #controls(pair, element, target) {
    const edit = h("button", { class: "button link", type: "button" }, "Edit");
    const drop = h("button", { class: "button icon", type: "button" }, glyph("trash"));
    const name = () => {
      edit.setAttribute("aria-label", `Edit: ${pair.target}`);
      drop.setAttribute("aria-label", `Delete: ${pair.target}`);
    };
    edit.addEventListener("click", () => this.#edit(pair, target, edit, name));
    drop.addEventListener("click", () => this.#delete(pair, element));
    name();
    return [edit, drop];
  }

  #edit(pair, target, opener, stored) {
    const field = h("textarea", {
      class: "pair-field",
      value: pair.target,
      "aria-label": "Target",
      lang: this.info.target_lang,
    });
    const text = h("div", { class: "pair-text", "aria-hidden": "true" });
    const grow = () => (text.textContent = `${field.value}\u200b`);
    const close = (value) => {
      show(target, value);
      opener.hidden = false;
      opener.focus();
    };
    const store = async () => {
      const value = field.value.trim();
      if (!value || value === pair.target) return close(pair.target);
      field.disabled = true;
      try {
        await api.updatePair(this.name, pair.id, value);
        pair.target = value;
        stored();
        announce("Stored");
        this.changed();
        return close(value);
      } catch (error) {
        field.disabled = false;
        return complain(error, "Not stored");
      }
    };
    field.addEventListener("input", grow);
    field.addEventListener("keydown", (event) => {
      if (event.key === "Escape") close(pair.target);
      if (event.key !== "Enter" || event.shiftKey) return;
      event.preventDefault();
      store();
    });
    const save = h(
      "button",
      { class: "button outlined", type: "button", on: { click: store } },
      "Save",
      h("kbd", {}, "↵"),
    );
    const cancel = h(
      "button",
      { class: "button", type: "button", on: { click: () => close(pair.target) } },
      "Cancel",
      h("kbd", {}, "Esc"),
    );
    opener.hidden = true;
    grow();
    show(target, h("div", { class: "pair-edit" }, text, field), h("div", { class: "pair-buttons" }, save, cancel));
    field.focus();
  }

  async #delete(pair, element) {
    const after = element.nextElementSibling ?? element.previousElementSibling;
    try {
      await api.deletePair(this.name, pair.id);
    } catch (error) {
      complain(error, "Not deleted");
      return;
    }
    element.remove();
    this.#tell(this.total - 1, this.search.value.trim());
    (after?.querySelector("button") ?? this.search).focus();
    this.changed();
    toast("The pair is deleted", { action: "Undo", run: () => this.#restore(pair) });
  }

  async #restore({ id, source, target, metadata }) {
    try {
      await api.addPair(this.name, { id, source, target, metadata });
      this.changed();
      await this.load();
    } catch (error) {
      complain(error, "Not restored");
    }
  }
}

function nothing(text) {
  return h("div", { class: "empty" }, h("p", {}, text));
}
