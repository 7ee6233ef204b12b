import { describe, expect, it } from "vitest";
import { endpointOf, instanceOf, requestOf } from "../../../../test/support/scheduling/fakes.cases.ts";
import { VirtualClock } from "../../../base/clock/virtual.ts";
import { HeaderList } from "../../../base/inference/headers.ts";
import { NO_EVENTS } from "../events.ts";
import { FlowControl } from "../flow-control.ts";
import { FLOW_RULES } from "../rules.ts";
import type { BandSettings, FlowControlSettings } from "../settings.ts";
import { globalStrictFairnessPolicy, roundRobinFairnessPolicy } from "./fairness.ts";
import { edfOrderingPolicy, fcfsOrderingPolicy, sloDeadlineOrderingPolicy } from "./ordering.ts";
import { programAwareFairness } from "./program-aware.ts";
import { priorityHoldbackPolicy, softReflectiveCeilingPolicy, staticUsageLimitPolicy } from "./usage-limits.ts";

const NEVER = Number.POSITIVE_INFINITY;

interface Sent {
  readonly priority?: number;
  readonly fairnessId?: string;
  readonly slo?: string;
}

/** Flow control in front of a pool whose saturation the test sets. Requests go out one by one: `room` says how many. */
class Pool {
  readonly clock = new VirtualClock();
  /** What was dispatched, in this order. */
  readonly order: string[] = [];
  /** The saturation while there is room; without room it is 1. */
  saturation = 0.99;
  room = 0;
  readonly #flowControl: FlowControl;

  constructor(bands: Readonly<Record<number, Partial<BandSettings>>>, more: Partial<FlowControlSettings> = {}) {
    const usual: BandSettings = {
      ...{ maxBytes: NEVER, maxRequests: NEVER, ttl: NEVER },
      ...{ ordering: instanceOf(fcfsOrderingPolicy), fairness: instanceOf(globalStrictFairnessPolicy) },
    };
    const endpoints = [endpointOf(0)];
    this.#flowControl = new FlowControl({
      clock: this.clock,
      pool: () => endpoints,
      events: {
        ...NO_EVENTS,
        failed(_policy, error) {
          throw error;
        },
      },
      settings: {
        ...{ maxBytes: NEVER, maxRequests: NEVER, noEndpointTtl: NEVER },
        bands: new Map(Object.entries(bands).map(([priority, band]) => [Number(priority), { ...usual, ...band }])),
        template: usual,
        negativeTemplate: usual,
        usageLimit: instanceOf(staticUsageLimitPolicy),
        detector: { saturation: () => (this.room > 0 ? this.saturation : 1) },
        rules: FLOW_RULES[""],
        ...more,
      },
    });
  }

  send(name: string, { priority = 0, fairnessId = "default-flow", slo }: Sent = {}): void {
    const headers = HeaderList.of(slo === undefined ? [] : [["x-llm-d-slo-ttft-ms", slo]]);
    const request = requestOf("p", { id: name, priority, fairnessId, headers });
    const waiter = { dispatched: () => this.#dispatched(name), evicted() {} };
    const ticket = this.#flowControl.enter(request, 1, this.clock.now(), waiter);
    if ("waiting" in ticket && !ticket.waiting) this.#dispatched(name);
  }

  #dispatched(name: string): void {
    this.order.push(name);
    this.room--;
  }

  /** Makes room and lets flow control look at it. @returns the names of what was dispatched */
  open(room: number): readonly string[] {
    const before = this.order.length;
    this.room = room;
    this.#flowControl.changed();
    this.clock.advance(1);
    return this.order.slice(before);
  }
}

it("S-74: at saturation 1 nothing is dispatched, at 0.99 the highest band first, and first come, first served in it", () => {
  const pool = new Pool({ 10: {} });
  for (const name of ["a", "b"]) pool.send(name);
  for (const name of ["A", "B"]) pool.send(name, { priority: 10 });
  pool.clock.advance(10_000);
  expect(pool.order).toEqual([]);
  pool.saturation = 1;
  expect(pool.open(4)).toEqual([]);
  pool.saturation = 0.99;
  expect(pool.open(3)).toEqual(["A", "B", "a"]);
  expect(pool.open(3)).toEqual(["b"]);
});

