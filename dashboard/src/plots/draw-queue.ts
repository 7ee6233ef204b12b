/** The most plots drawn in one frame. A view has a dozen: all of them at once would be one long task on a slow machine. */
const PER_FRAME = 2;

/** Draws plots a few in each frame, in the order in which they asked. */
export class DrawQueue {
  readonly #nextFrame: (draw: () => void) => unknown;
  readonly #waiting = new Set<() => void>();
  #isDue = false;

  /** @param nextFrame calls a function in the next frame */
  constructor(nextFrame: (draw: () => void) => unknown) {
    this.#nextFrame = nextFrame;
  }

  /** One that waits already is drawn once, at its place. */
  add(draw: () => void): void {
    this.#waiting.add(draw);
    this.#plan();
  }

  remove(draw: () => void): void {
    this.#waiting.delete(draw);
  }

  #plan(): void {
    if (this.#isDue || this.#waiting.size === 0) return;
    this.#isDue = true;
    this.#nextFrame(() => {
      this.#isDue = false;
      const now = [...this.#waiting].slice(0, PER_FRAME);
      for (const draw of now) this.#waiting.delete(draw);
      // Before the plots are drawn: one that fails does not stop the others.
      this.#plan();
      for (const draw of now) draw();
    });
  }
}
