import { z } from "zod";
import type { Clock } from "../../../base/clock/clock.ts";
import { defineFairnessPolicy } from "../../../base/plugin/define.ts";
import type {
  FairnessPolicy,
  FlowChoice,
  QueuedFlow,
  QueuedRequest,
  ServedTokens,
} from "../../../base/plugin/flow-kinds.ts";
import { AverageWaits, type Waits } from "./average-waits.ts";

const LAS_ONLY = "strategy turn-priority is not supported yet: use las, least attained service";

function weight(name: string, value: number, of: string) {
  return z
    .number(`${name} must be a number`)
    .min(0, `${name} must not be negative`)
    .default(value)
    .describe(`Weight of ${of}.`);
}

function seconds(name: string, value: number) {
  return z.number(`${name} must be a number`).min(0, `${name} must not be negative`).default(value);
}

const parameters = z.strictObject({
  strategy: z
    .literal("las", {
      error: ({ input }) => (input === "turn-priority" ? LAS_ONLY : "strategy must be las"),
    })
    .default("las")
    .describe("`las` is least attained service."),
  evictionTtlSeconds: seconds("evictionTtlSeconds", 3600).describe(
    "Sluice forgets the service of a fairness ID this many seconds after its last answer; 0 = never by age.",
  ),
  evictionSweepSeconds: z
    .number("evictionSweepSeconds must be a number")
    .positive("evictionSweepSeconds must be greater than 0")
    .default(300)
    .describe("Seconds between two searches for old fairness IDs."),
  lasWeightService: weight("lasWeightService", 0.8, "little attained service"),
  lasWeightHeadWait: weight("lasWeightHeadWait", 0.2, "the wait of the next request of the flow"),
  lasHalfLifeSeconds: seconds("lasHalfLifeSeconds", 60).describe(
    "Half-life of attained service, in seconds; 0 = no decay.",
  ),
});

type Settings = z.output<typeof parameters>;

/** scheduling 6.6 */
export const programAwareFairness = defineFairnessPolicy({
  type: "program-aware-fairness",
  describe:
    "The flow with the least service goes next. Service is prompt tokens plus twice the completion tokens, and decays with time. The wait of the next request of the flow also counts.",
  parameters,
  create: (settings, { clock }) => new ProgramAware(settings, clock),
});

/** A completion token costs this much more than a prompt token. */
const COMPLETION_COST = 2;

/** See `programAwareFairness`. */
export class ProgramAware implements FairnessPolicy {
  readonly #service: AttainedService;
  readonly #waits: AverageWaits;
  readonly #settings: Settings;
  readonly #clock: Clock;

  constructor(settings: Settings, clock: Clock) {
    this.#settings = settings;
    this.#clock = clock;
    this.#service = new AttainedService(settings, clock.now());
    this.#waits = new AverageWaits(milliseconds(settings.evictionTtlSeconds));
  }

