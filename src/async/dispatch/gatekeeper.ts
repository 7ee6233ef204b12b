import type { Clock, Timer } from "../../base/clock/clock.ts";
import { messageOf } from "../../base/inference/errors.ts";
import { CONTINUE, type DispatchGate, type GateMessage } from "../../base/plugin/gate.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import { RateLimitedLog } from "../../base/telemetry/rate-limited-log.ts";
import type { Broker } from "../brokers/broker.ts";
import { OPEN_GATE } from "../gates/constant.ts";
import type { BrokerTime } from "./broker-time.ts";
import type { Delivery } from "./delivery.ts";
import type { Endings } from "./endings.ts";
import { HeldRound } from "./held.ts";
import { drop, type Judged, judge, refusalKey, within } from "./judge.ts";
import type { QueueSeries } from "./queue-series.ts";

/** Milliseconds between questions about messages that a gate lets wait, and between looks whether they were cancelled. */
const RECHECK = 200;
const CANCEL_CHECK = 1000;
/** Milliseconds that messages claimed together wait for their verdicts; whose is not here then, waits for it apart. */
const PATIENCE = 250;

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
  /** What the gate said of a message that had waited. */
  troubled(trouble: Exclude<Trouble, undefined>): void;
  /** There may be something to do. */
  pump(): void;
}

/** `full`: nothing more fits or may pass for now. `failing`: the gate cannot judge. */
export type Trouble = "full" | "failing" | undefined;

/**
 * Shows a queue's messages to its gate and keeps those that may not pass yet: refused ones until the round ends, so that whoever
 * stands behind them is seen, and waiting ones until the gate says otherwise.
 */
export class Gatekeeper {
  readonly #options: GatekeeperOptions;
  readonly #quietly: RateLimitedLog;
  /** True: the gate was asked and has not answered. */
  readonly #parked = new Map<Delivery, boolean>();
  #held: HeldRound | undefined;
  #check: Timer | undefined;
  #lastCancelCheck: number;
  #stopped = false;

  constructor(options: GatekeeperOptions) {
    this.#options = options;
    this.#quietly = new RateLimitedLog(options.log, options.clock, { intervalMs: 10_000, maxKeys: 1 });
    this.#lastCancelCheck = options.clock.now();
  }

  get judgesWhenClosed(): boolean {
    return this.#options.gate.judgesWhenClosed === true;
  }

  /** Of the gate, 0..1. */
  async budget(): Promise<number> {
    return this.#options.gate.budget();
  }

  /** So many are kept that no more are to be claimed until the round ends. */
  get full(): boolean {
    return this.#held?.full === true;
  }

  /** Messages that the gate lets wait. */
  get parked(): number {
    return this.#parked.size;
  }

  /** Messages kept in all. */
  get waiting(): number {
    return this.#parked.size + (this.#held?.size ?? 0);
  }

  /** Judges claimed messages in their order. Never rejects. */
  async sort(deliveries: readonly Delivery[], passage: Passage): Promise<Trouble> {
    const { clock } = this.#options;
    // All at once: a gate that asks a server would otherwise cost one round trip per message.
    const verdicts = deliveries.map((delivery) => this.#judge(delivery));
    const until = clock.now() + PATIENCE;
    let trouble: Trouble;
    for (const [i, delivery] of deliveries.entries()) {
      const answer = verdicts[i]!;
      const verdict =
        answer instanceof Promise
          ? await within(clock, Math.max(0, until - clock.now()), answer, delivery.signal)
          : answer;
      if (verdict === undefined) {
        // A gate in which messages wait in place, or whose server hangs: nobody else is to wait for it.
        this.#park(delivery, passage);
        this.#await(delivery, answer as Promise<Judged>, passage, true);
        continue;
      }
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
      passage.pump();
    });
    this.#held.add(delivery, key);
  }

