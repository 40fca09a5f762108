// What the translations of this tab cost, as the server timed them. Nothing is stored.

const MOST = 48;

/** The last translations, the oldest first. */
export const ledger = [];

/** Told when there is another one. */
export const entered = new EventTarget();

/** Enter an answer of the server to a request that was not explained (explaining takes longer). */
export function enter({ translations, timing }) {
  if (!timing || !(timing.seconds > 0)) return;
  const searches = translations.reduce((sum, one) => sum + one.searches, 0);
  const count = translations.length;
  const share = (value) => (value ?? 0) / count;
  ledger.push({
    text: translations.length === 1 ? translations[0].source : `${count} sentences`,
    searches: searches / count,
    seconds: timing.seconds,
    model: share(timing.model),
    search: share(timing.search),
    cache: share(timing.cache),
  });
  if (ledger.length > MOST) ledger.shift();
  entered.dispatchEvent(new Event("entry"));
}
