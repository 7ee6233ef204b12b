import { deepStrictEqual, ok, strictEqual } from "node:assert/strict";
import { VirtualClock } from "../../../src/base/clock/virtual.ts";
import type { Endpoint } from "../../../src/base/inference/endpoint.ts";
import { Rejection } from "../../../src/base/inference/outcomes.ts";
import type { SaturationDetector, UsageLimitPolicy } from "../../../src/base/plugin/flow-kinds.ts";
import type { Item, Waiter } from "../../../src/picker/flowcontrol/flow.ts";
import { FlowControl, type Ticket } from "../../../src/picker/flowcontrol/flow-control.ts";
import { type QueueOutcome, rejectionOf } from "../../../src/picker/flowcontrol/queue-outcomes.ts";
import type { FlowControlSettings } from "../../../src/picker/flowcontrol/settings.ts";
import { endpointOf } from "../scheduling/fakes.cases.ts";
import { canRepeat, type FlowOp, type FlowPlan, plannedAnswer, plannedRequest } from "./flow-op.cases.ts";
import { FlowOrder } from "./flow-order.cases.ts";
import { type PlainSettings, settingsOf } from "./plain-policies.cases.ts";
import { type SlowEntry, SlowFlowControl, type SlowRequest, type SlowWorld } from "./slow-flow-control.cases.ts";

interface Known extends SlowRequest {
  readonly plan: FlowPlan;
  ticket: Ticket | undefined;
  /** Calls of the waiter, and reports of the end. */
  calls: number;
  reports: number;
}

/** Milliseconds of one step in which the engine asks for alternating ceilings: it does so each millisecond. */
const MOST_LOOKS = 97;
/** Milliseconds after which it begins to: a timer of the configuration before may still run. */
const LOOKS_AFTER = 20;

