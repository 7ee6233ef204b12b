import { deepStrictEqual, ok, strictEqual } from "node:assert/strict";
import { VirtualClock } from "../../../src/base/clock/virtual.ts";
import type { Endpoint } from "../../../src/base/inference/endpoint.ts";
import { Rejection } from "../../../src/base/inference/outcomes.ts";
import type { SaturationDetector } from "../../../src/base/plugin/flow-kinds.ts";
import type { Band } from "../../../src/picker/flowcontrol/band.ts";
import type { Item, Waiter } from "../../../src/picker/flowcontrol/flow.ts";
import { FlowControl, type Ticket } from "../../../src/picker/flowcontrol/flow-control.ts";
import { type QueueOutcome, rejectionOf } from "../../../src/picker/flowcontrol/queue-outcomes.ts";
import type { FlowControlSettings } from "../../../src/picker/flowcontrol/settings.ts";
import { endpointOf, requestOf } from "../scheduling/fakes.cases.ts";
import { type PlainSettings, settingsOf } from "./plain-policies.cases.ts";
import { type SlowEntry, SlowFlowControl, type SlowRequest, type SlowWorld } from "./slow-flow-control.cases.ts";

/** A request, and what its waiter does once it is called. */
export interface FlowPlan {
  readonly priority: number;
  readonly flow: string;
  readonly bytes: number;
  /** Counts at an endpoint at once, ends at once, sends one more of its kind, cancels the oldest that waits. */
  readonly dispatched: "nothing" | "decide" | "end" | "enter" | "cancel";
  /** Sends itself once more. */
  readonly evicted: "nothing" | "enter";
}

/** One step. `which` counts round among those that the step can be taken for. */
export type FlowOp =
  | { readonly kind: "enter"; readonly times: number; readonly plan: FlowPlan }
  | { readonly kind: "cancel" | "decide" | "end"; readonly which: number }
  /** Calls a method on a ticket for which it has no effect. */
  | { readonly kind: "poke"; readonly which: number; readonly method: "cancel" | "decide" | "end" }
  | { readonly kind: "load"; readonly loads: readonly number[] }
  | { readonly kind: "detector"; readonly detector: SlowWorld["detector"] }
  | { readonly kind: "pool"; readonly roles: readonly string[] }
  | { readonly kind: "priorities"; readonly wanted: readonly number[] }
  | { readonly kind: "configure"; readonly settings: PlainSettings }
  | { readonly kind: "advance"; readonly ms: number }
  | { readonly kind: "close" };

interface Known extends SlowRequest {
  readonly plan: FlowPlan;
  ticket: Ticket | undefined;
  /** Calls of the waiter, and reports of the end. */
  calls: number;
  reports: number;
}

