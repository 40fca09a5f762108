// What translating costs: searches a sentence, and time in model, search and cache, by the server's own timers.

import { api } from "../core/api.js";
import { h, show } from "../core/dom.js";
import { count, duration } from "../core/format.js";
import { entered, ledger } from "../core/ledger.js";
import { bones, failure, hint } from "../core/parts.js";
import { isAbort } from "../core/problems.js";
import { Columns, shareBar } from "./charts.js";
import { byPart, eachOf, shares } from "./figures.js";

const EVERY = 2000;
const COLUMNS = 48;

/** @returns {{element: any, focus: () => void, close: () => void}} */
export function costView() {
  const title = h("h1", { tabindex: "-1" }, "Cost");
  const server = h("div", {}, bones(5));
  const mine = h("div", {});
  const element = h(
    "div",
    { class: "page cost" },
    h("div", { class: "page-head" }, title),
    h(
      "p",
      { class: "page-lead" },
      "Why translations are fast or slow: searches of the memories, and where the time goes, by the server's timers.",
    ),
    h("section", { "aria-label": "This server" }, h("h2", {}, "This server"), server),
    h("section", { "aria-label": "This tab" }, h("h2", {}, "The last translations of this tab"), mine),
  );
  const columns = new Columns(COLUMNS);
  const drawMine = () => {
    if (ledger.length === 0) return show(mine, hint("Nothing was translated in this tab yet."));
    if (!columns.element.isConnected) show(mine, columns.element);
    return columns.show(ledger);
  };
  const cancel = new AbortController();
  entered.addEventListener("entry", drawMine, { signal: cancel.signal });
  drawMine();
  watch(server, cancel.signal);
  return { element, focus: () => title.focus(), close: () => cancel.abort() };
}

/** Ask for the server's statistics again and again, until the view is left; not while the tab is hidden. */
async function watch(place, signal) {
  const again = () => watch(place, signal);
  try {
    if (!document.hidden) draw(place, await api.statistics(signal));
  } catch (error) {
    if (!isAbort(error)) show(place, failure(error, again));
    return;
  }
  const timer = setTimeout(again, EVERY);
  signal.addEventListener("abort", () => clearTimeout(timer));
}

function draw(place, told) {
  if (told.by_origin.machine === 0) {
    show(place, figures(told), hint("Nothing was translated since the server started."));
    return;
  }
  const sums = byPart(told.timers);
  show(place, figures(told), shareBar(shares(sums), eachOf(sums, told.by_origin.machine)));
}

function figures(told) {
  const sentences = told.by_origin.machine;
  const each = (value) => (sentences > 0 ? value() : "–");
  const shown = [
    ["Searches a sentence", each(() => (told.searches / sentences).toFixed(1))],
    ["Work a sentence", each(() => duration(eachOf(byPart(told.timers), sentences).all))],
    ["Translated", count(sentences)],
    ["From memory", count(told.by_origin.memory + told.by_origin.repaired)],
    ["In the batch", `${count(told.running)} of ${count(told.slots)}`],
    ["Waiting", count(told.queued)],
  ];
  return h(
    "dl",
    { class: "figures" },
    shown.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", { class: "number" }, value))),
  );
}
