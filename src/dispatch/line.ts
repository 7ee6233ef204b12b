import type { Clock, Timer } from "../clock/clock.ts";
import { messageOf } from "../inference/errors.ts";
import type { DispatchGate, GateMessage } from "../plugin/gate.ts";
import type { Logger } from "../telemetry/logger.ts";
import type { BrokerTime } from "./broker-time.ts";
import type { Admission } from "./budget/admission.ts";
import type { Delivery } from "./delivery.ts";
import type { Endings } from "./endings.ts";
import { HeldRound } from "./held.ts";
import { drop, type Judged, judge } from "./judge.ts";
import type { Leases } from "./leases.ts";
import type { MergePolicy } from "./merge/merge-policy.ts";
import type { QueueSeries } from "./queue-series.ts";
import type { Broker, Claim } from "./queues/broker.ts";
import type { QueueSettings } from "./settings.ts";

/** Messages past their deadline that one claim takes besides. */
const EXPIRED = 256;
/** Milliseconds between looks at a gate that holds work back, and at messages that wait for a verdict. */
const RECHECK = 1000;
const PARKED_RECHECK = 200;

export interface LineOptions {
  readonly queue: QueueSettings;
  readonly broker: Broker;
  readonly gate: DispatchGate;
  readonly admission: Admission;
  readonly policy: MergePolicy;
  readonly leases: Leases;
  readonly endings: Endings;
  readonly series: QueueSeries;
  readonly clock: Clock;
  readonly time: BrokerTime;
  readonly log: Logger;
  readonly pollInterval: number;
  readonly batchCap: number | undefined;
  /** The workers should look what there is. */
  pump(): void;
}

/** Why a line brings nothing, for people. */
export type LineState = "flowing" | "empty" | "closed" | "full" | "unavailable";

/**
 * One queue's way to the workers of its pool: claims as much as they and the capacities have room for, asks the queue's gate
 * about each message, and hands on what may go. Nothing is claimed that cannot soon leave.
 */
export class Line {
  readonly queue: QueueSettings;
  readonly series: QueueSeries;
  readonly endings: Endings;
  readonly admission: Admission;
  readonly gate: DispatchGate;
  readonly #options: LineOptions;
  readonly #held: HeldRound;
  readonly #parked = new Set<Delivery>();
  /** There may be something in the queue. */
  #promising = true;
  #claiming = 0;
  /** A message did not fit: nothing is claimed until the capacities have changed. */
  #stuck = false;
  /** The gate is closed or the broker away: nothing is claimed until the next look. */
  #blocked = false;
  /** Messages on their way back into the queue: claiming before they are there would pass them over. */
  #returning = 0;
  #stopped = false;
  #recheck: Timer | undefined;
  #poll: Timer | undefined;
  #parkedCheck: Timer | undefined;
  #idle: (() => void)[] = [];
  #state: LineState = "empty";

  constructor(options: LineOptions) {
    this.#options = options;
    this.queue = options.queue;
    this.series = options.series;
    this.endings = options.endings;
    this.admission = options.admission;
    this.gate = options.gate;
    this.#held = new HeldRound(options.clock, (held) => this.#giveBackAll(held));
  }

  get state(): LineState {
    return this.#state;
  }

  /** Messages asked of the broker and not here yet. */
  get claiming(): number {
    return this.#claiming;
  }

  /** Claimed messages that a gate holds back here. */
  get waiting(): number {
    return this.#held.size + this.#parked.size;
  }

  /** There may be something to claim that was not there before. */
  wake(): void {
    this.#promising = true;
    this.#options.pump();
  }

