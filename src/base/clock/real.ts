import type { Clock, Timer } from "./clock.ts";

/** Longest timer of Node in milliseconds, 24.8 days. Node fires a longer timer at once. */
const LONGEST = 2 ** 31 - 1;

class RealTimer implements Timer {
  #handle: ReturnType<typeof setTimeout>;

  constructor(ms: number, callback: () => void, background: boolean) {
    this.#handle = ms <= LONGEST ? setTimeout(callback, Math.max(0, ms)) : this.#inParts(ms, callback, background);
    if (background) this.#handle.unref();
  }

  cancel(): void {
    clearTimeout(this.#handle);
  }

  #inParts(ms: number, callback: () => void, background: boolean): ReturnType<typeof setTimeout> {
    return setTimeout(() => {
      const left = ms - LONGEST;
      this.#handle = left <= LONGEST ? setTimeout(callback, left) : this.#inParts(left, callback, background);
      if (background) this.#handle.unref();
    }, LONGEST);
  }
}

/** The machine's clock. */
export const realClock: Clock = {
  now: () => performance.now(),
  wall: () => Date.now(),
  after(ms, callback, background = false) {
    return new RealTimer(ms, callback, background);
  },
  soon(callback) {
    setImmediate(callback);
  },
};
