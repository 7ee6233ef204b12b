import type { EffectiveConfig } from "../../picker/config/effective.ts";
import { play, Run, type RunOptions } from "./run.ts";

/** Simulated requests per second of real time. */
export interface Speed {
  readonly requestsPerSecond: number;
  /** The rate of the same arrivals at the same engines without a scheduler, with the placements of the scheduler. */
  readonly bareRequestsPerSecond: number;
  /** Requests of one run. */
  readonly requests: number;
  readonly events: number;
}

/** Rounds in which both run in turn; the fastest of each counts. */
const ROUNDS = 2;

/**
 * The speed of a run with the scheduler, and without.
 * @param signal ends it
 * @returns undefined when it was interrupted, or when requests were refused: then no run without a scheduler is the same
 */
export async function speedOf(
  options: () => Omit<RunOptions, "decides">,
  config: EffectiveConfig,
  signal?: AbortSignal,
): Promise<Speed | undefined> {
  let best = Number.POSITIVE_INFINITY;
  let bare = Number.POSITIVE_INFINITY;
  let requests = 0;
  let events = 0;
  for (let round = 0; round < ROUNDS; round++) {
    const placements: number[] = [];
    const run = new Run({ ...options(), decides: { config }, placed: (server) => placements.push(server) });
    const seconds = await play(run, { signal });
    requests = run.requests;
    events = run.events;
    if (seconds === undefined || requests === 0 || placements.length < requests) return undefined;
    const twin = bareTwin(options(), placements);
    const bareSeconds = await play(twin, { signal });
    if (bareSeconds === undefined) return undefined;
    best = Math.min(best, seconds);
    bare = Math.min(bare, bareSeconds);
  }
  return { requestsPerSecond: requests / best, bareRequestsPerSecond: requests / bare, requests, events };
}

/** The same run without a scheduler, with the given placements. @param placements servers in the order of arrival */
export function bareTwin(options: Omit<RunOptions, "decides">, placements: readonly number[]): Run {
  let next = 0;
  return new Run({ ...options, decides: { rule: () => placements[next++]! } });
}
