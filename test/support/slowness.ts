/**
 * How slow this machine is now. Tests state their limits of waiting for an idle machine; every limit is multiplied by the
 * slowness. `vitest.config.ts` measures it once at the start of a run and hands it to the workers in the environment.
 */

/** Holds the slowness at the start of the run. */
const VARIABLE = "SLUICE_SLOWNESS";
/** Turns of a fixed piece of work, and the milliseconds that they take on an idle core of 2020. */
const TURNS = 20_000_000;
const WORK_MS = 45;
/** Sleeps of so many milliseconds, and how many: the first ones are late where the event loop or the processor is busy. */
const SLEEP_MS = 5;
const SLEEPS = 10;
/** What a late timer may cost before it counts: timers of an idle machine are late by one millisecond or two. */
const SLEEP_GRACE_MS = 5;
/** Longest factor: a machine that is a hundred times slower is broken. */
const MOST = 100;
/**
 * What a fixed limit has beyond the slowness at the start. `poll` measures again before it gives up; limits that cannot be
 * moved while they run (of a test, of a child process) leave this much room for a machine that slows down later: these
 * limits only end what hangs.
 */
const ROOM = 10;

/** The slowness at the start of the run: 1 = as fast as an idle machine, 5 = five times slower. 1 outside of a run. */
export function slownessAtStart(): number {
  return Number(process.env[VARIABLE] ?? 1);
}

/** Hands the slowness to all processes that this one starts from now on. @param factor at least 1 */
export function announceSlowness(factor: number): void {
  process.env[VARIABLE] = String(factor);
}

/** A limit that cannot be moved once it runs: of a test, a child process, a request. @param ms on an idle machine */
export function fixedLimit(ms: number): number {
  return Math.ceil(ms * slownessAtStart() * ROOM);
}

/** Measures the slowness: the worse one of a fixed piece of work and the lag of timers. Takes 100 ms on an idle machine. */
export async function measureSlowness(): Promise<number> {
  const begun = performance.now();
  for (let i = 0; i < SLEEPS; i++) await new Promise((resolve) => setTimeout(resolve, SLEEP_MS));
  const slept = performance.now();
  work(TURNS);
  return slowness(performance.now() - slept, (slept - begun) / SLEEPS);
}

/** The factor that a measurement means, 1 to 100. @param workMs of the fixed work @param sleepMs mean length of a sleep */
export function slowness(workMs: number, sleepMs: number): number {
  const worse = Math.max(workMs / WORK_MS, sleepMs / (SLEEP_MS + SLEEP_GRACE_MS));
  return Math.min(MOST, Math.max(1, worse));
}

/** Integer arithmetic in which each step needs the one before it. */
function work(turns: number): number {
  let x = 1;
  for (let i = 0; i < turns; i++) x = (Math.imul(x, 1_664_525) + 1_013_904_223) ^ (i >>> 3);
  return x;
}
