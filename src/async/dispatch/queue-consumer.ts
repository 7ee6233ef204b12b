import type { Clock } from "../../base/clock/clock.ts";
import { messageOf } from "../../base/inference/errors.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import type { Broker, Claim, ClaimResult } from "../brokers/broker.ts";
import type { QueueSettings } from "../brokers/settings.ts";
import type { Admission } from "./admission.ts";
import type { BrokerTime } from "./broker-time.ts";
import {
  type ClaimAction,
  type ConsumerEvent,
  type ConsumerState,
  claimable,
  nextState,
  type QueueView,
} from "./claim-plan.ts";
import type { Delivery } from "./delivery.ts";
import { type GateAnswer, type GateRunner, type Hold, type Passage, type Step, within } from "./gate-runner.ts";
import type { Leases } from "./leases.ts";
import type { MergePolicy } from "./merge/merge-policy.ts";
import { BACK, cancelledOutcome, EXPIRED, type MessageOutcome, type Outcomes } from "./outcomes.ts";
import { RefusalHold } from "./refusal-hold.ts";
import type { QueueSeries } from "./series.ts";

/** Most messages past their deadline that one claim takes in addition. */
const EXPIRED_PER_CLAIM = 256;
/** Milliseconds until a broker is asked again that announces messages and gives none. */
const EMPTY_HANDED = 50;
/**
 * Milliseconds between checks of a queue that claims nothing: for messages that expire in it, and for gates that have opened.
 */
const LOOK_AGAIN = 1000;
/** Milliseconds by which a timer may fire early. */
const TIMER_SLACK = 10;
/** Milliseconds that messages of one claim wait for their verdicts; a message without a verdict by then waits apart. */
const PATIENCE = 250;

export interface QueueConsumerOptions {
  readonly queue: QueueSettings;
  readonly broker: Pick<Broker, "claim">;
  readonly gate: GateRunner;
  readonly admission: Admission;
  readonly policy: MergePolicy;
  readonly leases: Leases;
  readonly outcomes: Outcomes;
  readonly series: QueueSeries;
  readonly clock: Clock;
  readonly time: BrokerTime;
  readonly log: Logger;
  readonly pollInterval: number;
  readonly batchCap: number | undefined;
  /** Called when a message that waited has passed its gate, or another plan may be due. */
  onChange(): void;
}

/** A claim that is under way. */
interface Underway {
  readonly expected: number;
  readonly wantsRoom: boolean;
  /** A message came into the queue after the broker was asked: the broker's answer may not contain it. */
  announced: boolean;
  /** The reason against further claims. */
  obstacle: "no fit" | "gate failed" | undefined;
}

/**
 * Consumes one queue: claims what a plan says, has the queue's gate judge each message, and takes room in the capacities.
 * Messages that may go join the pool's merge policy. Workers return the outcomes to `settle`.
 */
export class QueueConsumer implements QueueView {
  readonly queue: QueueSettings;
  readonly series: QueueSeries;
  readonly outcomes: Outcomes;
  readonly admission: Admission;
  readonly gate: GateRunner;
  readonly hold: RefusalHold;
  readonly #options: QueueConsumerOptions;
  /** The steps that follow for messages that wait at the gate. */
  readonly #waits = new Set<Promise<void>>();
  #state: ConsumerState = "flowing";
  #claim: Underway | undefined;
  /** The part of a claim that a stop waits for: the question to the broker. */
  #asked: Promise<unknown> | undefined;
  #returning = 0;
  /**
   * When the broker was last asked, monotonic milliseconds; minus infinity when more messages may have expired than one claim
   * takes.
   */
  #askedAt = Number.NEGATIVE_INFINITY;
  #dueAt = Number.POSITIVE_INFINITY;
  #reportedAt = Number.NEGATIVE_INFINITY;

  constructor(options: QueueConsumerOptions) {
    this.#options = options;
    this.queue = options.queue;
    this.series = options.series;
    this.outcomes = options.outcomes;
    this.admission = options.admission;
    this.gate = options.gate;
    this.hold = new RefusalHold(options.clock, (held) => {
      for (const delivery of held) this.settle(delivery, BACK);
    });
  }