const TOKENS = { promptTokens: Number.NaN, completionTokens: Number.NaN };
/** The most generations of a request that sends itself again. */
const GENERATIONS = 3;

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
  /** The requests in queues, as the engine showed them to their ordering policy. */
  readonly #items = new Map<string, Item>();
  /** By flow that waits: the flows that were served since it joined or was served itself. */
  readonly #passed = new Map<string, Set<string>>();

  /** @param perRequest what one request in flight adds to the saturation */
  constructor(settings: PlainSettings, perRequest: number) {
    this.#perRequest = perRequest;
    this.#slowWorld = { now: 0, endpoints: [], running: 0, perRequest, detector: "works" };
    this.#setPool();
    const { clock } = this;
    this.engine = new FlowControl({
      clock,
      pool: () => this.#pool,
      settings: this.#settingsOf(settings),
      events: {
        entered: (_flow, bytes) => {
          this.#queued++;
          this.#queuedBytes += bytes;
        },
        left: (flow, bytes, outcome, waited) => {
          this.#queued--;
          this.#queuedBytes -= bytes;
          const { id } = flow as typeof flow & { id: string };
          const known = this.#known.get(id)!;
          strictEqual(++known.reports, 1, "a request ends once");
          if (known.ticket !== undefined)
            strictEqual(waited, clock.now() - known.ticket.enqueuedAt, "time of the wait");
          if (outcome === "Dispatched") this.#open.engine.set(id, "dispatched");
          const item = this.#items.get(id);
          if (item !== undefined) this.#checkOrder(item, outcome);
          this.outcomes.add(outcome);
          this.log.push({ id, outcome, at: clock.now() });
        },
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
      case "configure":
        this.#passed.clear();
        engine.configure(this.#settingsOf(op.settings));
        slow.configure(op.settings);
        break;
      case "advance":
        this.clock.advance(op.ms);
        slow.advance(op.ms);
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
    const bands = engine.bands().map(({ longest: _, ...band }) => band);
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
    return settingsOf(settings, this.#detector, (queued) => {
      this.#items.set(queued.request.id, queued as Item);
    });
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
        const { outcome } = this.log.at(-1)!;
        ok(outcome !== "Dispatched");
        const { reason, detail } = rejectionOf(outcome);
        deepStrictEqual([rejection.reason, rejection.detail], [reason, detail]);
        ok(!known.ticket!.waiting, "a waiter that is called does not wait");
        this.#onEvicted(id, plan);
      },
    };
    const request = { ...requestOf(""), id, priority: plan.priority, fairnessId: plan.flow };
    const reply = this.engine.enter(request, plan.bytes, this.clock.now(), waiter);
    strictEqual(known.calls, 0, "no waiter is called before its request has entered");
    if (reply instanceof Rejection) return;
    known.ticket = reply;
    if (reply.waiting) return;
    this.#onDispatched(id, plan);
  }

  #enterSlow(id: string, plan: FlowPlan): void {
    const { priority, flow, bytes } = plan;
    const at = this.slow.log.length;
    this.#slowPlans.set(id, plan);
    this.slow.enter({ id, priority, flow, bytes });
    const own = this.slow.log.slice(at).find((entry) => entry.id === id);
    if (own?.outcome === "Dispatched") this.#slowLeft(own);
  }

  #slowLeft({ id, outcome }: SlowEntry): void {
    const plan = this.#slowPlans.get(id)!;
    if (outcome !== "Dispatched") {
      if (plan.evicted === "enter" && canRepeat(id)) this.#enterSlow(`${id}'`, plan);
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
    if (plan.evicted === "enter" && canRepeat(id)) this.#enter(`${id}'`, plan);
  }

  #decide(id: string): void {
    this.engine.decided(this.#ticket(id));
    this.#open.engine.set(id, "decided");
    this.#running++;
  }

  #end(id: string): void {
    this.engine.ended(this.#ticket(id), TOKENS);
    if (this.#open.engine.get(id) === "decided") this.#running--;
    this.#open.engine.delete(id);
  }

  #decideSlow(id: string): void {
    this.slow.undecided.delete(id);
    this.#open.slow.set(id, "decided");
    this.#slowWorld.running++;
  }

  #endSlow(id: string): void {
    this.slow.undecided.delete(id);
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
    else this.engine.ended(known.ticket!, TOKENS);
  }

  /** A request that goes on was the first of its queue, and passes no flow that waits for its turn a second time. */
  #checkOrder(served: Item, outcome: QueueOutcome): void {
    const band = served.band as Band;
    const isFair = band.settings.fairness.oneQueue !== true;
    const idOf = (item: Item): string => `${band.priority} ${item.fairnessId}`;
    const waiting = [...this.#items.values()].filter((item) => item.waiting && item.band === band);
    if (outcome === "Dispatched") {
      for (const item of waiting) {
        if (isFair && idOf(item) !== idOf(served)) continue;
        ok(served.rank < item.rank || (served.rank === item.rank && served.order < item.order), "first of its queue");
      }
      const others = new Set(waiting.map(idOf));
      others.delete(idOf(served));
      for (const other of isFair ? others : []) {
        const passed = this.#passed.get(other) ?? new Set();
        ok(!passed.has(idOf(served)), `${other} waits longer than its turn`);
        this.#passed.set(other, passed.add(idOf(served)));
      }
      this.#passed.delete(idOf(served));
    }
    if (!waiting.some((item) => idOf(item) === idOf(served))) this.#passed.delete(idOf(served));
    for (const [id, item] of this.#items) if (!item.waiting) this.#items.delete(id);
  }
}

/** Whether the waiter of this request may send it once more. */
function canRepeat(id: string): boolean {
  return id.length - id.replaceAll("'", "").length < GENERATIONS;
}
