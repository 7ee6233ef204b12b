import type { Clock, Timer } from "../../base/clock/clock.ts";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import { CONTINUE, type DispatchGate, type GateMessage, type GateVerdict } from "../../base/plugin/gate.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import { RateLimitedLog } from "../../base/telemetry/rate-limited-log.ts";
import type { Broker } from "../brokers/broker.ts";
import { OPEN_GATE } from "../gates/factory.ts";
import type { BrokerTime } from "./broker-time.ts";
import type { Delivery } from "./delivery.ts";
import { BACK, cancelledOutcome, errorOutcome, IN_A_SECOND, type MessageOutcome, unsendable } from "./outcomes.ts";
import type { QueueSeries } from "./series.ts";
import { type Slotted, UnorderedSet } from "./unordered-set.ts";

/**
 * Milliseconds between questions about a message that a gate lets wait. The pause is shorter at a pool's gate, where the
 * message keeps a worker.
 */
const ASK_AGAIN = { queue: 200, pool: 50 } as const;
/** Milliseconds between checks whether waiting messages were cancelled. */
const CANCEL_CHECK = 1000;

/** A gate's verdict on a message, or its failure. */
export type GateAnswer =
  | GateVerdict
  | {
      readonly kind: "error";
      readonly problem: string;
      /** The failure says nothing about the message: a server that the gate asks is away. */
      readonly passing: boolean;
    };

/** The message is kept under its lease until the round of refusals ends. */
export interface Hold {
  readonly kind: "hold";
  /** Messages with this key get the same verdict in this round; undefined = this message alone. */
  readonly key: string | undefined;
  /** The gate failed and can judge no message for now. */
  readonly gateFailed: boolean;
}

/** The next step of a message whose gate has decided. */
export type Passage = { readonly kind: "on" } | Hold | MessageOutcome;
/** The next step of a message after its gate was asked. */
export type Step = Passage | { readonly kind: "wait" };

const ON: Step = { kind: "on" };
const WAIT: Step = { kind: "wait" };
const VERDICTS: ReadonlySet<unknown> = new Set<GateVerdict["kind"]>(["continue", "wait", "refuse", "drop"]);
/** Codes of failures that say nothing about the message. */
const PASSING: ReadonlySet<SluiceError["code"]> = new Set(["BROKER_UNAVAILABLE", "METRIC_SOURCE"]);

export interface GateRunnerOptions {
  readonly gate: DispatchGate;
  /** Whether the gate stands in front of a queue or of a pool's workers. */
  readonly place: "queue" | "pool";
  /** Name of the queue or pool, for logs. */
  readonly name: string;
  /** Undefined where nothing is counted: at a pool without a gate. */
  readonly series: QueueSeries | undefined;
  readonly broker: Pick<Broker, "cancelled">;
  readonly clock: Clock;
  readonly time: BrokerTime;
  readonly log: Logger;
}

/** A message that waits for its gate. */
interface Waiting extends Slotted {
  readonly delivery: Delivery;
  /** The gate was asked and has not answered. */
  asked: boolean;
  readonly resolve: (passage: Passage) => void;
}

/**
 * Asks one gate about messages, in front of a queue or of a pool's workers, and returns the next step of each message. It asks
 * again about messages that wait here; they end when they expire or are cancelled.
 */
export class GateRunner {
  readonly #options: GateRunnerOptions;
  readonly #quietly: RateLimitedLog;
  readonly #waiting = new UnorderedSet<Waiting>();
  #timer: Timer | undefined;
  #cancelsLookedAt: number;
  #stopped = false;

  constructor(options: GateRunnerOptions) {
    this.#options = options;
    this.#quietly = new RateLimitedLog(options.log, options.clock, { intervalMs: 10_000, maxKeys: 1 });
    this.#cancelsLookedAt = options.clock.now();
  }

  get judgesWhenClosed(): boolean {
    return this.#options.gate.judgesWhenClosed === true;
  }

  /** Messages that wait for the gate. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** The budget of the gate, 0..1. */
  async budget(): Promise<number> {
    return this.#options.gate.budget();
  }

