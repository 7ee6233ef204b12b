import type { Clock } from "../../../base/clock/clock.ts";
import type { SeededRandom } from "../../../base/clock/random.ts";

/** Bytes of prompt text per token. The text is made of words of three letters and a space, so its bytes are the token ids. */
export const BYTES_PER_TOKEN = 4;

/** One request of a workload. */
export interface WorkloadRequest {
  /** Four bytes per token, at least one token. May be shared between requests; nobody changes it. */
  readonly prompt: Uint8Array;
  /** Tokens that the answer comes to, >= 1. */
  readonly outputTokens: number;
  /** The text of the answer, four bytes per token, where a later prompt holds it: engines keep it in their caches, too. */
  readonly answer?: Uint8Array | undefined;
  /** LoRA adapter; absent = the base model. */
  readonly adapter?: string | undefined;
  /** Below 0 = may be shed; absent = 0. */
  readonly priority?: number | undefined;
  /** Fairness ID; absent = all in one flow. */
  readonly tenant?: string | undefined;
  /** Conversation that it belongs to. */
  readonly session?: string | undefined;
  /** By what results are broken down, such as `realtime` and `batch`; absent = not at all. At most 64 in a workload. */
  readonly kind?: string | undefined;
}

/** What a workload drives. */
export interface WorkloadPort {
  /** Virtual time; starts at 0. */
  readonly clock: Clock;
  /** Of this run alone. Whatever may be drawn in an order that depends on answers is drawn from a generator of its own. */
  readonly random: SeededRandom;
  /** Sends a request now. @param ended called once, later: all of the answer is there, or it was refused */
  send(request: WorkloadRequest, ended?: (outcome: "finished" | "rejected") => void): void;
}

/**
 * Requests over time. The same seed gives the same requests at the same times under every policy, but for what waits for
 * answers by its nature (turns of a conversation, a backlog).
 */
export interface Workload {
  /** Arms what is to come. Without arrivals and answers left to come a run is over. */
  start(port: WorkloadPort): void;
}

/** What may be asked of a workload. */
export interface WorkloadSettings {
  /** Requests per second on average, > 0; where arrivals have no rate it scales their number. */
  readonly rate: number;
  /** Milliseconds during which requests arrive, > 0; a warm-up comes on top. */
  readonly durationMs: number;
  readonly servers: number;
  /** Traffic that comes before, so that caches are as they are in a pool that has been running; absent = none. */
  readonly warmUp?: WarmUp | undefined;
}

/** Traffic that nobody measures, ahead of what is measured. */
export interface WarmUp {
  /** As the rate of a workload. */
  readonly rate: number;
  readonly durationMs: number;
  /**
   * Milliseconds behind it without arrivals, in which its answers end; absent = 0. Whoever is slow would go into what is
   * measured with a backlog otherwise.
   */
  readonly restMs?: number | undefined;
}

/** Milliseconds from the start to what is measured. */
export function leadMs(warmUp: WarmUp | undefined): number {
  return warmUp === undefined ? 0 : warmUp.durationMs + (warmUp.restMs ?? 0);
}

/** A kind of traffic that can be simulated by name. */
export interface WorkloadDefinition {
  /** As given on the command line, such as `b2b-saas`. */
  readonly name: string;
  /** A sentence for people: what it is like, and what it shows. */
  readonly about: string;
  /** Rates that are run when none is given, ascending. */
  readonly rates: readonly number[];
  /** What `rate` means: "requests/s" nearly everywhere. */
  readonly rateUnit: string;
  /** Its servers, and what is peculiar about them. */
  readonly servers: number;
  /** Name of a preset of `batching/config.ts`. */
  readonly preset: string;
  /** LoRA adapters that a server holds at a time; absent = as the preset says. */
  readonly loraSlots?: number | undefined;
  /** Milliseconds between two scrapes of a server, and how old their figures are on arrival; absent = 50 and 0. */
  readonly scrapeIntervalMs?: number | undefined;
  readonly metricsLagMs?: number | undefined;
  readonly durationMs: number;
  /** What comes before, under every rate; absent = the servers begin with empty caches. */
  readonly warmUp?: WarmUp | undefined;
  make(settings: WorkloadSettings): Workload;
}
