import type { Clock, Timer } from "./clock.ts";

class RealTimer implements Timer {
  readonly #handle: ReturnType<typeof setTimeout>;

  constructor(handle: ReturnType<typeof setTimeout>) {
    this.#handle = handle;
  }

  cancel(): void {
    clearTimeout(this.#handle);
  }
}

/** The machine's clock. */
export const realClock: Clock = {
  now: () => performance.now(),
  wall: () => Date.now(),
  after(ms, callback, background = false) {
    const handle = setTimeout(callback, Math.max(0, ms));
    if (background) handle.unref();
    return new RealTimer(handle);
  },
  soon(callback) {
    setImmediate(callback);
  },
};
