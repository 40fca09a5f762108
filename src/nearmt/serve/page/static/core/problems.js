// What went wrong, in words for a user.

import { sentence } from "./format.js";

/** A request that the server refused or did not answer. `status` is 0 if there was no answer. */
class Problem extends Error {
  /**
   * @param {number} status
   * @param {string} message
   * @param {{retryAfter?: number, requestId?: string}} [more]
   */
  constructor(status, message, { retryAfter = 0, requestId = "" } = {}) {
    super(message);
    this.name = "Problem";
    this.status = status;
    this.retryAfter = retryAfter;
    this.requestId = requestId;
  }

  /** Whether the same request may succeed later. */
  get passing() {
    return [0, 429, 502, 503, 504].includes(this.status);
  }
}

const MEANINGS = {
  0: "The server does not answer",
  401: "The server wants an API key",
  403: "Your key does not allow this",
  404: "Not found",
  413: "Too large for this server",
  429: "Too many requests for this key",
  499: "Cancelled",
  503: "The server is busy",
  504: "The server took too long",
};

/** A `Problem` from an answer: a problem document (RFC 9457), or whatever a proxy sent. */
export function problemOf(status, headers, text) {
  let told = {};
  try {
    told = JSON.parse(text) ?? {};
  } catch {
    // Not from nearmt: the status has to do.
  }
  const detail = typeof told.detail === "string" ? told.detail : "";
  const message = detail || MEANINGS[status] || told.title || `The server answered with status ${status}`;
  return new Problem(status, sentence(message), {
    retryAfter: seconds(headers("retry-after")),
    requestId: told.request_id ?? headers("x-request-id") ?? "",
  });
}

/** A failed connection. */
export function unreachable() {
  return new Problem(0, MEANINGS[0]);
}

/** Whether a request was cancelled by this page. */
export function isAbort(error) {
  return error?.name === "AbortError";
}

function seconds(value) {
  const number = Number(value);
  return Number.isFinite(number) && number > 0 ? number : 0;
}