  /** Asks until the gate has decided. Only the message's deadline limits the wait. Never rejects. */
  run(delivery: Delivery): Passage | Promise<Passage> {
    const verdict = this.evaluate(delivery);
    if (verdict instanceof Promise) return this.wait(delivery, verdict);
    const step = this.obey(delivery, verdict);
    return step.kind === "wait" ? this.wait(delivery) : step;
  }

  /** Asks the gate once, and gives back its reservations unless the message may go on. Never throws or rejects. */
  evaluate(delivery: Delivery): GateAnswer | Promise<GateAnswer> {
    const { gate, place, name } = this.#options;
    if (gate === OPEN_GATE) return CONTINUE;
    const { reservations, undo } = delivery.reserve(`the gate of ${place} ${name}`);
    const failed = (error: unknown): GateAnswer => {
      undo();
      const passing = error instanceof SluiceError && PASSING.has(error.code);
      return { kind: "error", problem: messageOf(error), passing };
    };
    const said = (verdict: GateVerdict | undefined): GateAnswer => {
      if (verdict === undefined || !VERDICTS.has(verdict.kind))
        return failed(new Error(`the gate returned no verdict, but ${JSON.stringify(verdict)?.slice(0, 100)}`));
      if (verdict.kind !== "continue") undo();
      return verdict;
    };
    try {
      const verdict = gate.apply(this.#seen(delivery), reservations);
      // A promise of another library is no instance of the built-in class.
      return "then" in verdict ? Promise.resolve(verdict).then(said).catch(failed) : said(verdict);
    } catch (error) {
      return failed(error);
    }
  }

  /** The key of a message: messages with the same key share their refusals. Never throws. */
  refusalKey(delivery: Delivery): string | undefined {
    try {
      return this.#options.gate.refusalKey?.(this.#seen(delivery));
    } catch {
      return undefined;
    }
  }

  /**
   * Counts a verdict and returns its meaning at this place (async-processor 3.1).
   * @param again true: the message has waited, and its wait is counted already
   */
  obey(delivery: Delivery, verdict: GateAnswer, again = false): Step {
    const { series, place } = this.#options;
    switch (verdict.kind) {
      case "continue":
        return ON;
      case "wait":
        if (!again) series?.decision("gate_closed");
        return WAIT;
      case "refuse": {
        const reason = verdict.reason ?? "gate_closed";
        const key = place === "queue" ? this.refusalKey(delivery) : undefined;
        // A gate that refuses by key, but reports that it is closed, is closed to every message.
        const toAll = reason === "gate_closed" && !this.judgesWhenClosed && (place === "pool" || key !== undefined);
        // A message that a pool's gate sent back would be the next to come.
        if (toAll && place === "pool") return this.obey(delivery, { kind: "wait" }, again);
        series?.decision(reason);
        return toAll ? { kind: "back", gateClosed: true } : { kind: "hold", key, gateFailed: false };
      }
      case "drop":
        series?.decision("dropped");
        return dropped(delivery, verdict);
      case "error":
        return this.#failed(delivery, verdict);
    }
  }

  /**
   * Keeps a message until its gate has decided.
   * @param answer of the gate, if it was asked already
   */
  wait(delivery: Delivery, answer?: Promise<GateAnswer>): Promise<Passage> {
    if (this.#stopped) return Promise.resolve(BACK);
    return new Promise((resolve) => {
      const waiting: Waiting = { slot: -1, delivery, asked: false, resolve };
      this.#waiting.add(waiting);
      if (answer !== undefined) this.#await(waiting, answer, false);
      this.#lookLater();
    });
  }

  /** Gives back all waiting messages; later messages do not wait. */
  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
    for (const waiting of this.#waiting.all()) this.#leave(waiting, BACK);
  }

  #seen({ claim, labels, signal }: Delivery): GateMessage {
    const { id, metadata, deadline } = claim.message.request;
    return { id, metadata, labels, deadline, signal, admitted: !this.judgesWhenClosed };
  }

  #failed(delivery: Delivery, { problem, passing }: GateAnswer & { readonly kind: "error" }): Step {
    const { series, place, name } = this.#options;
    series?.decision("error");
    if (this.#stopped) return BACK;
    // An outage of a quota's server must not end messages for good.
    if (place === "pool" && !passing) return errorOutcome(delivery, "GATE_ERROR", `Pool gating error: ${problem}`);
    this.#quietly.log("warn", "failed", { [place]: name, problem }, "a gate failed; the message waits");
    return { kind: "hold", key: undefined, gateFailed: true };
  }

  #await(waiting: Waiting, answer: Promise<GateAnswer>, again: boolean): void {
    waiting.asked = true;
    void answer.then((verdict) => {
      // A message that has left meanwhile gives back what the gate reserved for it.
      if (waiting.slot >= 0) this.#decide(waiting, this.obey(waiting.delivery, verdict, again));
    });
  }

