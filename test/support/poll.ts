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

/** Milliseconds between two looks, and what a look may be late by before it counts: a timer of an idle machine is. */
const PAUSE = 20;
const PAUSE_GRACE = 5;

const REAL: PollWorld = {
  now: () => performance.now(),
  sleep: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
  slownessAtStart,
  measureSlowness,
};

/**
 * Waits until `probe` returns something truthy and returns that. A probe that throws counts as "not yet", unless it throws
 * {@link InVain}; its last error is part of the message when the limit is reached. The limit is multiplied by the slowness
 * of the machine, which is measured again when the limit is reached: where the machine has become slower, or was so between
 * the looks, the wait goes on. It never ends without a last look after that.
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
  let slept = 0;
  let looks = 0;
  let over = false;
  for (;;) {
    try {
      const value = await probe();
      if (value) return value as NonNullable<T>;
      last = value;
    } catch (error) {
      if (error instanceof InVain) throw error;
      last = error;
    }
    if (over) {
      const waited = Math.round(world.now() - begun);
      throw new Error(`${what}: not within ${limitMs} ms, stretched to ${waited} ms; last: ${String(last)}`);
    }
    if (world.now() - begun > limit) {
      // A machine that is taken away in bursts may be quick just now: the pauses of this wait were measured all the time.
      const meanwhile = slept / Math.max(1, looks) / (PAUSE + PAUSE_GRACE);
      const longer = limitMs * Math.max(meanwhile, await world.measureSlowness());
      over = world.now() - begun > longer;
      // This process may have stood still since the last look, which began before.
      if (over) continue;
      limit = longer;
    }
    const asleep = world.now();
    await world.sleep(PAUSE);
    slept += world.now() - asleep;
    looks++;
  }
}
