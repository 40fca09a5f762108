// The memories view: all of them, or one.

import { listView } from "./list.js";
import { memoryView } from "./memory.js";

/**
 * @param {string[]} parts of the address: the name of a memory, or nothing
 * @returns {{element: any, focus: () => void, close: () => void}}
 */
export function memoriesView(parts, go) {
  const name = parts[0] ?? "";
  return name ? memoryView(name, go) : listView(go);
}