  /** Gives everything back. */
  stop(passage: Passage): void {
    this.#stopped = true;
    this.#check?.cancel();
    this.#held?.end();
    for (const delivery of this.#parked.keys()) passage.giveBack(delivery);
    this.#parked.clear();
  }

  #judge(delivery: Delivery): Judged | Promise<Judged> {
    const { gate } = this.#options;
    if (gate === OPEN_GATE) return CONTINUE;
    const seen = this.#seen(delivery);
    if (this.#held !== undefined && this.#held.size > 0 && this.#held.refuses(refusalKey(gate, seen)))
      return { kind: "refuse", reason: "quota_exhausted" };
    return judge(gate, seen, delivery);
  }

  /** What the gate is shown of a message. */
  #seen({ claim, labels, signal }: Delivery): GateMessage {
    const { id, metadata, deadline } = claim.message.request;
    return { id, metadata, labels, deadline, signal, admitted: !this.judgesWhenClosed };
  }

  #obey(delivery: Delivery, verdict: Judged, passage: Passage): Trouble {
    const { series, endings, gate, queueName } = this.#options;
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
        const key = refusalKey(gate, this.#seen(delivery));
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
        this.#quietly.log(
          "warn",
          "failed",
          { queue: queueName, problem: verdict.problem },
          "a gate failed; its message waits",
        );
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
    this.#parked.set(delivery, false);
    this.#checkLater(passage);
  }

  /** Obeys the gate's answer about a message that is kept, when it comes. @param first that it has given about it */
  #await(delivery: Delivery, answer: Promise<Judged>, passage: Passage, first: boolean): void {
    if (!this.#parked.has(delivery)) return;
    this.#parked.set(delivery, true);
    void answer.then((verdict) => {
      if (first && verdict.kind === "wait") this.#options.series.decision("gate_closed");
      this.#answered(delivery, verdict, passage);
      passage.pump();
    });
  }

  #answered(delivery: Delivery, verdict: Judged, passage: Passage): void {
    // It has ended in the meantime: what the gate reserved for it was given back at once.
    if (!this.#parked.has(delivery)) return;
    if (verdict.kind === "wait") this.#parked.set(delivery, false);
    else if (verdict.kind === "continue" && !passage.pass(delivery)) {
      delivery.release();
      this.#parked.set(delivery, false);
    } else {
      this.#parked.delete(delivery);
      const trouble = verdict.kind === "continue" ? undefined : this.#obey(delivery, verdict, passage);
      if (trouble !== undefined) passage.troubled(trouble);
    }
  }

  #checkLater(passage: Passage): void {
    this.#check ??= this.#options.clock.after(
      RECHECK,
      () => {
        void this.#askAgain(passage).finally(() => {
          this.#check = undefined;
          if (this.#stopped) return;
          if (this.#parked.size > 0) this.#checkLater(passage);
          passage.pump();
        });
      },
      true,
    );
  }

  async #askAgain(passage: Passage): Promise<void> {
    const { endings, time } = this.#options;
    await this.#endCancelled();
    for (const [delivery, asked] of [...this.#parked]) {
      const { claim } = delivery;
      // A stop in the meantime has given it back already.
      if (!this.#parked.has(delivery)) continue;
      if (time.now() > claim.message.request.deadline * 1000) {
        this.#parked.delete(delivery);
        endings.expired(delivery);
      } else if (claim.lost) {
        this.#parked.delete(delivery);
        passage.giveBack(delivery);
      } else if (!asked) {
        const answer = judge(this.#options.gate, this.#seen(delivery), delivery);
        if (answer instanceof Promise) this.#await(delivery, answer, passage, false);
        else this.#answered(delivery, answer, passage);
      }
    }
  }

  async #endCancelled(): Promise<void> {
    const { broker, clock, endings, log } = this.#options;
    if (clock.now() - this.#lastCancelCheck < CANCEL_CHECK) return;
    this.#lastCancelCheck = clock.now();
    const parked = [...this.#parked.keys()];
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
