// Starts the page: who the user is, what there is, and then the view of the address.

import { costView } from "./cost/view.js";
import { h, show } from "./core/dom.js";
import { dialog, field } from "./core/dialogs.js";
import { glyph } from "./core/glyphs.js";
import { configure, key } from "./core/http.js";
import { failure } from "./core/parts.js";
import { route } from "./core/router.js";
import { load } from "./core/state.js";
import { memoriesView } from "./memories/view.js";
import { themeSwitch } from "./core/themes.js";
import { translateView } from "./translate/view.js";

const main = document.getElementById("main");
const notice = document.getElementById("notice");
const keyButton = h(
  "button",
  { class: "button icon", type: "button", "aria-label": "API key", title: "API key" },
  glyph("key"),
);
let asking = null;

/** Ask for a key, once for all requests that wait for one. @returns {Promise<boolean>} whether one was given */
function askForKey() {
  asking ??= dialog({
    title: "API key",
    text: key.get()
      ? "The server does not know this key, or it may not do this."
      : "This server wants a key. It is kept until you close this tab.",
    fields: [field("Key", "key", { type: "password", required: true, autofocus: true })],
    action: "Use this key",
    submit: ({ key: typed }) => {
      if (!typed.trim()) throw new Error("Enter a key.");
      key.set(typed.trim());
      return true;
    },
  }).finally(() => {
    asking = null;
    keyButton.hidden = key.get() === "";
  });
  return asking.then(Boolean);
}

function told(answers) {
  if (answers === notice.hidden) return;
  notice.hidden = answers;
  show(notice, answers ? null : h("span", {}, "The server does not answer. What you typed is kept."));
}

async function start() {
  show(main, h("div", { class: "page", role: "status", "aria-label": "Loading" }));
  try {
    await load();
  } catch (error) {
    show(main, h("div", { class: "page" }, failure(error, start)));
    return;
  }
  route({ translate: translateView, memories: memoriesView, cost: costView }, main);
}

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the part of the address after # is the view
  main.focus();
});
keyButton.hidden = key.get() === "";
keyButton.addEventListener("click", async () => (await askForKey()) && location.reload());
show(document.getElementById("bar-end"), keyButton, themeSwitch());
configure({ ask: askForKey, told });
start();
