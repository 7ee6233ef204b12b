import { measureSlowness, slownessAtStart } from "./slowness.ts";

/** Thrown by a probe that knows that waiting is in vain: `poll` ends with it at once. */
export class InVain extends Error {}

/** A real wait, and what a test of `poll` puts in its place. */
export interface PollWorld {
  /** Milliseconds. */
  now(): number;
  sleep(ms: number): Promise<void>;
  /** How many times slower than an idle machine this one was at the start of the run, and is now. */
  slownessAtStart(): number;
  measureSlowness(): Promise<number>;
}

const REAL: PollWorld = {
  now: () => performance.now(),
  sleep: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
  slownessAtStart,
  measureSlowness,
};

/**
 * Waits until `probe` returns something truthy and returns that. A probe that throws counts as "not yet", unless it throws
 * {@link InVain}; its last error is part of the message when the limit is reached. The limit is multiplied by the slowness
 * of the machine, which is measured again when the limit is reached: where the machine has become slower, the wait goes on.
 * @param limitMs milliseconds on an idle machine
 */
export async function poll<T>(
  what: string,
  probe: () => T | Promise<T>,
  limitMs = 60_000,
  world: PollWorld = REAL,
): Promise<NonNullable<T>> {
  const begun = world.now();
  let limit = limitMs * world.slownessAtStart();
  let last: unknown = "never true";
  for (;;) {
    try {
      const value = await probe();
      if (value) return value as NonNullable<T>;
      last = value;
    } catch (error) {
      if (error instanceof InVain) throw error;
      last = error;
    }
    if (world.now() - begun > limit) {
      const longer = limitMs * (await world.measureSlowness());
      if (world.now() - begun > longer) {
        const waited = Math.round(world.now() - begun);
        throw new Error(`${what}: not within ${limitMs} ms, stretched to ${waited} ms; last: ${String(last)}`);
      }
      limit = longer;
    }
    await world.sleep(20);
  }
}
