import type { Clock, Timer } from "../../base/clock/clock.ts";
import { messageOf } from "../../base/inference/errors.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import type { Broker, Claim } from "../brokers/broker.ts";
import type { QueueSettings } from "../brokers/settings.ts";
import type { Admission } from "./admission.ts";
import type { BrokerTime } from "./broker-time.ts";
import type { Delivery } from "./delivery.ts";
import type { Endings } from "./endings.ts";
import type { Gatekeeper } from "./gatekeeper.ts";
import type { Leases } from "./leases.ts";
import type { MergePolicy } from "./merge/merge-policy.ts";
import type { QueueSeries } from "./queue-series.ts";

/** Messages past their deadline that one claim takes besides. */
const EXPIRED = 256;
/** Milliseconds until a broker is asked again that says that something waits and gives nothing. */
const EMPTY_HANDED = 50;
/** Milliseconds between looks at a gate that holds work back, for what expires meanwhile, and between reports of the gauges. */
const RECHECK = 1000;

export interface LineOptions {
  readonly queue: QueueSettings;
  readonly broker: Broker;
  readonly gatekeeper: Gatekeeper;
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
  /** So much waits to be written that no more is to be begun. */
  clogged(): boolean;
  /** The workers should look what there is. */
  pump(): void;
}

/** Why a line brings nothing, for people. */
export type LineState = "flowing" | "empty" | "closed" | "full" | "failing" | "unavailable";

/**
 * One queue's way to the workers of its pool: claims as much as they and the capacities have room for, asks the queue's gate
 * about each message, and hands on what may go. Nothing is claimed that cannot soon leave.
 */
export class Line {
  readonly queue: QueueSettings;
  readonly series: QueueSeries;
  readonly endings: Endings;
  readonly admission: Admission;
  readonly #options: LineOptions;
  /** There may be something in the queue. */
  #promising = true;
  /** A claim is under way, and for so many messages that may leave. */
  #asking = false;
  /** The gates are being read for it; the broker has not been asked. */
  #reading = false;
  #claiming = 0;
  /** What it has would go if there were more room in its capacities. */
  #wanting = false;
  /** A message did not fit: nothing is claimed until the capacities have changed. */
  #stuck = false;
  /** The gate is closed or the broker away: nothing is claimed until the next look. */
  #blocked = false;
  /** Messages on their way back into the queue: claiming before they are there would pass them over. */
  #returning = 0;
  #stopped = false;
  #recheck: Timer | undefined;
  #poll: Timer | undefined;
  #purge: Timer | undefined;
  /** When the broker was last asked, monotonic milliseconds; minus infinity: there was more to end than one claim takes. */
  #askedAt = Number.NEGATIVE_INFINITY;
  #reportedAt = Number.NEGATIVE_INFINITY;
  #idle: (() => void)[] = [];
  #state: LineState = "empty";

  constructor(options: LineOptions) {
    this.#options = options;
    this.queue = options.queue;
    this.series = options.series;
    this.endings = options.endings;
    this.admission = options.admission;
  }

  get state(): LineState {
    return this.#state;
  }

  /** Messages asked of the broker and not here yet. */
  get claiming(): number {
    return this.#claiming;
  }

  /** It would have more messages go if there were more room in its capacities, as far as one knows. */
  get wanting(): boolean {
    return this.#wanting;
  }

  /** Claimed messages that a gate holds back here. */
  get waiting(): number {
    return this.#options.gatekeeper.waiting;
  }

