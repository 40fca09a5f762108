// Tasks of which a few run at a time; a browser opens six connections to a host, and one has to stay free.

/** Runs what has the lowest rank first. A task is an async function that gets an AbortSignal. */
export class Queue {
  #waiting = [];
  #running = new Map();
  #limit;

  constructor(limit = 4) {
    this.#limit = limit;
  }

  get idle() {
    return this.#waiting.length + this.#running.size === 0;
  }

  /** `rank` is asked whenever a place is free, so it may depend on what the user looks at. */
  add(task, rank = () => 0) {
    this.#waiting.push({ task, rank });
    this.#next();
  }

  /** Forget what waits and cancel what runs. */
  clear() {
    this.#waiting = [];
    for (const controller of this.#running.values()) controller.abort();
  }

  #next() {
    while (this.#running.size < this.#limit && this.#waiting.length > 0) this.#run(this.#first());
  }

  #first() {
    let best = 0;
    this.#waiting.forEach((one, place) => {
      if (one.rank() < this.#waiting[best].rank()) best = place;
    });
    return this.#waiting.splice(best, 1)[0];
  }

  async #run(one) {
    const controller = new AbortController();
    this.#running.set(one, controller);
    try {
      await one.task(controller.signal);
    } finally {
      this.#running.delete(one);
      this.#next();
    }
  }
}
