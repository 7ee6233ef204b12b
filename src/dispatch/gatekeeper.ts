import type { Clock, Timer } from "../clock/clock.ts";
import { messageOf } from "../inference/errors.ts";
import type { DispatchGate, GateMessage } from "../plugin/gate.ts";
import type { Logger } from "../telemetry/logger.ts";
import type { BrokerTime } from "./broker-time.ts";
import type { Delivery } from "./delivery.ts";
import type { Endings } from "./endings.ts";
import { HeldRound } from "./held.ts";
import { drop, type Judged, judge } from "./judge.ts";
import type { QueueSeries } from "./queue-series.ts";
import type { Broker } from "./queues/broker.ts";

/** Milliseconds between questions about messages that a gate lets wait, and between looks whether they were cancelled. */
const RECHECK = 200;
const CANCEL_CHECK = 1000;

export interface GatekeeperOptions {
  readonly gate: DispatchGate;
  readonly broker: Pick<Broker, "cancelled">;
  readonly endings: Endings;
  readonly series: QueueSeries;
  readonly clock: Clock;
  readonly time: BrokerTime;
  readonly log: Logger;
  readonly queueName: string;
}

/** Where messages go that the gate has judged. */
export interface Passage {
  /** On to the workers; false when the capacities have no room for it after all. */
  pass(delivery: Delivery): boolean;
  /** Back into the queue, where it was. */
  giveBack(delivery: Delivery): void;
  /** There may be something to do. */
  wake(): void;
}

/** `full`: nothing more fits or may pass for now. `failing`: the gate cannot judge. */
export type Trouble = "full" | "failing" | undefined;

/**
 * Shows a queue's messages to its gate and keeps those that may not pass yet: refused ones until the round ends, so that whoever
 * stands behind them is seen, and waiting ones until the gate says otherwise.
 */
export class Gatekeeper {
  readonly #options: GatekeeperOptions;
  readonly #parked = new Set<Delivery>();
  #held: HeldRound | undefined;
  #check: Timer | undefined;
  #lastCancelCheck: number;
  #stopped = false;

  constructor(options: GatekeeperOptions) {
    this.#options = options;
    this.#lastCancelCheck = options.clock.now();
  }

  get judgesWhenClosed(): boolean {
    return this.#options.gate.judgesWhenClosed === true;
  }

  /** Of the gate, 0..1. */
  budget(): Promise<number> {
    return this.#options.gate.budget();
  }

  /** Messages that the gate lets wait. */
  get parked(): number {
    return this.#parked.size;
  }

  /** Messages kept in all. */
  get waiting(): number {
    return this.#parked.size + (this.#held?.size ?? 0);
  }

