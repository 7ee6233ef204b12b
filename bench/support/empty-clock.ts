import { SeededRandom } from "../../src/base/clock/random.ts";
import { VirtualClock } from "../../src/base/clock/virtual.ts";

/** Seconds that a virtual clock takes to fire so many timers which do nothing but arm the next, `at` a time being armed. */
export function emptyClock(events: number, at: number): number {
  const clock = new VirtualClock();
  const random = new SeededRandom(1);
  let left = events - at;
  const next = (): void => {
    if (left-- > 0) clock.after(random.next() * 100, next);
  };
  const started = performance.now();
  for (let i = 0; i < at; i++) clock.after(random.next() * 100, next);
  clock.run();
  return (performance.now() - started) / 1000;
}