  get state(): ConsumerState {
    return this.#state;
  }

  get returning(): number {
    return this.#returning;
  }

  /** Messages that the gate keeps: those that wait, and those that it refused in this round. */
  get keptByGate(): number {
    return this.gate.waiting + this.hold.size;
  }

  /** Messages that the broker was asked for and that have not arrived. */
  get expected(): number {
    return this.#claim?.expected ?? 0;
  }

  get wantsRoom(): boolean {
    return this.#claim?.wantsRoom === true;
  }

  get overdue(): boolean {
    return this.#options.clock.now() - this.#askedAt >= LOOK_AGAIN - TIMER_SLACK;
  }

  /** When the next check is due, monotonic milliseconds. */
  get dueAt(): number {
    return this.#dueAt;
  }

  /** The queue may hold messages that it did not hold before. */
  announced(): void {
    if (this.#claim !== undefined) this.#claim.announced = true;
    // The broker is back, at the start and after each break. A broker that announces much and gives nothing is not asked each
    // time.
    else if (this.#state === "unavailable") this.#dueAt = Math.min(this.#dueAt, this.#askedAt + EMPTY_HANDED);
    else this.#happened("announced");
  }

  /** Room became free, or a capacity has a new reading. */
  roomChanged(): void {
    this.#happened("room freed");
    if (this.#state === "closed" && this.admission.room !== "closed") this.#happened("gate opened");
  }

  /** A message that was put back is in the queue, or another process has it. */
  returned(): void {
    this.#returning--;
  }

  /** `dueAt` has come. */
  lookAgain(): void {
    this.#dueAt = Number.POSITIVE_INFINITY;
    const due = (): void => {
      this.#dueAt = this.#options.clock.now() + LOOK_AGAIN;
      this.#happened("due");
    };
    if (this.#state !== "closed") {
      due();
      return;
    }
    // Past the caches. The consumer stays closed until the answer comes, unless other consumers open it.
    void this.admission.refresh(true).then(() => {
      if (this.#state !== "closed") return;
      due();
      this.#options.onChange();
    });
  }

  /** Does what a plan says. @returns resolves when the claim is sorted out; undefined where nothing is claimed */
  act(action: ClaimAction<unknown>): Promise<void> | undefined {
    if (action.kind !== "wait") return this.#run(action);
    if (action.full) this.#happened("no room");
    return undefined;
  }

  /** Carries out the outcome of a message. */
  settle(delivery: Delivery, outcome: MessageOutcome | Hold): void {
    if (outcome.kind === "hold" && this.#state !== "stopped") {
      delivery.release();
      this.hold.add(delivery, outcome.key);
      return;
    }
    const leaves = outcome.kind === "hold" ? BACK : outcome;
    if (!this.outcomes.settle(delivery, leaves) || leaves.kind !== "back") return;
    this.#returning++;
    if (this.#claim !== undefined) this.#claim.announced = true;
    else this.#happened("announced");
  }

  /** Claims nothing more and gives back what it holds; resolves when no claim is under way. */
  async stop(): Promise<void> {
    this.#happened("stop");
    this.gate.stop();
    this.hold.end();
    await this.#asked;
    await Promise.all(this.#waits);
  }

  #happened(event: ConsumerEvent): void {
    const next = nextState(this.#state, event);
    if (next === this.#state) return;
    this.#state = next;
    this.#dueAt = this.#dueIn(next);
  }

  /** When the next check is due in a state that was just entered. */
  #dueIn(state: ConsumerState): number {
    const now = this.#options.clock.now();
    switch (state) {
      case "claiming":
      case "stopped":
        return Number.POSITIVE_INFINITY;
      case "empty":
        return now + this.#options.pollInterval;
      case "flowing":
      case "full": {
        const due = this.#askedAt + LOOK_AGAIN;
        return due > now ? due : now + LOOK_AGAIN;
      }
      default:
        return now + LOOK_AGAIN;
    }
  }

  /** One claim, from the question to the last verdict. Never rejects. */
  async #run(action: ClaimAction<unknown>): Promise<void> {
    const { expected, wantsRoom } = action;
    const claim: Underway = { expected, wantsRoom, announced: false, obstacle: undefined };
    this.#claim = claim;
    this.#happened("claim begun");
    let event: ConsumerEvent = "gate failed";
    try {
      event = await this.#claimed(action, claim);
    } catch (error) {
      this.#options.log.error({ queue: this.queue.name, err: error }, "a claim failed; trying again");
      this.admission.spare();
    }
    this.#claim = undefined;
    this.#happened(event);
    if (event === "nothing given") this.#dueAt = this.#options.clock.now() + EMPTY_HANDED;
  }

  async #claimed(action: ClaimAction<unknown>, claim: Underway): Promise<ConsumerEvent> {
    await this.admission.refresh(false);
    if (this.#state === "stopped") return "stop";
    this.#report();
    const max = claimable(this, action.room, this.#options.batchCap);
    // Another queue took the room first.
    if (max === 0 && action.kind === "claim" && this.admission.room !== "closed") return "no room";
    const asked = this.#ask(action, max, claim);
    this.#asked = asked.catch(() => {});
    return asked;
  }

  async #ask(action: ClaimAction<unknown>, max: number, claim: Underway): Promise<ConsumerEvent> {
    const { broker, time, log, clock } = this.#options;
    this.#askedAt = clock.now();
    this.admission.expect(max);
    claim.announced = false;
    let result: ClaimResult;
    try {
      result = await broker.claim(this.queue, { max, expired: EXPIRED_PER_CLAIM });
    } catch (error) {
      this.admission.spare();
      log.debug({ queue: this.queue.name, problem: messageOf(error) }, "messages cannot be claimed");
      return "broker away";
    }
    time.heard(result.time, this.#askedAt);
    await this.#sort(result.claims, max, claim);
    if (result.claims.length >= EXPIRED_PER_CLAIM) this.#askedAt = Number.NEGATIVE_INFINITY;
    return this.#eventOf(result, action, max, claim);
  }

  #eventOf(
    { claims, waiting }: ClaimResult,
    { kind, full }: ClaimAction<unknown>,
    max: number,
    { announced, obstacle }: Underway,
  ): ConsumerEvent {
    const waits = Number.isNaN(waiting) ? claims.length > 0 : waiting > 0;
    if (obstacle !== undefined) return obstacle;
    if (!waits) return announced ? "more waits" : "nothing waits";
    if (kind === "claim expired") return full ? "no room" : "more waits";
    if (max > 0 && claims.length === 0) return announced ? "more waits" : "nothing given";
    if (max > 0 || claims.length >= EXPIRED_PER_CLAIM) return "more waits";
    if (this.admission.room !== "closed") return "no room";
    this.series.decision("gate_closed");
    return "gate closed";
  }

  /** Sorts out the claims, in order. @param asked how many messages that can leave the broker was asked for */
  async #sort(claims: readonly Claim[], asked: number, claim: Underway): Promise<void> {
    const deliveries: Delivery[] = [];
    for (const each of claims) {
      this.series.claimsActive(1);
      const delivery = this.#options.leases.hold(each, this.#askedAt);
      const end = this.#endOf(delivery);
      if (end === undefined) deliveries.push(delivery);
      else this.settle(delivery, end);
    }
    if (deliveries.length < asked) {
      this.admission.spare();
      this.admission.expect(deliveries.length);
    }
    await this.#judge(deliveries, claim);
    this.admission.expect(0);
  }

  /** The outcome of a message that no gate needs to see. */
  #endOf(delivery: Delivery): MessageOutcome | undefined {
    const { claim } = delivery;
    const { deadline } = claim.message.request;
    if (deadline <= 0) return { kind: "unusable", problem: "Failed: deadline is missing or invalid (Unix seconds)." };
    if (claim.cancelled) return cancelledOutcome(delivery);
    if (this.#options.time.now() <= deadline * 1000) return undefined;
    this.series.expiredAtPull();
    return EXPIRED;
  }

  /** Has the gate judge messages in their order. */
  async #judge(deliveries: readonly Delivery[], claim: Underway): Promise<void> {
    const { gate } = this;
    const { clock } = this.#options;
    // All at once: a gate that asks a server would otherwise take one round trip per message.
    const verdicts = deliveries.map((delivery) => this.#verdictOn(delivery));
    const until = clock.now() + PATIENCE;
    for (const [i, delivery] of deliveries.entries()) {
      const answer = verdicts[i]!;
      const verdict =
        answer instanceof Promise
          ? await within(clock, Math.max(0, until - clock.now()), answer, delivery.signal)
          : answer;
      // Messages wait in place at this gate, or its server hangs: the other messages must not wait for it.
      if (verdict === undefined) this.#await(delivery, gate.wait(delivery, answer as Promise<GateAnswer>));
      // In dispatch order: no message overtakes one that does not fit (async-processor 2.3).
      else if (claim.obstacle === "no fit" && (verdict.kind === "continue" || verdict.kind === "refuse"))
        this.settle(delivery, BACK);
      else this.#step(delivery, gate.obey(delivery, verdict));
    }
  }

  #verdictOn(delivery: Delivery): GateAnswer | Promise<GateAnswer> {
    const { gate } = this;
    if (this.hold.size > 0 && this.hold.refuses(gate.refusalKey(delivery)))
      return { kind: "refuse", reason: "quota_exhausted" };
    return gate.evaluate(delivery);
  }

  #step(delivery: Delivery, step: Step): void {
    switch (step.kind) {
      case "on":
        if (this.#passes(delivery)) return;
        this.#obstructed("no fit");
        this.settle(delivery, BACK);
        return;
      case "wait":
        this.#await(delivery, this.gate.wait(delivery));
        return;
      case "hold":
        if (step.gateFailed) this.#obstructed("gate failed");
        this.settle(delivery, step);
        return;
      default:
        if (step.kind === "back" && step.gateClosed) this.#obstructed("no fit");
        this.settle(delivery, step);
    }
  }

  #obstructed(obstacle: "no fit" | "gate failed"): void {
    if (this.#claim === undefined) this.#happened(obstacle);
    else this.#claim.obstacle = obstacle;
  }

  /** Takes room in the capacities for a message that its gate lets pass, and hands it to the workers. */
  #passes(delivery: Delivery): boolean {
    if (this.#state === "stopped" || !this.admission.take(delivery)) return false;
    this.series.depth(1);
    this.#options.policy.add(delivery.claim, delivery.labels);
    return true;
  }

  #await(delivery: Delivery, decided: Promise<Passage>): void {
    const wait = this.#afterWait(delivery, decided).finally(() => this.#waits.delete(wait));
    this.#waits.add(wait);
  }

  async #afterWait(delivery: Delivery, decided: Promise<Passage>): Promise<void> {
    let step = await decided;
    while (step.kind === "on" && !this.#passes(delivery)) {
      // The message keeps its claim, but no place in the gate.
      delivery.release();
      step = await this.gate.wait(delivery);
    }
    if (step.kind !== "on") this.#step(delivery, step);
    this.#options.onChange();
  }

  /** Updates the gauges, at most once a second: they are for people. */
  #report(): void {
    const { clock } = this.#options;
    if (clock.now() - this.#reportedAt < LOOK_AGAIN) return;
    this.#reportedAt = clock.now();
    const { latched, total } = this.admission;
    if (total !== undefined) {
      this.series.allowance(total);
      this.series.latch(latched ? 1 : 0);
    }
    if (latched) this.series.budget(0);
    else
      this.gate.budget().then(
        (budget) => this.series.budget(budget),
        () => this.series.budget(0),
      );
  }
}
