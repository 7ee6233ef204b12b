import type { Clock } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import type { Claim } from "../brokers/broker.ts";
import type { PoolSettings } from "../brokers/settings.ts";
import type { BrokerTime } from "./broker-time.ts";
import type { Delivery } from "./delivery.ts";
import type { Leases } from "./leases.ts";
import type { Line } from "./line.ts";
import type { MergePolicy } from "./merge/merge-policy.ts";

/** Milliseconds between looks for what expires while all workers are busy. */
const SWEEP = 1000;
/** Messages are claimed ahead for the workers that end within so many milliseconds: about one claim's way to the broker and back. */
const AHEAD_MS = 25;
/** At most so many of them per worker. */
const AHEAD_SHARE = 1 / 4;
/** Milliseconds over which the pace of the workers is averaged. */
const PACE_MS = 1000;

/** How fast workers end messages, as a mean that decays with time. */
class Pace {
  readonly #clock: Clock;
  /** Messages per millisecond at `#at`. */
  #rate = 0;
  #at = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  ended(): void {
    this.#rate = this.rate + 1 / PACE_MS;
    this.#at = this.#clock.now();
  }

  /** Messages per millisecond. */
  get rate(): number {
    return this.#rate * Math.exp((this.#at - this.#clock.now()) / PACE_MS);
  }
}

export interface WorkerPoolOptions {
  readonly settings: PoolSettings;
  readonly policy: MergePolicy;
  readonly leases: Leases;
  readonly clock: Clock;
  readonly time: BrokerTime;
  readonly random: Random;
  /** Takes one message from the gateway's door to its end; never rejects. */
  work(line: Line, delivery: Delivery): Promise<void>;
}

/** The workers of one pool and the queues that feed them. Pools share nothing: one that stands still holds up no other. */
export class WorkerPool {
  readonly settings: PoolSettings;
  readonly #options: WorkerPoolOptions;
  readonly #lines = new Map<string, Line>();
  readonly #idle: (() => void)[] = [];
  readonly #pace: Pace;
  #order: Line[] = [];
  #running = 0;
  #pumping = false;
  #sweeping = false;
  #stopped = false;

  constructor(options: WorkerPoolOptions) {
    this.settings = options.settings;
    this.#options = options;
    this.#pace = new Pace(options.clock);
  }

  get lines(): readonly Line[] {
    return this.#order;
  }

  /** Messages that a worker has. */
  get running(): number {
    return this.#running;
  }

  addLine(line: Line): void {
    this.#lines.set(line.queue.name, line);
    this.#order = [...this.#lines.values()];
  }

  /** Something changed: hands out what is claimed, and claims more. Many calls in one turn of the event loop are one. */
  pump(): void {
    if (this.#pumping || this.#stopped) return;
    this.#pumping = true;
    this.#options.clock.soon(() => {
      this.#pumping = false;
      this.#handOut();
      this.#sweepLater();
      this.#fill();
    });
  }

  /** Claims nothing more and gives back what no worker has; those that run go on. */
  async stop(): Promise<void> {
    this.#stopped = true;
    const stopping = this.#order.map((line) => line.stop());
    // Now: a line whose broker or gate does not answer must not keep what the others have claimed.
    for (const claim of this.#options.policy.drain()) {
      const line = this.#lineOf(claim);
      line.series.depth(-1);
      line.giveBack(this.#options.leases.get(claim));
    }
    await Promise.all(stopping);
  }

  /** Resolves when no worker has a message. */
  async idle(): Promise<void> {
    if (this.#running > 0) await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  #handOut(): void {
    if (this.#stopped) return;
    const { policy, leases } = this.#options;
    while (this.#running < this.settings.workers) {
      const claim = policy.next();
      if (claim === undefined) return;
      this.#running++;
      void this.#options.work(this.#lineOf(claim), leases.get(claim)).finally(this.#ended);
    }
  }

  /** A worker has ended its message. */
  readonly #ended = (): void => {
    this.#running--;
    this.#pace.ended();
    // What it gave back may be what the next one waits for.
    for (const line of this.#order) line.changed();
    // At once: workers that waited for one another's claims would all send, and all wait, at the same time.
    this.#handOut();
    if (this.#running === 0) for (const resolve of this.#idle.splice(0)) resolve();
    this.pump();
  };

  /** What waits for a worker may expire before there is one. */
  #sweepLater(): void {
    if (this.#sweeping || this.#stopped || this.#options.policy.size === 0) return;
    this.#sweeping = true;
    this.#options.clock.after(
      SWEEP,
      () => {
        this.#sweeping = false;
        this.#sweep();
        this.pump();
      },
      true,
    );
  }

  #sweep(): void {
    if (this.#stopped) return;
    const { policy, leases, time } = this.#options;
    const now = time.now();
    for (const claim of policy.drain()) {
      const delivery = leases.get(claim);
      if (now <= claim.message.request.deadline * 1000) policy.add(claim, delivery.labels);
      else {
        const line = this.#lineOf(claim);
        line.series.depth(-1);
        line.endings.expired(delivery);
      }
    }
  }

  #fill(): void {
    if (this.#stopped) return;
    const lines = this.#order;
    const { policy, random } = this.#options;
    // Begins anywhere, so that no queue is always the first to be asked.
    const first = lines.length > 1 ? random.below(lines.length) : 0;
    if (policy.urgency !== undefined && lines.length > 1) {
      this.#fillByUrgency([...lines.slice(first), ...lines.slice(0, first)]);
      return;
    }
    for (let i = 0; i < lines.length; i++) lines[(first + i) % lines.length]!.fill(this.#free());
  }

  /** The most urgent first; who would take room from one that is more urgent and wants it waits. */
  #fillByUrgency(lines: Line[]): void {
    const urgency = ({ queue }: Line): number => this.#options.policy.urgency!(queue);
    lines.sort((a, b) => urgency(a) - urgency(b));
    for (const [i, line] of lines.entries()) {
      const own = urgency(line);
      const { capacities } = line.admission;
      const yields = lines
        .slice(0, i)
        .some(
          (other) =>
            other.wanting &&
            urgency(other) < own &&
            other.admission.capacities.some((capacity) => capacities.includes(capacity)),
        );
      if (yields) line.yield();
      else line.fill(this.#free());
    }
  }

  /** Workers that nothing is on its way to, those that are about to end their message included. */
  #free(): number {
    let coming = 0;
    for (const line of this.#order) coming += line.claiming;
    const { workers } = this.settings;
    const ahead = Math.floor(Math.min(workers * AHEAD_SHARE, this.#pace.rate * AHEAD_MS));
    return Math.max(0, workers + ahead - this.#running - coming);
  }

  #lineOf(claim: Claim): Line {
    return this.#lines.get(claim.queue.name)!;
  }
}
