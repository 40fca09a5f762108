// Requests to the server of this page; no other host is ever asked.

import { isAbort, problemOf, unreachable } from "./problems.js";

const ROOT = new URL("../../", import.meta.url);
const KEY = "nearmt.key";
const TRIES = 5;

/** @type {() => Promise<boolean>} */
let askForKey = async () => false;
/** @type {(answers: boolean) => void} */
let reached = () => {};

/** `ask` is awaited when the server wants a key (true: one was given); `told` hears whether the server answers. */
export function configure({ ask, told }) {
  askForKey = ask;
  reached = told;
}

export const key = {
  get: () => sessionStorage.getItem(KEY) ?? "",
  set: (value) => sessionStorage.setItem(KEY, value),
  forget: () => sessionStorage.removeItem(KEY),
};

function address(path, query = {}) {
  const url = new URL(path, ROOT);
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== "") url.searchParams.set(name, String(value));
  }
  return url;
}

function authorisation() {
  return key.get() ? { authorization: `Bearer ${key.get()}` } : {};
}

/**
 * The answer to a request, or a `Problem`.
 * @typedef {{query?: object, json?: any, form?: FormData, signal?: AbortSignal, accept?: string}} Options
 * @param {string} method
 * @param {string} path
 * @param {Options} [options]
 * @returns {Promise<Response>}
 */
async function send(method, path, { query, json, form, signal, accept = "application/json" } = {}) {
  const headers = { accept, ...authorisation() };
  if (json !== undefined) headers["content-type"] = "application/json";
  const body = json === undefined ? form : JSON.stringify(json);
  let answer;
  try {
    answer = await fetch(address(path, query), { method, headers, body, signal, credentials: "omit" });
  } catch (error) {
    if (isAbort(error)) throw error;
    reached(false);
    throw unreachable();
  }
  reached(true);
  if (answer.ok) return answer;
  if (answer.status === 401 && (await askForKey())) {
    return send(method, path, { query, json, form, signal, accept });
  }
  throw problemOf(answer.status, (name) => answer.headers.get(name), await answer.text());
}

/**
 * The JSON of an answer; null if it has no content.
 * @param {string} method
 * @param {string} path
 * @param {Options} [options]
 */
export async function ask(method, path, options = {}) {
  const answer = await send(method, path, options);
  return answer.status === 204 ? null : answer.json();
}

/**
 * Like `ask`, and again after a while when the server is busy.
 * @param {string} method
 * @param {string} path
 * @param {Options} [options]
 * @param {(seconds: number) => void} [waiting] told how long it waits
 */
export async function askPatiently(method, path, options = {}, waiting = () => {}) {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await ask(method, path, options);
    } catch (error) {
      if (!error.passing || attempt === TRIES) throw error;
      const pause = Math.min(30, error.retryAfter || 2 ** (attempt - 1));
      waiting(pause);
      await sleep(pause * 1000, options.signal);
    }
  }
}

/** A file of the server, and its name. */
export async function download(path, query) {
  const answer = await send("GET", path, { query, accept: "*/*" });
  return { blob: await answer.blob(), name: nameIn(answer.headers.get("content-disposition") ?? "") };
}

/** The file name of a Content-Disposition header, or nothing. */
export function nameIn(disposition) {
  const encoded = /filename\*=(?:utf-8)''([^;]+)/i.exec(disposition);
  if (encoded) return decodeURIComponent(encoded[1]);
  return /filename="?([^";]+)"?/i.exec(disposition)?.[1] ?? "";
}

/**
 * Send a form with files. (fetch cannot tell how much is sent.)
 * @param {string} path
 * @param {FormData} form
 * @param {{progress?: (part: number) => void, signal?: AbortSignal}} [options] the part is 0 to 1
 * @returns {Promise<any>}
 */
export async function upload(path, form, { progress = () => {}, signal } = {}) {
  const answer = await sendForm(path, form, progress, signal);
  if (answer.status === 401 && (await askForKey())) return upload(path, form, { progress, signal });
  if (answer.status >= 200 && answer.status < 300) return JSON.parse(answer.responseText);
  throw problemOf(answer.status, (name) => answer.getResponseHeader(name), answer.responseText);
}

function sendForm(path, form, progress, signal) {
  return new Promise((resolve, reject) => {
    const sending = new XMLHttpRequest();
    sending.open("POST", address(path));
    for (const [name, value] of Object.entries(authorisation())) sending.setRequestHeader(name, value);
    sending.upload.onprogress = (event) => event.lengthComputable && progress(event.loaded / event.total);
    sending.onload = () => resolve(sending);
    sending.onerror = () => reject(unreachable());
    sending.onabort = () => reject(new DOMException("cancelled", "AbortError"));
    signal?.addEventListener("abort", () => sending.abort());
    sending.send(form);
  });
}

/** The data of server-sent events as they come. (EventSource cannot send a key.) */
export async function* events(path, signal) {
  const answer = await send("GET", path, { signal, accept: "text/event-stream" });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split(/\r?\n\r?\n/);
    rest = parts.pop() ?? "";
    for (const part of parts) {
      const data = eventData(part);
      if (data) yield JSON.parse(data);
    }
  }
}

/** The data lines of one event. */
export function eventData(part) {
  const lines = part.split(/\r?\n/).filter((line) => line.startsWith("data:"));
  return lines.map((line) => line.slice(5).replace(/^ /, "")).join("\n");
}

/** Wait, unless cancelled. */
export function sleep(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(new DOMException("cancelled", "AbortError"));
    });
  });
}
