/** Waits of less tell nothing about a queue, however short the arrivals. */
const LEAST_MS = 1000;
/** Of the time during which requests arrive: who waits for more of it stands in a queue that has grown with it. */
const SHARE = 0.1;

/**
 * Whether a policy keeps up with a rate: where it does not its queues grow for as long as requests arrive, and its times,
 * and the ratios to them, are as large as the run is long.
 * @param ttftP90 milliseconds; NaN = nothing finished, of which nothing can be said
 * @param durationMs of the arrivals
 */
export function keepsUp(ttftP90: number, durationMs: number): boolean {
  return !(ttftP90 > Math.max(LEAST_MS, durationMs * SHARE));
}

/**
 * What ratios to those who do not keep up are worth; undefined where all do.
 * @param names of those who do not @param at such as `60 requests/s`
 * @param lower whether lower rates were run, too
 */
export function behindText(names: readonly string[], at: string, lower: boolean): string | undefined {
  if (names.length === 0) return undefined;
  const [they, their] = names.length === 1 ? ["does", "its"] : ["do", "their"];
  return (
    `At ${at} ${listed(names)} ${they} not keep up: ${their} queues grow for as long as requests arrive, and so do ${their} times. ` +
    `How many times faster another is says little then${lower ? "; the lower rates say more" : ""}.`
  );
}

/** `a`, `a and b`, `a, b and c`. @param names at least one */
export function listed(names: readonly string[]): string {
  const [last] = names.slice(-1);
  return names.length === 1 ? last! : `${names.slice(0, -1).join(", ")} and ${last}`;
}