  #decide(waiting: Waiting, step: Step): void {
    waiting.asked = false;
    if (step.kind !== "wait") this.#leave(waiting, step);
  }

  #leave(waiting: Waiting, passage: Passage): void {
    if (this.#waiting.delete(waiting)) waiting.resolve(passage);
  }

  #lookLater(): void {
    const { clock, place } = this.#options;
    this.#timer ??= clock.after(
      ASK_AGAIN[place],
      () => {
        this.#timer = undefined;
        this.#look();
        if (this.#waiting.size > 0) this.#lookLater();
      },
      true,
    );
  }

  #look(): void {
    const { clock, time } = this.#options;
    void this.#endCancelled();
    for (const waiting of this.#waiting.all()) {
      const { delivery } = waiting;
      const end = unsendable(delivery, clock, time);
      if (end !== undefined) this.#leave(waiting, end);
      else if (!waiting.asked && waiting.slot >= 0) {
        const verdict = this.evaluate(delivery);
        if (verdict instanceof Promise) this.#await(waiting, verdict, true);
        else this.#decide(waiting, this.obey(delivery, verdict, true));
      }
    }
  }

  async #endCancelled(): Promise<void> {
    const { broker, clock, log, place } = this.#options;
    const now = clock.now();
    if (now - this.#cancelsLookedAt < CANCEL_CHECK) return;
    const asked = this.#waiting.all().filter(({ delivery }) => now - delivery.checkedAt >= CANCEL_CHECK);
    if (asked.length === 0) return;
    // One question at a time, however long the broker takes.
    this.#cancelsLookedAt = Number.POSITIVE_INFINITY;
    try {
      const cancelled = await broker.cancelled(asked.map(({ delivery }) => delivery.claim));
      for (const [i, waiting] of asked.entries())
        if (cancelled[i] === true) this.#leave(waiting, cancelledOutcome(waiting.delivery));
        else waiting.delivery.checkedAt = now;
    } catch (error) {
      log.debug({ problem: messageOf(error) }, "cannot read the list of cancelled requests");
      // An unknown answer is not a "no". A message that keeps a worker is put off; in front of a queue it may wait on.
      if (place === "pool") for (const waiting of asked) this.#leave(waiting, IN_A_SECOND);
    }
    this.#cancelsLookedAt = now;
  }
}

/** The outcome of a message that a gate dropped. */
function dropped(delivery: Delivery, { result }: GateVerdict & { kind: "drop" }): MessageOutcome {
  const problem = "Pool gating dropped request";
  if (result === undefined) return errorOutcome(delivery, "GATE_DROPPED", problem, "dropped");
  return {
    kind: "result",
    counts: "dropped",
    result: {
      id: delivery.claim.message.request.id,
      statusCode: result.statusCode ?? 0,
      payload: Buffer.from(String(result.payload)),
      errorCode: result.errorCode === undefined ? "" : "GATE_DROPPED",
      errorMessage: result.errorCode === undefined ? "" : problem,
      contentType: "application/json",
    },
  };
}

/** The answer; undefined when `ms` milliseconds pass or `signal` is aborted first. The answer may still come later. */
export function within<T>(clock: Clock, ms: number, answer: Promise<T>, signal: AbortSignal): Promise<T | undefined> {
  return new Promise((resolve, reject) => {
    const giveUp = (): void => {
      timer.cancel();
      signal.removeEventListener("abort", giveUp);
      resolve(undefined);
    };
    const timer = clock.after(ms, giveUp, true);
    signal.addEventListener("abort", giveUp, { once: true });
    if (signal.aborted) giveUp();
    answer.then(resolve, reject).finally(giveUp);
  });
}
