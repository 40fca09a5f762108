// Elements are made here and nowhere else. Text is set as text: nothing of a user or a memory is parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";
const PROPERTIES = new Set(["value", "checked", "disabled", "indeterminate", "open", "selected", "max"]);

/**
 * An HTML element. `on` has listeners, `data` has data attributes; false, null and undefined set nothing.
 * @param {string} tag
 * @param {Record<string, any>} [attributes]
 * @param {...any} children
 * @returns {any}
 */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An SVG element; see `h`. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name === "on") listen(element, value);
    else if (name === "data") Object.assign(element.dataset, value);
    else if (PROPERTIES.has(name) && element.namespaceURI !== SVG) element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...shown(children));
  return element;
}

function listen(element, listeners) {
  for (const [event, listener] of Object.entries(listeners)) element.addEventListener(event, listener);
}

function shown(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
}

/** Replace what is in an element. */
export function show(element, ...children) {
  element.replaceChildren(...shown(children));
  return element;
}

/** Tell a screen reader, without moving the focus. */
export function announce(text) {
  const place = document.getElementById("announcements");
  if (place) place.textContent = text;
}

/** Call `action` when calls have ceased for `milliseconds`, or at once for the last call (`now`). */
export function settled(action, milliseconds) {
  let timer = 0;
  let waiting = null;
  const now = () => {
    clearTimeout(timer);
    const last = waiting;
    waiting = null;
    last?.();
  };
  const call = (...values) => {
    clearTimeout(timer);
    waiting = () => action(...values);
    timer = setTimeout(now, milliseconds);
  };
  return Object.assign(call, { now });
}

/** Let a user save a blob. */
export function save(blob, name) {
  const address = URL.createObjectURL(blob);
  const link = h("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
