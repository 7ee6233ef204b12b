import { SeededRandom } from "../../../base/clock/random.ts";
import { type WorkloadRequest, words } from "../workload.ts";

/** When the wave of realtime traffic comes and goes, as shares of an act. */
export const WAVE = { from: 0.3, to: 0.55 } as const;
/** Share of an act in which it rises. */
const RISE = 0.06;
/** Shares of the slots that realtime traffic takes before and after the wave, and at its height. */
const CALM = 0.2;
const HIGH = 0.6;
/** Seconds that one request takes a slot: 20 tokens of 25 ms and the time to the first. */
const SECONDS = 0.53;
const TOKENS = 20;
/** The end of an act in which nothing new is sent. */
const TAIL_MS = 800;

export interface RealtimeOptions {
  readonly seed: number;
  /** Of the act, milliseconds. */
  readonly lengthMs: number;
  /** Requests that all servers together run at a time. */
  readonly slots: number;
}

/**
 * Requests with a wave in the middle; the same seed gives the same list. Their distances are half to one and a half of the mean:
 * with Poisson arrivals a few dozen slots go up and down so much that nobody sees the wave.
 */
export function realtimeList({ seed, lengthMs, slots }: RealtimeOptions): WorkloadRequest[] {
  const random = new SeededRandom(seed);
  const list: WorkloadRequest[] = [];
  let at = 0;
  for (let number = 0; ; number++) {
    const perSecond = (slots * shareAt(at / lengthMs)) / SECONDS;
    at += ((0.5 + random.next()) * 1000) / perSecond;
    if (at >= lengthMs - TAIL_MS) return list;
    const question = words(random, 40 + random.below(40));
    list.push({ number, at, prefix: 0, system: "Answer in one sentence.", question, maxTokens: TOKENS });
  }
}

/** Share of the slots that is taken at a time. @param time share of the act that is over */
function shareAt(time: number): number {
  if (time < WAVE.from || time >= WAVE.to) return CALM;
  return CALM + (HIGH - CALM) * Math.min(1, (time - WAVE.from) / RISE);
}
