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

/** Milliseconds between two probes. A timer of an idle machine is late, too: such a delay does not count as slowness. */
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
 * of the machine. `poll` measures the slowness again at the limit, and the wait goes on where the machine is slower, or was
 * slower between the probes. One last probe follows each limit.
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
  let probes = 0;
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
      // A machine that stalls in bursts can be quick at this moment. The pauses of this wait show how slow it was before.
      const meanwhile = slept / Math.max(1, probes) / (PAUSE + PAUSE_GRACE);
      const longer = limitMs * Math.max(meanwhile, await world.measureSlowness());
      over = world.now() - begun > longer;
      // The last probe began before the limit, and this process may have stalled since: one more probe decides.
      if (over) continue;
      limit = longer;
    }
    const asleep = world.now();
    await world.sleep(PAUSE);
    slept += world.now() - asleep;
    probes++;
  }
}
