// Numbers and names as they are shown.

const whole = new Intl.NumberFormat("en");
const names = new Intl.DisplayNames("en", { type: "language", fallback: "code" });

export const count = (number) => whole.format(number);

/** "1 pair", "2 pairs". */
export function counted(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}

/** A share as a percentage: never 100 % or 0 % unless it is. */
export function percent(share) {
  if (share > 0 && share < 0.01) return "<1 %";
  if (share < 1 && share > 0.99) return "99 %";
  return `${Math.round(share * 100)} %`;
}

/** The percentage of a match: 100 only if it is exact. */
export function matchPercent(score) {
  return score >= 1 ? 100 : Math.min(99, Math.floor(score * 100));
}

export function bytes(number) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let size = number;
  let unit = 0;
  while (size >= 999.5 && unit < units.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${size < 10 && unit > 0 ? size.toFixed(1) : Math.round(size)} ${units[unit]}`;
}

export function duration(seconds) {
  if (seconds < 0.0995) return `${(seconds * 1000).toFixed(seconds < 0.00995 ? 1 : 0)} ms`;
  if (seconds < 99.5) return `${seconds.toFixed(seconds < 9.95 ? 2 : 1)} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 120 ? `${minutes} min` : `${(seconds / 3600).toFixed(1)} h`;
}

export function languageName(code) {
  try {
    return names.of(code.replace("_", "-")) ?? code;
  } catch {
    return code;
  }
}

export function directionName({ source_lang: source, target_lang: target }) {
  return `${languageName(source)} → ${languageName(target)}`;
}

/** "just now", "5 min ago", or a date. `now` and `then` in milliseconds. */
export function ago(then, now = Date.now()) {
  const minutes = Math.round((now - then) / 60_000);
  if (minutes < 1) return "just now";
  if (minutes < 60) return `${minutes} min ago`;
  if (minutes < 60 * 24) return `${Math.round(minutes / 60)} h ago`;
  return new Date(then).toLocaleDateString("en", { day: "numeric", month: "short", year: "numeric" });
}

/** A text that begins with a capital letter. */
export function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