  /** Judges claimed messages in their order. */
  async sort(deliveries: readonly Delivery[], passage: Passage): Promise<Trouble> {
    // All at once: a gate that asks a server would otherwise cost one round trip per message.
    const verdicts = deliveries.map((delivery) => this.#judge(delivery));
    let trouble: Trouble;
    for (const [i, delivery] of deliveries.entries()) {
      let verdict = verdicts[i]!;
      if (verdict instanceof Promise) verdict = await verdict;
      // In dispatch order, and nobody overtakes what does not fit (async-processor 2.3).
      if (trouble === "full" && (verdict.kind === "continue" || verdict.kind === "refuse")) passage.giveBack(delivery);
      else trouble = this.#obey(delivery, verdict, passage) ?? trouble;
    }
    return trouble;
  }

  /**
   * Keeps a refused message until the round ends.
   * @param key of the refusal, see `DispatchGate.refusalKey`
   */
  hold(delivery: Delivery, key: string | undefined, passage: Passage): void {
    delivery.release();
    if (this.#stopped) {
      passage.giveBack(delivery);
      return;
    }
    this.#held ??= new HeldRound(this.#options.clock, (held) => {
      for (const each of held) passage.giveBack(each);
      passage.wake();
    });
    this.#held.add(delivery, key);
  }

  /** Gives everything back. */
  stop(passage: Passage): void {
    this.#stopped = true;
    this.#check?.cancel();
    this.#held?.end();
    for (const delivery of this.#parked) passage.giveBack(delivery);
    this.#parked.clear();
  }

  #judge(delivery: Delivery): Judged | Promise<Judged> {
    const { gate } = this.#options;
    const seen = this.#seen(delivery);
    if (this.#held !== undefined && this.#held.size > 0 && this.#held.refuses(gate.refusalKey?.(seen)))
      return { kind: "refuse", reason: "quota_exhausted" };
    return judge(gate, seen, delivery);
  }

  /** What the gate is shown of a message. */
  #seen({ claim, labels, signal }: Delivery): GateMessage {
    const { id, metadata, deadline } = claim.message.request;
    return { id, metadata, labels, deadline, signal, admitted: !this.judgesWhenClosed };
  }

  #obey(delivery: Delivery, verdict: Judged, passage: Passage): Trouble {
    const { series, endings, gate, log, queueName } = this.#options;
    switch (verdict.kind) {
      case "continue":
        if (passage.pass(delivery)) return undefined;
        passage.giveBack(delivery);
        return "full";
      case "wait":
        series.decision("gate_closed");
        this.#park(delivery, passage);
        return undefined;
      case "refuse": {
        const reason = verdict.reason ?? "gate_closed";
        series.decision(reason);
        const key = gate.refusalKey?.(this.#seen(delivery));
        // A gate that tells messages apart and is closed all the same is closed to everybody.
        if (reason === "gate_closed" && key !== undefined && !this.judgesWhenClosed) {
          passage.giveBack(delivery);
          return "full";
        }
        this.hold(delivery, key, passage);
        return undefined;
      }
      case "drop":
        series.decision("dropped");
        drop(endings, delivery, verdict);
        return undefined;
      case "error":
        series.decision("error");
        log.warn({ queue: queueName, problem: verdict.problem }, "a gate failed; its message waits");
        this.hold(delivery, undefined, passage);
        return "failing";
    }
  }

  /** Keeps the claim and asks the gate again. */
  #park(delivery: Delivery, passage: Passage): void {
    if (this.#stopped) {
      passage.giveBack(delivery);
      return;
    }
    this.#parked.add(delivery);
    this.#checkLater(passage);
  }

  #checkLater(passage: Passage): void {
    this.#check ??= this.#options.clock.after(
      RECHECK,
      () => {
        void this.#askAgain(passage).finally(() => {
          this.#check = undefined;
          if (this.#stopped) return;
          if (this.#parked.size > 0) this.#checkLater(passage);
          passage.wake();
        });
      },
      true,
    );
  }

  async #askAgain(passage: Passage): Promise<void> {
    const { endings, time } = this.#options;
    await this.#endCancelled();
    for (const delivery of [...this.#parked]) {
      const { claim } = delivery;
      if (time.now() > claim.message.request.deadline * 1000) {
        this.#parked.delete(delivery);
        endings.expired(delivery);
        continue;
      }
      const verdict = claim.lost
        ? ({ kind: "refuse" } as const)
        : await judge(this.#options.gate, this.#seen(delivery), delivery);
      // A stop in the meantime has given it back already.
      if (!this.#parked.has(delivery)) delivery.release();
      else if (verdict.kind === "continue" && !passage.pass(delivery)) delivery.release();
      else if (verdict.kind !== "wait") {
        this.#parked.delete(delivery);
        if (verdict.kind !== "continue") this.#obey(delivery, verdict, passage);
      }
    }
  }

  async #endCancelled(): Promise<void> {
    const { broker, clock, endings, log } = this.#options;
    if (clock.now() - this.#lastCancelCheck < CANCEL_CHECK) return;
    this.#lastCancelCheck = clock.now();
    const parked = [...this.#parked];
    try {
      const cancelled = await broker.cancelled(parked.map(({ claim }) => claim));
      for (const [i, delivery] of parked.entries())
        if (cancelled[i] === true && this.#parked.delete(delivery)) endings.cancelled(delivery);
    } catch (error) {
      // They wait on; the next look comes in a second.
      log.debug({ problem: messageOf(error) }, "cannot ask what was cancelled");
    }
  }
}
