// The native API by name: the only module that knows its paths.

import { ask, askPatiently, download, events, sleep, upload } from "./http.js";
import { enter } from "./ledger.js";

const V1 = "api/v1";
const memory = (name) => `${V1}/memories/${encodeURIComponent(name)}`;
const work = (id) => `${V1}/documents/${encodeURIComponent(id)}`;

export const api = {
  me: () => ask("GET", `${V1}/me`),
  models: () => ask("GET", `${V1}/models`),
  statistics: (signal) => ask("GET", `${V1}/statistics`, { signal }),

  sentences: (text, language) => ask("POST", `${V1}/sentences`, { json: { text, language } }),
  translate: async (json, signal, waiting) => {
    const answer = await askPatiently("POST", `${V1}/translate`, { json, signal }, waiting);
    if (!json.explain) enter(answer);
    return answer;
  },

  memories: () => ask("GET", `${V1}/memories`),
  memory: (name) => ask("GET", memory(name)),
  createMemory: (json) => ask("POST", `${V1}/memories`, { json }),
  deleteMemory: (name) => ask("DELETE", memory(name)),

  pairs: (name, query, signal) => ask("GET", `${memory(name)}/pairs`, { query, signal }),
  addPair: async (name, pair) => (await ask("POST", `${memory(name)}/pairs`, { json: { pairs: [pair] } })).pairs[0],
  updatePair: (name, id, target) => ask("PUT", `${memory(name)}/pairs`, { query: { id }, json: { target } }),
  deletePair: (name, id) => ask("DELETE", `${memory(name)}/pairs`, { query: { id } }),

  importFile: (name, form, options) => upload(`${memory(name)}/import`, form, options),
  exportMemory: (name, format) => download(`${memory(name)}/export`, { format }),
  compact: (name) => ask("POST", `${memory(name)}/compact`),
  verify: (name) => ask("POST", `${memory(name)}/verify`),

  jobs: () => ask("GET", `${V1}/jobs`),
  job: (id) => ask("GET", `${V1}/jobs/${encodeURIComponent(id)}`),
  cancelJob: (id) => ask("DELETE", `${V1}/jobs/${encodeURIComponent(id)}`),
  follow,

  sendDocument: (form, options) => upload(`${V1}/documents`, form, options),
  document: (id) => ask("GET", work(id)),
  units: (id, query, signal) => ask("GET", `${work(id)}/units`, { query, signal }),
  putUnit: (id, number, json) => ask("PUT", `${work(id)}/units/${number}`, { json }),
  retranslate: (id, units, signal) => ask("POST", `${work(id)}/retranslate`, { json: { units }, signal }),
  result: (id) => download(`${work(id)}/result`),
  deleteDocument: (id) => ask("DELETE", work(id)),
};

const ENDED = new Set(["done", "failed", "cancelled"]);

/** A job's states until it has ended; if events break off (a proxy, a restart), it is asked instead. */
async function* follow(id, signal) {
  const path = `${V1}/jobs/${encodeURIComponent(id)}`;
  for (;;) {
    try {
      for await (const job of events(`${path}/events`, signal)) {
        yield job;
        if (ENDED.has(job.state)) return;
      }
    } catch (error) {
      if (!error.passing) throw error;
    }
    await sleep(1000, signal);
    const job = await askPatiently("GET", path, { signal });
    yield job;
    if (ENDED.has(job.state)) return;
  }
}