it("S-75: round robin: one request of B leaves second at the latest, whatever A has queued", () => {
  const pool = new Pool({ 0: { fairness: instanceOf(roundRobinFairnessPolicy) } });
  for (let i = 0; i < 100; i++) pool.send(`A${i}`, { fairnessId: "A" });
  expect(pool.open(10)).toHaveLength(10);
  pool.send("B0", { fairnessId: "B" });
  expect(pool.open(2)).toEqual(["A10", "B0"]);
  pool.send("B1", { fairnessId: "B" });
  pool.send("C0", { fairnessId: "C" });
  expect(pool.open(4)).toEqual(["A11", "B1", "C0", "A12"]);
});

it("S-75: round robin inside a flow keeps the order of the ordering policy", () => {
  const fairness = instanceOf(roundRobinFairnessPolicy);
  const pool = new Pool({ 0: { fairness, ordering: instanceOf(sloDeadlineOrderingPolicy) } });
  pool.send("a-late", { fairnessId: "a", slo: "500" });
  pool.send("a-soon", { fairnessId: "a", slo: "100" });
  pool.send("b", { fairnessId: "b" });
  expect(pool.open(3)).toEqual(["a-soon", "b", "a-late"]);
});

describe("S-76: deadlines", () => {
  it("edf: the request that expires first leaves first, and those that never expire last, as they came", () => {
    // Bands may have their own time to live, and band 0 takes requests of priorities without a band.
    const pool = new Pool({ 0: { ordering: instanceOf(edfOrderingPolicy), ttl: 5000 } });
    pool.send("first");
    pool.clock.advance(10);
    pool.send("second");
    expect(pool.open(2)).toEqual(["first", "second"]);
    const policy = instanceOf(edfOrderingPolicy);
    const queued = (enqueuedAt: number, ttl: number) => ({
      ...{ request: requestOf("p"), receivedAt: 0, bytes: 1, tokens: 1, enqueuedAt, ttl },
    });
    expect(policy.rank(queued(100, 50))).toBeLessThan(policy.rank(queued(0, 200)));
    expect(policy.rank(queued(0, NEVER))).toBe(NEVER);
  });

  it("slo-deadline: by the header; none and invalid ones last, as they came", () => {
    const pool = new Pool({ 0: { ordering: instanceOf(sloDeadlineOrderingPolicy) } });
    pool.send("none");
    pool.send("invalid", { slo: "-5" });
    pool.send("late", { slo: "9000" });
    pool.send("soon", { slo: "200" });
    pool.clock.advance(100);
    pool.send("sooner", { slo: "50" });
    expect(pool.open(9)).toEqual(["sooner", "soon", "late", "none", "invalid"]);
  });
});

it("S-81: holdback: at saturation 0.6 the low band with ceiling 0.5 is held back, the high one is dispatched", () => {
  const pool = new Pool({ 10: {}, 0: {} }, { usageLimit: instanceOf(priorityHoldbackPolicy, { minCeiling: 0.5 }) });
  pool.send("low");
  pool.send("high", { priority: 10 });
  pool.saturation = 0.6;
  expect(pool.open(5)).toEqual(["high"]);
  pool.saturation = 0.49;
  expect(pool.open(5)).toEqual(["low"]);
});

it("soft-reflective-ceiling-policy: lower bands get a share of the dispatches while the saturation is below 1", () => {
  const pool = new Pool({ 10: {}, 0: {} }, { usageLimit: instanceOf(softReflectiveCeilingPolicy) });
  for (let i = 0; i < 3; i++) pool.send(`low${i}`);
  // The period of 0.8 is 4, and without new events flow control asks again each millisecond.
  pool.saturation = 0.8;
  pool.open(9);
  pool.clock.advance(30);
  expect(pool.order).toEqual(["low0", "low1", "low2"]);
  pool.send("never");
  pool.saturation = 1;
  pool.open(9);
  pool.clock.advance(1000);
  expect(pool.order).toHaveLength(3);
});

it("program-aware-fairness: the flow that was served least leaves first, and waits count", () => {
  const fairness = instanceOf(programAwareFairness);
  const pool = new Pool({ 0: { fairness } });
  fairness.choice().ended!("big", { promptTokens: 1000, completionTokens: 500 }, 0, 0);
  pool.send("big0", { fairnessId: "big" });
  pool.clock.advance(1000);
  pool.send("small0", { fairnessId: "small" });
  pool.send("small1", { fairnessId: "small" });
  expect(pool.open(3)).toEqual(["small0", "small1", "big0"]);
});
