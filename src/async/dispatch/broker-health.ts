import type { Clock } from "../../base/clock/clock.ts";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import type { Broker, SettleOutcome } from "../brokers/broker.ts";

/**
 * Milliseconds after which a failure no longer counts. A call that still fails is repeated within 2 s and renews the failure.
 */
const STALE = 10_000;
/** Milliseconds from the start in which a broker without an answer is not reported. */
const PATIENCE = 3000;

/** Reasons of a server that answers with a refusal. Every other reason is "away". */
const REFUSALS =
  /\b(OOM|MISCONF|READONLY|WRONGTYPE|LOADING|BUSY|MASTERDOWN|NOREPLICAS|NOPERM|NOAUTH|WRONGPASS|disk is full|read-only)\b/;

interface Failure {
  readonly problem: string;
  /** Monotonic milliseconds. */
  readonly at: number;
}

/**
 * Whether requests can be claimed and results can be written: the answer of the readiness probe. It observes the calls that the
 * dispatcher makes anyway (`watch`), and asks the broker when a probe comes (`check`). Each change of the state is one line in
 * the log.
 */
export class BrokerHealth {
  readonly #broker: Broker;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #begun: number;
  /** Failures by kind of call: a queue's claims, results, leases, retries, the probe. */
  readonly #failures = new Map<string, Failure>();
  #worked = false;
  /** The state in the last log line: the kind of the problem, or "" for none. */
  #told = "";
  #unusable: string | undefined;

  constructor(broker: Broker, clock: Clock, log: Logger) {
    this.#broker = broker;
    this.#clock = clock;
    this.#log = log;
    this.#begun = clock.now();
  }

  /** Why requests cannot be claimed or results cannot be written, as the log has it; undefined = they can. */
  get unusable(): string | undefined {
    return this.#unusable;
  }

  /** @throws SluiceError BROKER_UNAVAILABLE with the reason while requests cannot be claimed or results cannot be written */
  async check(): Promise<void> {
    await this.#see("the broker", this.#broker.check()).catch(() => undefined);
    const now = this.#clock.now();
    for (const [what, { at }] of this.#failures) if (now - at > STALE) this.#failures.delete(what);
    this.#tell();
    const problem = this.#problem;
    if (problem !== undefined) throw new SluiceError("BROKER_UNAVAILABLE", problem);
  }

  /** The broker for the dispatcher: each call is observed. */
  watch(): Broker {
    const broker = this.#broker;
    return {
      start: (events) => broker.start(events),
      claim: (queue, request) => this.#see(`claims of ${queue.name}`, broker.claim(queue, request)),
      settle: (settlements) => this.#see("results", broker.settle(settlements), refused),
      renew: (claims) => this.#see("leases", broker.renew(claims)),
      cancelled: (claims) => broker.cancelled(claims),
      moveDue: () => this.#see("retries", broker.moveDue()),
      reclaim: (held) => this.#see("leases of others", broker.reclaim(held)),
      check: () => broker.check(),
      backlog: (queue) => broker.backlog(queue),
      close: () => broker.close(),
    };
  }

  /** @param failure the reason when an answer means a failure; undefined = none */
  async #see<T>(what: string, answer: Promise<T>, failure?: (value: T) => string | undefined): Promise<T> {
    let problem: string | undefined;
    try {
      const value = await answer;
      problem = failure?.(value);
      return value;
    } catch (error) {
      problem = messageOf(error);
      throw error;
    } finally {
      if (problem === undefined) this.#works(what);
      else this.#fails(what, problem);
    }
  }

  #works(what: string): void {
    // Failures from before the first connection are over; a call that still fails is repeated.
    if (!this.#worked)
      for (const [each, { problem }] of this.#failures) if (!REFUSALS.test(problem)) this.#failures.delete(each);
    this.#worked = true;
    this.#failures.delete(what);
    this.#tell();
  }

  #fails(what: string, problem: string): void {
    this.#failures.set(what, { problem, at: this.#clock.now() });
    this.#tell();
  }

  /** The latest problem; undefined = none. */
  get #problem(): string | undefined {
    let latest: Failure | undefined;
    for (const failure of this.#failures.values())
      if (latest === undefined || failure.at >= latest.at) latest = failure;
    return latest?.problem;
  }

  #tell(): void {
    const problem = this.#problem;
    const kind = problem === undefined ? "" : (REFUSALS.exec(problem)?.[0] ?? "away");
    if (kind === this.#told) return;
    // A first connection takes a moment. A refusal is reported at once: the server has answered.
    if (kind === "away" && !this.#worked && this.#clock.now() - this.#begun < PATIENCE) return;
    this.#told = kind;
    this.#unusable = problem;
    if (problem === undefined) this.#log.info({}, "ready again: requests can be claimed and results can be written");
    else
      this.#log.error(
        { problem, failing: [...this.#failures.keys()].slice(0, 20) },
        "not ready: requests cannot be claimed, or results cannot be written; this process keeps the requests it has claimed, and tries again",
      );
  }
}

/** The problem when the broker took none of the settlements. */
function refused(outcomes: readonly SettleOutcome[]): string | undefined {
  const [first] = outcomes;
  if (typeof first !== "object" || outcomes.some((outcome) => typeof outcome === "string")) return undefined;
  return first.failed;
}