  /** There may be something to claim that was not there before. */
  wake(): void {
    this.#promising = true;
    // A broker that announces something is there again: at the start, and after each break.
    if (this.#state === "unavailable" && this.#blocked) this.#recheckSoon();
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
    if (this.#asking) return;
    this.#wanting = false;
    if (this.#stopped || !this.#promising || this.#blocked || this.#returning > 0) return;
    const { gatekeeper } = this.#options;
    if (this.#options.clogged()) {
      this.#full();
      return;
    }
    const room = policy.room(this.queue, free) - gatekeeper.parked;
    if (room <= 0 || gatekeeper.full) {
      this.#purgeLater();
      return;
    }
    // One that may have but a share has as much as it may.
    this.#wanting = !this.#stuck && this.queue.maxQueueShare >= 1;
    const max = this.#affordable(room);
    if (this.#stuck || (max === 0 && this.admission.room !== "closed")) {
      this.#full();
      return;
    }
    // Counted as on its way from here on: other lines of the pool fill what is left.
    this.#ask(room, Math.max(1, max));
  }

  /** A more urgent line wants what room there is. */
  yield(): void {
    if (this.#asking || this.#stopped || !this.#promising || this.#blocked) return;
    this.#wanting = false;
    this.#full();
  }

  /** Puts a message back where it was. */
  giveBack(delivery: Delivery): void {
    if (!this.endings.refuse(delivery)) return;
    this.#returning++;
    this.#promising = true;
  }

  /** A message is back in the queue, or somebody else has it. */
  returned(): void {
    this.#returning--;
    if (this.#returning === 0) this.#options.pump();
  }

  /** Hands a message that its gate lets pass to the workers, if the capacities have room for it. */
  pass(delivery: Delivery): boolean {
    if (this.#stopped || !this.admission.take(delivery)) return false;
    this.series.depth(1);
    this.#options.policy.add(delivery.claim, delivery.labels);
    return true;
  }

  /** What the gate said of a message that had waited for its verdict. */
  troubled(trouble: "full" | "failing"): void {
    if (trouble === "full") this.#stuck = true;
    else this.#block(trouble);
  }

  /** The workers should look what there is. */
  pump(): void {
    this.#options.pump();
  }

  /** A gate refused it, but may let others pass: held until the round ends. */
  hold(delivery: Delivery): void {
    this.#options.gatekeeper.hold(delivery, undefined, this);
  }

  /** Claims nothing any more and gives back what it holds; resolves when no claim is under way. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#recheck?.cancel();
    this.#poll?.cancel();
    this.#purge?.cancel();
    this.#options.gatekeeper.stop(this);
    if (this.#asking && !this.#reading) await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  #affordable(room: number): number {
    const { batchCap } = this.#options;
    if (this.#stuck || room <= 0) return 0;
    const most = Math.min(room, batchCap ?? room);
    const affordable = this.admission.affordable(most);
    if (!this.#options.gatekeeper.judgesWhenClosed) return affordable;
    // A gate that drops or parks must see messages also when none may go; all of them, when it lets none go itself.
    return this.admission.room === "closed" ? most : Math.max(1, affordable);
  }

  /** @param coming messages that other lines are to count as on their way */
  #ask(room: number, coming: number): void {
    this.#asking = true;
    this.#claiming = coming;
    void this.#claim(room)
      .catch((error) => {
        this.#options.log.error({ queue: this.queue.name, err: error }, "a claim went wrong; it is tried again");
        this.#promising = true;
        this.admission.spare();
        this.#block("failing");
      })
      .finally(() => {
        this.#asking = false;
        this.#claiming = 0;
        for (const resolve of this.#idle.splice(0)) resolve();
        this.#options.pump();
      });
  }

  /** @param room 0 = only what has expired */
  async #claim(room: number): Promise<void> {
    const { broker, time, log, clock, pollInterval } = this.#options;
    this.#reading = true;
    await this.admission.refresh(false);
    this.#reading = false;
    if (this.#stopped) return;
    this.#report();
    const max = this.#affordable(room);
    if (max === 0 && room > 0 && this.admission.room !== "closed") {
      // Another line was faster.
      this.#full();
      return;
    }
    this.#askedAt = clock.now();
    this.admission.expect(max);
    // Before the question: what is announced while it is under way may not be in the answer.
    this.#promising = false;
    let result: Awaited<ReturnType<Broker["claim"]>>;
    try {
      result = await broker.claim(this.queue, { max, expired: EXPIRED });
    } catch (error) {
      this.#promising = true;
      this.admission.spare();
      log.debug({ queue: this.queue.name, problem: messageOf(error) }, "the broker cannot be asked for work");
      this.#block("unavailable");
      return;
    }
    time.heard(result.time, this.#askedAt);
    const waiting = Number.isNaN(result.waiting) ? result.claims.length > 0 : result.waiting > 0;
    if (waiting) this.#promising = true;
    await this.#take(result.claims, max);
    if (result.claims.length >= EXPIRED) this.#askedAt = Number.NEGATIVE_INFINITY;
    // Where all workers are busy, whatever they end makes room.
    if (this.#blocked || (room <= 0 && waiting)) return;
    if (!waiting) {
      this.#state = "empty";
      this.#pollLater(pollInterval);
    } else if (max > 0 && result.claims.length === 0) {
      this.#promising = false;
      this.#pollLater(EMPTY_HANDED);
    } else if (max > 0 || result.claims.length >= EXPIRED) this.#state = "flowing";
    else if (this.admission.room === "closed") {
      this.series.decision("gate_closed");
      this.#block("closed");
    } else this.#full();
  }

  /** What ends makes room and wakes this up; a larger N has to be looked for. */
  #full(): void {
    this.#state = "full";
    this.#recheckLater();
    this.#purgeLater();
  }

  /** Sorts out what was claimed, in order. @param asked how many messages that may leave */
  async #take(claims: readonly Claim[], asked: number): Promise<void> {
    const { leases, gatekeeper } = this.#options;
    const deliveries: Delivery[] = [];
    for (const claim of claims) {
      this.series.claimsActive(1);
      const delivery = leases.hold(claim, this.#askedAt);
      if (!this.#endsAtOnce(delivery)) deliveries.push(delivery);
    }
    if (deliveries.length < asked) {
      this.admission.spare();
      this.admission.expect(deliveries.length);
    }
    const trouble = await gatekeeper.sort(deliveries, this);
    this.admission.expect(0);
    if (trouble === "full") this.#stuck = true;
    else if (trouble === "failing") this.#block("failing");
  }

  /** Messages that no gate needs to see. */
  #endsAtOnce(delivery: Delivery): boolean {
    const { claim } = delivery;
    const { deadline } = claim.message.request;
    if (deadline <= 0) this.endings.unusable(delivery, "Failed: deadline is missing or invalid (Unix seconds).");
    else if (claim.cancelled) this.endings.cancelled(delivery);
    else if (this.#options.time.now() > deadline * 1000) {
      this.series.expiredAtPull();
      this.endings.expired(delivery);
    } else return false;
    return true;
  }

  /** Claims nothing until the next look. */
  #block(state: "closed" | "failing" | "unavailable"): void {
    this.#state = state;
    this.#blocked = true;
    this.#recheckLater();
  }

  #unblock(): void {
    this.#release();
    this.wake();
  }

  #release(): void {
    this.#blocked = false;
    this.#recheck?.cancel();
    this.#recheck = undefined;
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

  /** Now, unless it was asked a moment ago: one that announces much and gives nothing is not asked each time. */
  #recheckSoon(): void {
    const { clock } = this.#options;
    const pause = this.#askedAt + EMPTY_HANDED - clock.now();
    this.#release();
    if (pause <= 0) return;
    this.#blocked = true;
    this.#recheck = clock.after(pause, () => this.#unblock(), true);
  }

  /** Messages also expire while none can leave: without looking for them nobody would tell until a worker is free. */
  #purgeLater(): void {
    if (this.#stopped || this.#purge !== undefined) return;
    const { clock } = this.#options;
    this.#purge = clock.after(
      this.#askedAt + RECHECK - clock.now(),
      () => {
        this.#purge = undefined;
        // Half of it: a timer may fire a hair's breadth early, and would be armed again for no time at all.
        const lately = clock.now() - this.#askedAt < RECHECK / 2;
        if (this.#asking || this.#blocked || lately) this.#options.pump();
        else this.#ask(0, 0);
      },
      true,
    );
  }

  /** Brings the gauges up to date, now and then: they are for people. */
  #report(): void {
    const { clock, gatekeeper, series, admission } = this.#options;
    if (clock.now() - this.#reportedAt < RECHECK) return;
    this.#reportedAt = clock.now();
    const { latched, total } = admission;
    if (total !== undefined) {
      series.allowance(total);
      series.latch(latched ? 1 : 0);
    }
    if (latched) series.budget(0);
    else
      gatekeeper.budget().then(
        (budget) => series.budget(budget),
        () => series.budget(0),
      );
  }

  /** A queue that nobody announces anything for is looked at now and then. */
  #pollLater(ms: number): void {
    this.#poll?.cancel();
    if (this.#stopped) return;
    this.#poll = this.#options.clock.after(ms, () => this.wake(), true);
  }
}