/** The engine and the slow model side by side: each step is taken in both, and then both must be equal. */
export class FlowTwins {
  readonly clock = new VirtualClock();
  readonly engine: FlowControl;
  readonly slow: SlowFlowControl;
  /** What came out in the current step. */
  readonly log: SlowEntry[] = [];
  /** All outcomes so far. */
  readonly outcomes = new Set<QueueOutcome>();
  readonly #known = new Map<string, Known>();
  readonly #slowPlans = new Map<string, FlowPlan>();
  readonly #slowWorld: SlowWorld;
  readonly #perRequest: number;
  #loads: readonly number[] = [0];
  #roles: readonly string[] = [""];
  #pool: readonly Endpoint[] = [];
  #detectorWorks: SlowWorld["detector"] = "works";
  #running = 0;
  /** Requests that went on and have not ended, on each side. */
  readonly #open = {
    engine: new Map<string, "dispatched" | "decided">(),
    slow: new Map<string, "dispatched" | "decided">(),
  };
  #queued = 0;
  #queuedBytes = 0;
  #count = 0;
  #closed = false;
  readonly #order = new FlowOrder();
  /** Calls of the policy that sets alternating ceilings. */
  #looks = 0;
  /**
   * Whether ceilings may alternate. Then no request enters except by a step: so nothing happens at the time of an expiry, which
   * lies between two milliseconds, and no look falls together with one.
   */
  readonly #isCalm: boolean;

  /** @param perRequest what one request in flight adds to the saturation */
  constructor(settings: PlainSettings, perRequest: number) {
    this.#perRequest = perRequest;
    this.#isCalm = settings.ceilings === "reflective";
    this.#slowWorld = { now: 0, endpoints: [], running: 0, perRequest, detector: "works" };
    this.#setPool();
    const { clock } = this;
    this.engine = new FlowControl({
      clock,
      pool: () => this.#pool,
      settings: this.#settingsOf(settings),
      events: {
        entered: (_flow, { bytes }) => {
          this.#queued++;
          this.#queuedBytes += bytes;
        },
        left: (flow, { bytes }, outcome, waited) => {
          this.#queued--;
          this.#queuedBytes -= bytes;
          this.#engineLeft(flow, outcome, waited);
        },
        passed: (flow, _size, took) => this.#engineLeft(flow, "Dispatched", took),
        enqueued: () => {},
        cycled: () => {},
        strangePriority: () => {},
        revoked: () => {},
        revocationEnded: () => {},
        failed: (policy) => strictEqual(policy, "saturation detector"),
      },
    });
    this.slow = new SlowFlowControl(this.#slowWorld, settings);
    this.slow.left = (entry) => this.#slowLeft(entry);
  }

  run(op: FlowOp): void {
    const waiting = this.slow.waiting.map(({ id }) => id);
    const open = [...this.#open.slow.keys()];
    const undecided = open.filter((id) => this.#open.slow.get(id) === "dispatched");
    const pick = (ids: readonly string[], which: number): string | undefined => ids[which % Math.max(1, ids.length)];
    const { engine, slow } = this;
    switch (op.kind) {
      case "enter":
        for (let i = 0; i < op.times; i++) {
          const id = `${this.#count++}`;
          this.#enterSlow(id, op.plan);
          this.#enter(id, op.plan);
          this.#settle();
        }
        break;
      case "cancel": {
        const id = pick(waiting, op.which);
        if (id === undefined) return;
        engine.cancel(this.#ticket(id));
        slow.cancel(id);
        break;
      }
      case "decide": {
        const id = pick(undecided, op.which);
        if (id === undefined) return;
        this.#decide(id);
        this.#decideSlow(id);
        break;
      }
      case "end": {
        const id = pick(open, op.which);
        if (id === undefined) return;
        this.#end(id);
        this.#endSlow(id);
        break;
      }
      case "poke":
        this.#poke(op.which, op.method);
        break;
      case "load":
        this.#loads = op.loads;
        this.#setPool();
        engine.changed();
        slow.poolChanged();
        break;
      case "detector":
        this.#detectorWorks = op.detector;
        this.#slowWorld.detector = op.detector;
        engine.changed();
        slow.poolChanged();
        break;
      case "pool":
        this.#roles = op.roles;
        this.#setPool();
        engine.changed();
        slow.poolChanged();
        break;
      case "priorities":
        engine.usePriorities(new Set(op.wanted));
        slow.usePriorities(new Set(op.wanted));
        break;
      case "configure": {
        const { ceilings } = op.settings;
        const settings: PlainSettings =
          ceilings === "reflective" && !this.#isCalm ? { ...op.settings, ceilings: [1, 1] } : op.settings;
        this.#order.configured();
        engine.configure(this.#settingsOf(settings));
        slow.configure(settings);
        break;
      }
      case "advance":
        this.#advance(op.ms);
        break;
      case "letGo":
        engine.letGo();
        slow.letGo();
        break;
      case "close":
        this.#closed = true;
        slow.close();
        engine.close();
        break;
    }
    this.#settle();
    this.check();
  }

  /** Both sides are equal, and what must always hold does. */
  check(): void {
    const { engine, slow } = this;
    deepStrictEqual(this.log, slow.log);
    // The rest of a run compares what is new.
    this.log.length = 0;
    slow.log.length = 0;
    strictEqual(engine.requests, slow.waiting.length, "requests");
    strictEqual(
      engine.bytes,
      slow.waiting.reduce((sum, { bytes }) => sum + bytes, 0),
      "bytes",
    );
    strictEqual(engine.undecided, slow.undecided.size, "undecided");
    strictEqual(this.#running, this.#slowWorld.running, "running");
    deepStrictEqual([this.#queued, this.#queuedBytes], [engine.requests, engine.bytes], "entered less left");
    // Where ceilings alternate, those of the last look say nothing about the next one.
    const bands = engine.bands().map(({ longest: _, ceiling, ...band }) => ({
      ...band,
      ceiling: slow.isDriven ? Number.NaN : ceiling,
    }));
    if (this.#detectorWorks === "works") deepStrictEqual(bands, slow.bands);
    const sums = bands.reduce((sum, { requests, bytes }) => [sum[0]! + requests, sum[1]! + bytes], [0, 0]);
    deepStrictEqual(sums, [engine.requests, engine.bytes], "the sum of the bands");
    for (const { flows, requests } of bands) ok(flows <= requests, "no more flows than requests");
  }

  /** Ends everything that has begun, and lets the rest go: nothing is left over. @param close whether by shutdown */
  finish(close: boolean): void {
    if (!this.#closed) {
      this.run({ kind: "detector", detector: "works" });
      this.run({ kind: "load", loads: [0] });
      if (!close) this.run({ kind: "pool", roles: [""] });
    }
    if (close) this.run({ kind: "close" });
    const bound = 10 * (this.#known.size + 1);
    for (let i = 0; this.#open.slow.size > 0 && i < bound; i++) this.run({ kind: "end", which: 0 });
    const { engine } = this;
    deepStrictEqual([engine.requests, engine.bytes, engine.undecided, this.#running], [0, 0, 0, 0]);
    for (const { id, reports } of this.#known.values()) strictEqual(reports, 1, `request ${id} has ended`);
    engine.close();
    this.clock.advance(1000);
    strictEqual(this.clock.pending, 0, "timers after the end");
  }

  #settingsOf(settings: PlainSettings): FlowControlSettings {
    const made = settingsOf(settings, this.#detector, (queued) => this.#order.ranked(queued as Item));
    const { usageLimit } = made;
    if (usageLimit.alternates !== true) return made;
    const looked: UsageLimitPolicy = {
      alternates: true,
      limit: (saturation, priorities, ceilings) => {
        this.#looks++;
        strictEqual(saturation, this.slow.saturation.effective, "saturation");
        usageLimit.limit(saturation, priorities, ceilings);
        this.slow.look(ceilings, this.clock.now());
      },
    };
    return { ...made, usageLimit: looked };
  }

  /** While requests wait for ceilings that alternate, the engine asks at least once in each millisecond. */
  #advance(ms: number): void {
    const { clock, slow } = this;
    const end = clock.now() + (slow.isDriven ? Math.min(ms, MOST_LOOKS) : ms);
    const looks = this.#looks;
    const length = end - clock.now();
    clock.advance(length);
    slow.advance(end - this.#slowWorld.now);
    if (slow.isDriven && slow.waiting.length > 0 && this.#pool.length > 0)
      ok(this.#looks - looks >= length - LOOKS_AFTER, "looks");
  }

  get #detector(): SaturationDetector {
    const mean = (endpoints: readonly Endpoint[]): number => {
      if (this.#detectorWorks === "throws") throw new Error("no answer");
      if (this.#detectorWorks === "nan") return Number.NaN;
      return endpoints.reduce((sum, { metrics }) => sum + metrics.waiting, 0) / endpoints.length;
    };
    return {
      saturation: (endpoints) => (endpoints.length === 0 ? 1 : mean(endpoints)),
      expected: (endpoints, _now, further) =>
        endpoints.length === 0 && this.#detectorWorks === "works"
          ? 1
          : mean(endpoints) + (this.#running + further) * this.#perRequest,
    };
  }

  #setPool(): void {
    const endpoints = this.#roles.map((role, i) => ({ role, load: this.#loads[i % this.#loads.length]! }));
    this.#pool = endpoints.map(({ role, load }, slot) =>
      endpointOf(slot, {
        labels: role === "" ? {} : { "llm-d.ai/role": role },
        metrics: { waiting: load },
      }),
    );
    this.#slowWorld.endpoints = endpoints;
  }

  /** Lets both sides do what is due now. */
  #settle(): void {
    this.clock.advance(0);
    this.slow.settle();
    // A new configuration may set deadlines that are over.
    this.slow.advance(0);
  }

  #ticket(id: string): Ticket {
    return this.#known.get(id)!.ticket!;
  }

  #enter(id: string, plan: FlowPlan): void {
    const known: Known = { id, ...plan, plan, ticket: undefined, calls: 0, reports: 0 };
    this.#known.set(id, known);
    const waiter: Waiter = {
      dispatched: () => {
        strictEqual(++known.calls, 1, "a waiter is called once");
        ok(!known.ticket!.waiting, "a waiter that is called does not wait");
        this.#onDispatched(id, plan);
      },
      evicted: (rejection) => {
        strictEqual(++known.calls, 1, "a waiter is called once");
        const { outcome } = this.log.findLast((entry) => entry.id === id)!;
        ok(outcome !== "Dispatched");
        const { reason, detail } = rejectionOf(outcome);
        deepStrictEqual([rejection.reason, rejection.detail], [reason, detail]);
        ok(!known.ticket!.waiting, "a waiter that is called does not wait");
        this.#onEvicted(id, plan);
      },
    };
    const reply = this.engine.enter(plannedRequest(id, plan), plan.bytes, this.clock.now(), waiter);
    strictEqual(known.calls, 0, "no waiter is called before its request has entered");
    if (reply instanceof Rejection) return;
    known.ticket = reply;
    // Its looks are over.
    if (this.slow.isDriven) this.#enteredSlow(id);
    if (reply.waiting) return;
    this.#onDispatched(id, plan);
  }

  #enterSlow(id: string, plan: FlowPlan): void {
    const { priority, flow, bytes, tokens } = plan;
    this.#slowPlans.set(id, plan);
    this.slow.enter({ id, priority, flow, bytes, tokens });
    if (!this.slow.isDriven) this.#enteredSlow(id);
  }

  #enteredSlow(id: string): void {
    this.slow.entering.delete(id);
    const own = this.slow.log.find((entry) => entry.id === id);
    if (own?.outcome === "Dispatched") this.#slowLeft(own);
  }

  #engineLeft(flow: object, outcome: QueueOutcome, waited: number): void {
    const { id } = flow as { readonly id: string };
    const known = this.#known.get(id)!;
    strictEqual(++known.reports, 1, "a request ends once");
    if (known.ticket !== undefined) strictEqual(waited, this.clock.now() - known.ticket.enqueuedAt, "time of the wait");
    if (outcome === "Dispatched") this.#open.engine.set(id, "dispatched");
    this.#order.left(id, outcome);
    this.outcomes.add(outcome);
    this.log.push({ id, outcome, at: this.clock.now() });
  }

  #slowLeft({ id, outcome }: SlowEntry): void {
    const plan = this.#slowPlans.get(id)!;
    if (outcome !== "Dispatched") {
      if (plan.evicted === "enter" && !this.#isCalm && canRepeat(id)) this.#enterSlow(`${id}'`, plan);
      return;
    }
    this.#open.slow.set(id, "dispatched");
    if (plan.dispatched === "decide") this.#decideSlow(id);
    else if (plan.dispatched === "end") this.#endSlow(id);
    else if (plan.dispatched === "enter" && canRepeat(id)) this.#enterSlow(`${id}'`, plan);
    else if (plan.dispatched === "cancel" && this.slow.oldest !== undefined) this.slow.cancel(this.slow.oldest);
  }

  #onDispatched(id: string, plan: FlowPlan): void {
    if (plan.dispatched === "decide") this.#decide(id);
    else if (plan.dispatched === "end") this.#end(id);
    else if (plan.dispatched === "enter" && canRepeat(id)) this.#enter(`${id}'`, plan);
    else if (plan.dispatched === "cancel") {
      const oldest = [...this.#known.values()].find(({ ticket }) => ticket?.waiting === true);
      if (oldest !== undefined) this.engine.cancel(oldest.ticket!);
    }
  }

  #onEvicted(id: string, plan: FlowPlan): void {
    if (plan.evicted === "enter" && !this.#isCalm && canRepeat(id)) this.#enter(`${id}'`, plan);
  }

  #decide(id: string): void {
    this.engine.decided(this.#ticket(id));
    this.#open.engine.set(id, "decided");
    this.#running++;
  }

  #end(id: string): void {
    this.engine.ended(this.#ticket(id), plannedAnswer(this.#known.get(id)!.plan));
    if (this.#open.engine.get(id) === "decided") this.#running--;
    this.#open.engine.delete(id);
  }

  #decideSlow(id: string): void {
    this.slow.decide(id);
    this.#open.slow.set(id, "decided");
    this.#slowWorld.running++;
  }

  #endSlow(id: string): void {
    this.slow.end(id);
    if (this.#open.slow.get(id) === "decided") this.#slowWorld.running--;
    this.#open.slow.delete(id);
  }

  #poke(which: number, method: "cancel" | "decide" | "end"): void {
    const idle = [...this.#known.values()].filter(({ id, ticket }) => {
      if (ticket === undefined) return false;
      const state = ticket.waiting ? "waiting" : (this.#open.engine.get(id) ?? "ended");
      return !{ cancel: ["waiting"], decide: ["dispatched"], end: ["dispatched", "decided"] }[method].includes(state);
    });
    const known = idle[which % Math.max(1, idle.length)];
    if (known === undefined) return;
    if (method === "cancel") this.engine.cancel(known.ticket!);
    else if (method === "decide") this.engine.decided(known.ticket!);
    else this.engine.ended(known.ticket!, plannedAnswer(known.plan));
  }
}
