import type { Clock } from "../../../base/clock/clock.ts";
import type { SeededRandom } from "../../../base/clock/random.ts";

/** Bytes of prompt text per token. The text is made of words of three letters and a space, so its bytes are the token ids. */
export const BYTES_PER_TOKEN = 4;

/** One request of a workload. */
export interface WorkloadRequest {
  /** Four bytes per token, at least one token. Requests may share it, and it must not change. */
  readonly prompt: Uint8Array;
  /** Tokens of the answer, >= 1. */
  readonly outputTokens: number;
  /** The text of the answer, four bytes per token, if a later prompt contains it: engines cache it, too. */
  readonly answer?: Uint8Array | undefined;
  /** LoRA adapter; absent = the base model. */
  readonly adapter?: string | undefined;
  /** Below 0 = sheddable; absent = 0. */
  readonly priority?: number | undefined;
  /** Fairness ID; absent = all in one flow. */
  readonly tenant?: string | undefined;
  /** The conversation of the request. */
  readonly session?: string | undefined;
  /** The group of the request in results, such as `realtime` and `batch`; absent = none. At most 64 in a workload. */
  readonly kind?: string | undefined;
}

/** The interface through which a workload sends requests. */
export interface WorkloadPort {
  /** Virtual time; starts at 0. */
  readonly clock: Clock;
  /** For this run alone. Draws whose order depends on answers must use a separate generator. */
  readonly random: SeededRandom;
  /** Sends a request now. @param ended called once, later: the answer is complete, or the request was refused */
  send(request: WorkloadRequest, ended?: (outcome: "finished" | "rejected") => void): void;
}

/**
 * Requests over time. The same seed gives the same requests at the same times under every policy. Exceptions are requests that
 * wait for answers (turns of a conversation, a backlog).
 */
export interface Workload {
  /** Schedules the requests. A run is over when no arrivals and no answers remain. */
  start(port: WorkloadPort): void;
}

/** The settings of a workload. */
export interface WorkloadSettings {
  /** Requests per second on average, > 0. For a workload without such a rate, it scales the number of requests. */
  readonly rate: number;
  /** Milliseconds during which requests arrive, > 0; a warm-up is additional. */
  readonly durationMs: number;
  readonly servers: number;
  /** Traffic before the measurement, so the caches are as in a pool that has run for a while; absent = none. */
  readonly warmUp?: WarmUp | undefined;
}

/** Traffic before the measurement that does not count. */
export interface WarmUp {
  /** The rate, in the unit of the workload's rate. */
  readonly rate: number;
  readonly durationMs: number;
  /**
   * Milliseconds after it without arrivals, in which its answers end; absent = 0. Otherwise a slow policy would start the
   * measurement with a backlog.
   */
  readonly restMs?: number | undefined;
}

/** Milliseconds from the start to the measurement. */
export function leadMs(warmUp: WarmUp | undefined): number {
  return warmUp === undefined ? 0 : warmUp.durationMs + (warmUp.restMs ?? 0);
}

/** A kind of traffic that can be simulated by name. */
export interface WorkloadDefinition {
  /** The name on the command line, such as `b2b-saas`. */
  readonly name: string;
  /** A sentence for people: the traffic, and the effect that it shows. */
  readonly about: string;
  /** Default rates, ascending. */
  readonly rates: readonly number[];
  /** The unit of `rate`: "requests/s" for nearly all workloads. */
  readonly rateUnit: string;
  /** The number of its servers, and their special settings. */
  readonly servers: number;
  /** Name of a preset of `batching/config.ts`. */
  readonly preset: string;
  /** LoRA adapters in a server at a time; absent = the number of the preset. */
  readonly loraSlots?: number | undefined;
  /** Milliseconds between two scrapes of a server, and the age of the figures on arrival; absent = 50 and 0. */
  readonly scrapeIntervalMs?: number | undefined;
  readonly metricsLagMs?: number | undefined;
  readonly durationMs: number;
  /** Traffic before the measurement, at every rate; absent = the servers begin with empty caches. */
  readonly warmUp?: WarmUp | undefined;
  /** Milliseconds after which the pool has its servers; before that it is empty. Absent = from the start. */
  readonly serversAtMs?: number | undefined;
  /** Share of the servers that only compute prompts, above 0 and below 1; the others only generate. Absent = each does both. */
  readonly prefillShare?: number | undefined;
  /** Names of the policies that are compared without `--policy`; absent = the usual ones. */
  readonly policies?: readonly string[] | undefined;
  make(settings: WorkloadSettings): Workload;
}
