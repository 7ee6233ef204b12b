import type { Clock } from "../../src/base/clock/clock.ts";
import { realClock } from "../../src/base/clock/real.ts";

/** The machine's clock, with a wall clock that a test sets; what is monotonic stays so, as in the kernel. */
export class JumpingClock implements Clock {
  readonly now = realClock.now;
  readonly after = realClock.after;
  readonly soon = realClock.soon;
  /** Milliseconds by which the wall clock is ahead. */
  ahead = 0;

  wall(): number {
    return realClock.wall() + this.ahead;
  }
}
