// Modal dialogs; the browser keeps the focus inside and gives it back.

import { h } from "./dom.js";

/**
 * Open a dialog with a form. `submit` gets the form's values and may throw: the message is shown in the dialog.
 * @param {{title: string, text?: any, fields?: any[], action: string, danger?: boolean,
 *   submit?: (values: Record<string, string>) => Promise<any>|any, cancel?: string}} options
 * @returns {Promise<any>} what `submit` returned, or undefined if it was closed
 */
export function dialog({ title, text, fields = [], action, danger = false, submit = () => true, cancel = "Cancel" }) {
  return new Promise((resolve) => {
    let answer;
    const problem = h("p", { class: "problem", role: "alert" });
    const go = h("button", { class: `button primary${danger ? " danger" : ""}`, type: "submit" }, action);
    const close = h("button", { class: "button", type: "button", on: { click: () => box.close() } }, cancel);
    const form = h(
      "form",
      { method: "dialog", on: { submit: (event) => (event.preventDefault(), run()) } },
      h("h1", { id: "dialog-title" }, title),
      text && h("div", { class: "soft" }, text),
      fields,
      problem,
      h("div", { class: "dialog-end" }, cancel && close, go),
    );
    const box = h("dialog", { "aria-labelledby": "dialog-title" }, form);
    const run = async () => {
      go.disabled = true;
      problem.textContent = "";
      try {
        answer = await submit(Object.fromEntries(/** @type {any} */ (new FormData(form))));
        box.close();
      } catch (error) {
        problem.textContent = error.message;
        form.querySelector("input")?.setAttribute("aria-invalid", "true");
        form.querySelector("input")?.focus();
      } finally {
        go.disabled = false;
      }
    };
    box.addEventListener("close", () => (box.remove(), resolve(answer)));
    document.body.append(box);
    box.showModal();
  });
}

/** A labelled text field. */
export function field(label, name, attributes = {}, hint = "") {
  return h(
    "label",
    { class: "field" },
    h("span", {}, label),
    h("input", { class: "input", name, autocomplete: "off", spellcheck: "false", ...attributes }),
    hint && h("small", { class: "meta" }, hint),
  );
}

/** Ask before something that cannot be undone. */
export function confirmed(title, text, action) {
  return dialog({ title, text, action, danger: true });
}