  choice(): FlowChoice {
    return new LeastServed(this.#settings, this.#service, this.#waits, this.#clock);
  }

  /** The attained service of each fairness ID in tokens, a completion token as two. @param now monotonic milliseconds */
  services(now: number): Iterable<readonly [fairnessId: string, tokens: number]> {
    return this.#service.list(now);
  }

  /** The waits of each fairness ID. @param now monotonic milliseconds */
  waits(now: number): ReadonlyMap<string, Waits> {
    return this.#waits.known(now);
  }

  /** Returns the state for `/debug/plugins/state`, without fairness IDs: clients choose those. */
  debugState(): unknown {
    return { fairnessIds: this.#service.size };
  }
}

/** The most fairness IDs whose service is known. Clients choose fairness IDs, so there must be a limit. */
const MAX_IDS = 4096;
/** Half-lives after which the figures are written anew. 2^64 is far below the largest number. */
const HALF_LIVES = 64;

/**
 * The service of each fairness ID, decayed. All figures are those of one moment, the epoch: service of a later moment is larger
 * there. So figures can be compared without any computation, and decay costs nothing.
 */
class AttainedService {
  /** By fairness ID, the one whose answer ended longest ago first. */
  readonly #known = new Map<string, { service: number; endedAt: number }>();
  /** Milliseconds; Infinity = no decay. */
  readonly #halfLife: number;
  readonly #ttl: number;
  readonly #interval: number;
  #epoch: number;
  #sweptAt: number;

  constructor({ lasHalfLifeSeconds, evictionTtlSeconds, evictionSweepSeconds }: Settings, now: number) {
    this.#halfLife = milliseconds(lasHalfLifeSeconds);
    this.#ttl = milliseconds(evictionTtlSeconds);
    this.#interval = evictionSweepSeconds * 1000;
    this.#epoch = now;
    this.#sweptAt = now;
  }

  get size(): number {
    return this.#known.size;
  }

  /** The service in figures of the epoch. Only ratios of such figures have a meaning. */
  of(fairnessId: string): number {
    return this.#known.get(fairnessId)?.service ?? 0;
  }

  /** The service at a time, by fairness ID. @param now monotonic milliseconds */
  *list(now: number): Iterable<readonly [fairnessId: string, tokens: number]> {
    if (now - this.#sweptAt >= this.#interval) this.#sweep(now);
    const share = 2 ** (-(now - this.#epoch) / this.#halfLife);
    for (const [fairnessId, { service }] of this.#known) yield [fairnessId, service * share];
  }

  /** @param now monotonic milliseconds */
  add(fairnessId: string, cost: number, now: number): void {
    if (now - this.#sweptAt >= this.#interval) this.#sweep(now);
    if (now - this.#epoch >= HALF_LIVES * this.#halfLife) this.#renew(now);
    const known = this.#known.get(fairnessId) ?? { service: 0, endedAt: now };
    known.service += cost * 2 ** ((now - this.#epoch) / this.#halfLife);
    known.endedAt = now;
    this.#known.delete(fairnessId);
    this.#known.set(fairnessId, known);
    if (this.#known.size > MAX_IDS) this.#known.delete(this.#known.keys().next().value!);
  }

  #sweep(now: number): void {
    this.#sweptAt = now;
    for (const [fairnessId, { endedAt }] of this.#known) {
      if (now - endedAt <= this.#ttl) break;
      this.#known.delete(fairnessId);
    }
  }

  #renew(now: number): void {
    const share = 2 ** (-(now - this.#epoch) / this.#halfLife);
    this.#epoch = now;
    for (const known of this.#known.values()) known.service *= share;
  }
}

/** @param seconds 0 = without end */
function milliseconds(seconds: number): number {
  return seconds === 0 ? Number.POSITIVE_INFINITY : seconds * 1000;
}

/** The least and the greatest of some figures. */
class Range {
  #least = Number.POSITIVE_INFINITY;
  #most = Number.NEGATIVE_INFINITY;

  take(value: number): void {
    if (value < this.#least) this.#least = value;
    if (value > this.#most) this.#most = value;
  }

  /** The place of a figure between the least (0) and the greatest (1); 0.5 where all are equal. */
  place(value: number): number {
    return this.#most === this.#least ? 0.5 : (value - this.#least) / (this.#most - this.#least);
  }
}

/** The flows of one band. A choice looks at each of them, because the wait of each changes what the others' waits count. */
class LeastServed implements FlowChoice {
  /** In the order in which they joined. */
  readonly #flows = new Set<QueuedFlow>();
  readonly #settings: Settings;
  /** Shared by all bands, as are the waits. */
  readonly #service: AttainedService;
  readonly #waits: AverageWaits;
  readonly #clock: Clock;

  constructor(settings: Settings, service: AttainedService, waits: AverageWaits, clock: Clock) {
    this.#settings = settings;
    this.#service = service;
    this.#waits = waits;
    this.#clock = clock;
  }

  joined(flow: QueuedFlow): void {
    this.#flows.add(flow);
  }

  left(flow: QueuedFlow): void {
    this.#flows.delete(flow);
  }

  next(now: number): QueuedFlow {
    const services = new Range();
    const waits = new Range();
    for (const { fairnessId, head } of this.#flows) {
      services.take(this.#service.of(fairnessId));
      waits.take(now - head.enqueuedAt);
    }
    const { lasWeightService, lasWeightHeadWait } = this.#settings;
    let best: QueuedFlow | undefined;
    let most = Number.NEGATIVE_INFINITY;
    for (const flow of this.#flows) {
      const need = 1 - services.place(this.#service.of(flow.fairnessId));
      const score = lasWeightService * need + lasWeightHeadWait * waits.place(now - flow.head.enqueuedAt);
      if (score <= most) continue;
      most = score;
      best = flow;
    }
    return best!;
  }

  served(): void {
    // Service counts when the answer has ended.
  }

  dispatched({ request, enqueuedAt }: QueuedRequest): number {
    const now = this.#clock.now();
    this.#waits.add(request.fairnessId, now - enqueuedAt, now);
    return 0;
  }

  ended(fairnessId: string, { promptTokens, completionTokens }: ServedTokens, _charged: number, now: number): void {
    const cost = (promptTokens || 0) + COMPLETION_COST * (completionTokens || 0);
    this.#service.add(fairnessId, cost, now);
  }
}