  /** The capacities changed. */
  changed(): void {
    this.#stuck = false;
    if (this.#state === "closed" && this.admission.room !== "closed") this.#unblock();
  }

  /** Claims what there is room for. @param free workers that nothing is on its way to */
  fill(free: number): void {
    const { policy } = this.#options;
    if (this.#stopped || this.#claiming > 0 || !this.#promising || this.#blocked || this.#returning > 0) return;
    const room = policy.room(this.queue, free) - this.#parked.size;
    if (room <= 0) return;
    const max = this.#affordable(room);
    if (max === 0 && this.admission.room !== "closed") {
      // What ends makes room and wakes this up; a larger N has to be looked for.
      this.#state = "full";
      this.#recheckLater();
      return;
    }
    // Counted as on its way from here on: other lines of the pool fill what is left.
    this.#claiming = Math.max(1, max);
    void this.#claim(room).finally(() => {
      this.#claiming = 0;
      for (const resolve of this.#idle.splice(0)) resolve();
      this.#options.pump();
    });
  }

  /** Puts a message back where it was. */
  giveBack(delivery: Delivery): void {
    this.#returning++;
    this.#promising = true;
    this.endings.refuse(delivery);
  }

  /** A message is back in the queue, or somebody else has it. */
  returned(): void {
    this.#returning--;
    if (this.#returning === 0) this.#options.pump();
  }

  /** Refused by a gate: held until the round ends. @param key see `DispatchGate.refusalKey` of the queue's gate */
  hold(delivery: Delivery, key?: string): void {
    delivery.release();
    if (this.#stopped) this.giveBack(delivery);
    else this.#held.add(delivery, key);
  }

  /** Claims nothing any more and gives back what it holds; resolves when no claim is under way. */
  async stop(): Promise<void> {
    this.#stopped = true;
    for (const timer of [this.#recheck, this.#poll, this.#parkedCheck]) timer?.cancel();
    this.#held.end();
    for (const delivery of this.#parked) {
      delivery.abort();
      this.giveBack(delivery);
    }
    this.#parked.clear();
    if (this.#claiming > 0) await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  /** What a gate is shown of a message. */
  #seen({ claim, labels, signal }: Delivery): GateMessage {
    const { id, metadata, deadline } = claim.message.request;
    return { id, metadata, labels, deadline, signal, admitted: this.gate.judgesWhenClosed !== true };
  }

  #affordable(room: number): number {
    const { batchCap } = this.#options;
    if (this.#stuck) return 0;
    const affordable = this.admission.affordable(Math.min(room, batchCap ?? room));
    // A gate that drops or parks must see messages also when none may go.
    return this.gate.judgesWhenClosed === true ? Math.max(1, affordable) : affordable;
  }

  async #claim(room: number): Promise<void> {
    const { broker, time, log } = this.#options;
    await this.admission.refresh(false);
    const max = this.#affordable(room);
    let result: Awaited<ReturnType<Broker["claim"]>>;
    try {
      result = await broker.claim(this.queue, { max, expired: EXPIRED });
    } catch (error) {
      log.debug({ queue: this.queue.name, problem: messageOf(error) }, "the broker cannot be asked for work");
      this.#block("unavailable");
      return;
    }
    time.heard(result.time);
    const waiting = Number.isNaN(result.waiting) ? result.claims.length > 0 : result.waiting > 0;
    this.#promising = waiting;
    await this.#take(result.claims);
    if (!waiting) {
      this.#state = "empty";
      this.#pollLater();
    } else if (max > 0 || result.claims.length >= EXPIRED) this.#state = "flowing";
    else if (this.admission.room === "closed") {
      this.series.decision("gate_closed");
      this.#block("closed");
    } else {
      this.#state = "full";
      this.#recheckLater();
    }
  }

  /** Sorts out what was claimed, in order. */
  async #take(claims: readonly Claim[]): Promise<void> {
    const { leases, policy } = this.#options;
    const deliveries: Delivery[] = [];
    for (const claim of claims) {
      this.series.claimsActive(1);
      const delivery = leases.hold(claim);
      if (!this.#endsAtOnce(delivery)) deliveries.push(delivery);
    }
    // All at once: a gate that asks a server would otherwise cost one round trip per message.
    const verdicts = deliveries.map((delivery) => this.#judge(delivery));
    let stuck = false;
    for (const [i, delivery] of deliveries.entries()) {
      let verdict = verdicts[i]!;
      if (verdict instanceof Promise) verdict = await verdict;
      if (verdict.kind !== "continue") {
        this.#obey(delivery, verdict);
        continue;
      }
      // In dispatch order, and nobody overtakes what did not fit (async-processor 2.3).
      if (stuck || this.#stopped || !this.admission.take(delivery)) {
        stuck = true;
        this.giveBack(delivery);
        continue;
      }
      this.series.depth(1);
      policy.add(delivery.claim, delivery.labels);
    }
    if (stuck) {
      this.#stuck = true;
      this.#promising = true;
    }
  }

  /** Messages that no gate needs to see. */
  #endsAtOnce(delivery: Delivery): boolean {
    const { claim } = delivery;
    const { deadline } = claim.message.request;
    if (deadline <= 0)
      this.endings.error(delivery, "INVALID_REQUEST", "Failed: deadline is missing or invalid (Unix seconds).");
    else if (claim.cancelled) this.endings.cancelled(delivery);
    else if (this.#options.time.now() > deadline * 1000) {
      this.series.expiredAtPull();
      this.endings.expired(delivery);
    } else return false;
    return true;
  }

  #judge(delivery: Delivery): Judged | Promise<Judged> {
    const seen = this.#seen(delivery);
    if (this.#held.size > 0 && this.#held.refuses(this.gate.refusalKey?.(seen)))
      return { kind: "refuse", reason: "quota_exhausted" };
    return judge(this.gate, seen, delivery);
  }

  #obey(delivery: Delivery, verdict: Exclude<Judged, { kind: "continue" }>): void {
    switch (verdict.kind) {
      case "wait":
        this.series.decision("gate_closed");
        this.#park(delivery);
        return;
      case "refuse":
        this.series.decision(verdict.reason ?? "gate_closed");
        this.hold(delivery, this.gate.refusalKey?.(this.#seen(delivery)));
        return;
      case "drop":
        this.series.decision("dropped");
        drop(this.endings, delivery, verdict);
        return;
      case "error":
        this.series.decision("error");
        this.#options.log.warn(
          { queue: this.queue.name, problem: verdict.problem },
          "a gate failed; its message waits",
        );
        this.hold(delivery);
    }
  }

  /** Keeps the claim and asks the gate again. */
  #park(delivery: Delivery): void {
    if (this.#stopped) {
      this.giveBack(delivery);
      return;
    }
    this.#parked.add(delivery);
    this.#parkedCheck ??= this.#options.clock.after(PARKED_RECHECK, () => void this.#askParked(), true);
  }

  async #askParked(): Promise<void> {
    const { policy, pump } = this.#options;
    for (const delivery of [...this.#parked]) {
      if (this.#options.time.now() > delivery.claim.message.request.deadline * 1000) {
        this.#parked.delete(delivery);
        this.endings.expired(delivery);
        continue;
      }
      const verdict = await judge(this.gate, this.#seen(delivery), delivery);
      // A stop in the meantime has given it back.
      if (!this.#parked.has(delivery) || verdict.kind === "wait") continue;
      if (verdict.kind === "continue" && !this.admission.take(delivery)) {
        delivery.release();
        continue;
      }
      this.#parked.delete(delivery);
      if (verdict.kind === "continue") {
        this.series.depth(1);
        policy.add(delivery.claim, delivery.labels);
      } else this.#obey(delivery, verdict);
    }
    this.#parkedCheck = undefined;
    if (this.#stopped) return;
    if (this.#parked.size > 0)
      this.#parkedCheck = this.#options.clock.after(PARKED_RECHECK, () => void this.#askParked(), true);
    pump();
  }

  #giveBackAll(held: readonly Delivery[]): void {
    for (const delivery of held) this.giveBack(delivery);
    if (!this.#stopped) this.wake();
  }

  /** Claims nothing until the next look. */
  #block(state: "closed" | "unavailable"): void {
    this.#state = state;
    this.#blocked = true;
    this.#recheckLater();
  }

  #unblock(): void {
    this.#blocked = false;
    this.#recheck?.cancel();
    this.#recheck = undefined;
    this.wake();
  }

  /** Looks again in a second, with fresh readings where the gate is closed. */
  #recheckLater(): void {
    if (this.#stopped || this.#recheck !== undefined) return;
    this.#recheck = this.#options.clock.after(
      RECHECK,
      () => {
        const asked = this.#recheck;
        void this.admission.refresh(this.#state === "closed").finally(() => {
          if (this.#recheck !== asked) return;
          this.#stuck = false;
          this.#unblock();
        });
      },
      true,
    );
  }

  /** A queue that nobody announces anything for is looked at now and then. */
  #pollLater(): void {
    this.#poll?.cancel();
    if (this.#stopped) return;
    this.#poll = this.#options.clock.after(this.#options.pollInterval, () => this.wake(), true);
  }
}
