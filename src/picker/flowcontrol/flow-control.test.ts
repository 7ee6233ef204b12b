import { describe, expect, it } from "vitest";
import { FlowRig, NO_USAGE } from "../../../test/support/flowcontrol/flow-rig.cases.ts";
import {
  bandSettingsOf,
  FAIRNESS,
  PLAIN_BAND,
  type PlainBand,
  type PlainSettings,
} from "../../../test/support/flowcontrol/plain-policies.cases.ts";
import { endpointOf } from "../../../test/support/scheduling/fakes.cases.ts";
import type { Endpoint } from "../../base/inference/endpoint.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import type { FairnessPolicy, FlowChoice, QueuedFlow, UsageLimitPolicy } from "../../base/plugin/flow-kinds.ts";
import { FLOW_RULES } from "./rules.ts";
import type { FlowControlSettings } from "./settings.ts";

const EMPTY = { requests: 0, bytes: 0, undecided: 0 };
const TURNS: PlainBand = { ...PLAIN_BAND, fairness: "turns" };

function bandOf(priority: number, changes: Partial<PlainBand>): readonly [number, PlainBand] {
  return [priority, { ...PLAIN_BAND, ...changes }];
}

/** Turns that charge 5 tokens for each request. */
function turnsWith(ended: NonNullable<FlowChoice["ended"]>): FlowChoice {
  return Object.assign(FAIRNESS.turns.choice(), { dispatched: () => 5, ended });
}

function range(count: number): number[] {
  return [...Array(count).keys()];
}

describe("dispatch", () => {
  it("S-74: nothing at saturation 1.0; at 0.99 the highest band first, and first come, first served inside", () => {
    const rig = new FlowRig({ bands: [bandOf(5, {}), bandOf(-5, {})] });
    rig.enterAll("low1 low2", { priority: -5 });
    rig.enterAll("mid1 mid2");
    rig.enterAll("high1 high2", { priority: 5 });
    rig.loadIs(1).clock.advance(100);
    expect(rig.news()).toEqual([]);
    rig.load = 0.99;
    rig.flow.changed();
    rig.clock.advance(0);
    expect(rig.news()).toEqual(["high1", "high2", "mid1", "mid2", "low1", "low2"].map((id) => `${id} Dispatched 100`));
  });

  it("lets a request go on at once while there is room, and calls no waiter for it", () => {
    const rig = new FlowRig();
    rig.load = 0;
    rig.enter("a");
    expect(rig.news()).toEqual(["a goes on"]);
    expect(rig.left).toEqual(["a 0 1 Dispatched 0"]);
    expect(rig.counters).toEqual({ requests: 0, bytes: 0, undecided: 1 });
  });

  it("counts what it has dispatched at once: a burst fills the room and no more", () => {
    const rig = new FlowRig();
    rig.load = 0;
    rig.perRequest = 0.25;
    rig.enterAll("a b c d e f");
    expect(rig.news()).toEqual(["a goes on", "b goes on", "c goes on", "d goes on"]);
    // Counting at an endpoint makes no room: the request only moves from one count to the other.
    for (const id of ["a", "b"]) {
      rig.flow.decided(rig.ticket(id));
      rig.running++;
    }
    rig.loadIs(0);
    expect(rig.news()).toEqual([]);
    rig.running--;
    rig.flow.ended(rig.ticket("a"), NO_USAGE);
    rig.clock.advance(0);
    expect(rig.news()).toEqual(["e Dispatched"]);
    rig.flow.ended(rig.ticket("d"), NO_USAGE);
    rig.clock.advance(0);
    expect(rig.news()).toEqual(["f Dispatched"]);
  });

  it("does not wait for an event (scheduling 6.3): it looks every 20 ms while requests wait, and not at all while none waits", () => {
    const rig = new FlowRig();
    rig.enter("a");
    rig.load = 0;
    rig.clock.advance(20);
    expect(rig.news()).toEqual(["a Dispatched 20"]);
    rig.clock.advance(20);
    const { cycles } = rig;
    rig.clock.advance(10_000);
    expect([rig.cycles - cycles, rig.clock.pending]).toEqual([0, 0]);
  });

  it("looks every millisecond where the ceilings alternate, so that each call may open another band", () => {
    let calls = 0;
    const usageLimit: UsageLimitPolicy = {
      alternates: true,
      limit: (_saturation, _priorities, ceilings) => void ceilings.fill(++calls % 5 === 0 ? 2 : 0),
    };
    const rig = new FlowRig({}, { usageLimit });
    rig.enterAll("a b");
    rig.clock.advance(3);
    expect([rig.news(), calls]).toEqual([["a Dispatched 3"], 6]);
    // The debug page takes no turn.
    for (const _ of range(5)) rig.flow.bands();
    expect(calls).toBe(6);
  });

  it("dispatches more than 64 in one wake-up, in cycles of 64 between which other events run", () => {
    const rig = new FlowRig();
    for (const i of range(200)) rig.enter(`${i}`, { bytes: 10 });
    rig.cycles = 0;
    const lengths: number[] = [];
    rig.load = 0;
    rig.flow.changed();
    rig.clock.soon(() => lengths.push(rig.log.length));
    rig.clock.advance(0);
    expect(lengths).toEqual([64]);
    expect(rig.news()).toEqual(range(200).map((i) => `${i} Dispatched`));
    expect([rig.cycles, rig.counters]).toEqual([4, { ...EMPTY, undecided: 200 }]);
  });

  it("S-81: a ceiling below the saturation blocks its band and no other", () => {
    const rig = new FlowRig({ bands: [bandOf(5, {}), bandOf(-5, {})], ceilings: [1, 0.5] });
    rig.enter("low", { priority: -5 });
    rig.enter("mid");
    rig.enter("high", { priority: 5 });
    expect(rig.loadIs(0.6).news()).toEqual(["high Dispatched", "mid Dispatched"]);
    expect(rig.flow.bands().map(({ ceiling }) => ceiling)).toEqual([1, 0.75, 0.5]);
    expect(rig.loadIs(0.5).news()).toEqual([]);
    expect(rig.loadIs(0.49).news()).toEqual(["low Dispatched"]);
  });

  it("a band over its ceiling does not stop a lower one whose ceiling is higher", () => {
    const rig = new FlowRig({ bands: [bandOf(5, {})], ceilings: [0.25, 1] });
    rig.enter("high", { priority: 5 });
    rig.enter("low");
    expect(rig.loadIs(0.5).news()).toEqual(["low Dispatched"]);
    expect(rig.loadIs(0.2).news()).toEqual(["high Dispatched"]);
  });

  it("leaves in the order of its ordering policy, and requests of the same rank as they came", () => {
    const rig = new FlowRig({ bands: [bandOf(0, { ordering: "size" })] });
    for (const [id, bytes] of Object.entries({ a: 9, b: 100, c: 1, d: 100, e: 9 })) rig.enter(id, { bytes });
    expect(rig.loadIs(0).news()).toEqual(["c", "a", "e", "b", "d"].map((id) => `${id} Dispatched`));
  });

  it("S-76: an earlier deadline goes first, and no deadline last", () => {
    const rig = new FlowRig({ bands: [bandOf(0, { ordering: "deadline", ttl: 5000 })] });
    rig.enter("long");
    rig.flow.configure(rig.settings({ bands: [bandOf(0, { ordering: "deadline" })] }));
    rig.enter("none");
    rig.flow.configure(rig.settings({ bands: [bandOf(0, { ordering: "deadline", ttl: 2000 })] }));
    rig.enter("short");
    expect(rig.loadIs(0).news()).toEqual(["short", "long", "none"].map((id) => `${id} Dispatched`));
  });

  it("S-75: flows in turns: the one request of B leaves second, behind 100 of A", () => {
    const rig = new FlowRig({ bands: [[0, TURNS]] });
    for (const i of range(100)) rig.enter(`a${i}`, { flow: "A" });
    rig.enter("b", { flow: "B" });
    expect(rig.flow.bands()[0]).toMatchObject({
      flows: 2,
      longest: [
        { fairnessId: "A", requests: 100 },
        { fairnessId: "B", requests: 1 },
      ],
    });
    expect(rig.loadIs(0).news().slice(0, 3)).toEqual(["a0 Dispatched", "b Dispatched", "a1 Dispatched"]);
  });

  it("S-83: the stage with the higher saturation counts; a stage without endpoints has none", () => {
    const rig = new FlowRig();
    const loadOf = (endpoint: Endpoint): number => endpoint.metrics.waiting;
    const saturation = (endpoints: readonly Endpoint[]): number =>
      endpoints.length === 0 ? 1 : endpoints.reduce((sum, one) => sum + loadOf(one), 0) / endpoints.length;
    rig.flow.configure(rig.settings({}, { detector: { saturation } }));
    const pod = (slot: number, role: string, waiting: number): Endpoint =>
      endpointOf(slot, { labels: role === "" ? {} : { "llm-d.ai/role": role }, metrics: { waiting } });
    const decode = pod(0, "decode", 1.5);
    rig.poolIs(decode, pod(1, "prefill", 0.25));
    expect(rig.flow.saturation()).toEqual({ prefill: 0.25, decode: 1.5, effective: 1.5 });
    rig.enter("a");
    expect(rig.news()).toEqual([]);
    expect(rig.flow.bands()[0]).toMatchObject({ requests: 1 });

    rig.poolIs(decode);
    expect(rig.flow.saturation()).toEqual({ prefill: undefined, decode: 1.5, effective: 1.5 });
    rig.poolIs(pod(0, "prefill", 0.5), pod(1, "encode", 9));
    expect(rig.flow.saturation()).toEqual({ prefill: 0.5, decode: undefined, effective: 0.5 });
    expect(rig.news()).toEqual(["a Dispatched"]);
    // Each role that serves both stages counts in both; roles that serve none count only where nothing else is.
    for (const role of ["prefill-decode", "both", "encode-prefill-decode"]) {
      rig.poolIs(pod(0, role, 0.5), pod(1, "", 0.25), pod(2, "encode-prefill", 1), pod(3, "other", 9));
      expect(rig.flow.saturation()).toEqual({ prefill: 0.75, decode: 0.375, effective: 0.75 });
    }
    rig.poolIs(pod(0, "encode", 0.5), pod(1, "other", 0.25));
    expect(rig.flow.saturation()).toEqual({ prefill: undefined, decode: undefined, effective: 0.375 });
    rig.poolIs();
    expect(rig.flow.saturation()).toEqual({ prefill: undefined, decode: undefined, effective: 1 });
  });
});

describe("capacity", () => {
  it("S-77: a full band refuses with 429, with an empty pool with 503; bytes of bodies count, and all bands together", () => {
    const rig = new FlowRig({
      ...{ maxRequests: 4, maxBytes: 100 },
      bands: [bandOf(0, { maxRequests: 2 }), bandOf(5, { maxBytes: 50 })],
    });
    rig.enterAll("a b c", { bytes: 10 });
    expect(rig.news()).toEqual(["c refused saturated"]);
    rig.enter("d", { priority: 5, bytes: 51 });
    rig.enter("e", { priority: 5, bytes: 50 });
    rig.enter("f", { priority: 5, bytes: 1 });
    expect(rig.news()).toEqual(["d refused saturated", "f refused saturated"]);
    expect(rig.counters).toEqual({ requests: 3, bytes: 70, undecided: 0 });
    rig.pool = [];
    rig.enter("g");
    expect(rig.news()).toEqual(["g refused no_endpoints"]);
    expect(rig.left).toEqual([
      "c 0 10 RejectedCapacity 0",
      "d 5 51 RejectedCapacity 0",
      "f 5 1 RejectedCapacity 0",
      "g 0 1 RejectedNoEndpoints 0",
    ]);
    expect(rig.enqueued).toEqual([
      ...["NotYetFinalized", "NotYetFinalized", "RejectedCapacity", "RejectedCapacity", "NotYetFinalized"],
      ...["RejectedCapacity", "RejectedNoEndpoints"],
    ]);
  });

  it("S-77: the limits over all bands hold where each band has room", () => {
    const rig = new FlowRig({ maxRequests: 3, maxBytes: 100, bands: [bandOf(-5, {})] });
    rig.enter("a", { bytes: 99 });
    rig.enter("b", { priority: -5, bytes: 2 });
    rig.enter("c", { priority: -5, bytes: 1 });
    rig.enter("d", { priority: -5, bytes: 0 });
    rig.enter("e", { priority: -5, bytes: 0 });
    expect(rig.news()).toEqual(["b refused saturated", "e refused saturated"]);
  });

  describe("who holds most of a full band makes room for others (docs/adr/0023)", () => {
    const fair = (more: Partial<PlainBand>): Partial<PlainSettings> => ({
      bands: [bandOf(0, { fairness: "turns", ...more })],
    });

    it("the newest requests of the flow with most requests leave, until all flows hold as many", () => {
      const rig = new FlowRig(fair({ maxRequests: 4 }));
      for (const id of ["a1", "a2", "a3", "a4"]) rig.enter(id, { flow: "a" });
      for (const id of ["b1", "b2", "b3", "c1", "d1", "e1"]) rig.enter(id, { flow: id[0]! });
      expect(rig.news()).toEqual([
        ...["a4 evicted_queue_pressure", "a3 evicted_queue_pressure", "b3 refused saturated"],
        // Of two flows that hold two each, the one that joined first.
        ...["a2 evicted_queue_pressure", "b2 evicted_queue_pressure", "e1 refused saturated"],
      ]);
      expect(rig.left[0]).toBe("a 0 1 EvictedQueuePressure 0");
      expect(rig.loadIs(0).news()).toEqual(["a1", "b1", "c1", "d1"].map((id) => `${id} Dispatched`));
    });

    it("a band that fills again has the shares of its flows right", () => {
      const rig = new FlowRig(fair({ maxRequests: 8 }));
      for (let i = 1; i <= 8; i++) rig.enter(`a${i}`, { flow: "a" });
      for (const id of ["b1", "c1", "c2"]) rig.enter(id, { flow: id[0]! });
      expect(rig.news()).toEqual(["a8", "a7", "a6"].map((id) => `${id} evicted_queue_pressure`));
      for (let i = 1; i <= 5; i++) rig.flow.cancel(rig.ticket(`a${i}`));
      rig.news();
      for (let i = 1; i <= 5; i++) rig.enter(`d${i}`, { flow: "d" });
      for (const id of ["c3", "e1", "e2"]) rig.enter(id, { flow: id[0]! });
      expect(rig.news()).toEqual([
        ...["d5 evicted_queue_pressure", "d4 evicted_queue_pressure"],
        // Now c has as many as d, and joined first.
        "c3 evicted_queue_pressure",
      ]);
    });

    it("large bodies count by their bytes: many small requests of another flow stay", () => {
      const rig = new FlowRig(fair({ maxRequests: 100, maxBytes: 100 }));
      rig.enterAll("a1 a2", { flow: "a", bytes: 45 });
      rig.enterAll("b1 b2 b3 b4 b5", { flow: "b", bytes: 2 });
      rig.enter("b6", { flow: "b", bytes: 2 });
      expect(rig.news()).toEqual(["a2 evicted_queue_pressure"]);
      // A flow with one request keeps it.
      rig.enter("c1", { flow: "c", bytes: 44 });
      expect(rig.news()).toEqual(["c1 refused saturated"]);
    });

    it("no newcomer makes more than 64 requests leave", () => {
      const rig = new FlowRig(fair({ maxBytes: 1000 }));
      for (let i = 0; i < 1000; i++) rig.enter(`a${i}`, { flow: "a", bytes: 1 });
      rig.enter("b1", { flow: "b", bytes: 65 });
      expect(rig.news()).toEqual(["b1 refused saturated"]);
      rig.enter("b2", { flow: "b", bytes: 64 });
      expect(rig.news()).toHaveLength(64);
      expect(rig.counters).toEqual({ requests: 937, bytes: 1000, undecided: 0 });
    });

    it("those that leave have left before the first of them learns it, so that none leaves twice", () => {
      const rig = new FlowRig(fair({ maxBytes: 10 }));
      for (let i = 0; i < 8; i++) rig.enter(`a${i}`, { flow: "a", bytes: 1 });
      const cancelOther = (): void => rig.flow.cancel(rig.ticket("a8"));
      rig.enter("a8", { flow: "a", bytes: 1 });
      rig.enter("a9", { flow: "a", bytes: 1, evicted: cancelOther });
      rig.enter("b", { flow: "b", bytes: 2 });
      expect(rig.news()).toEqual(["a9 evicted_queue_pressure", "a8 evicted_queue_pressure"]);
      expect(rig.counters).toEqual({ requests: 9, bytes: 10, undecided: 0 });
      expect(rig.flow.loads()[0]).toMatchObject({ requests: 9, bytes: 10 });
    });

    it("in a band with one queue nobody leaves", () => {
      const rig = new FlowRig({ bands: [bandOf(0, { maxRequests: 2 })] });
      for (const id of ["a1", "a2", "b1"]) rig.enter(id, { flow: id[0]! });
      expect(rig.news()).toEqual(["b1 refused saturated"]);
    });

    it("the lowest band makes room for a higher one where the limits over all bands are reached, never the other way", () => {
      const rig = new FlowRig({ maxRequests: 3, bands: [bandOf(5, {}), bandOf(-1, {})] });
      rig.enterAll("a b", { priority: -1 });
      rig.enterAll("c", { priority: 0 });
      rig.enterAll("d e f", { priority: 5 });
      rig.enterAll("g", { priority: 5 });
      rig.enterAll("h", { priority: -1 });
      expect(rig.news()).toEqual([
        ...["b evicted_priority", "a evicted_priority", "c evicted_priority"],
        ...["g refused saturated", "h refused saturated"],
      ]);
    });

    it("a full band of its own does not let a higher priority push out a lower one", () => {
      const rig = new FlowRig({ maxRequests: 2, bands: [bandOf(5, { maxRequests: 1 })] });
      rig.enterAll("a", { priority: 5 });
      rig.enterAll("b", { priority: 0 });
      rig.enterAll("c", { priority: 5 });
      expect(rig.news()).toEqual(["c refused saturated"]);
    });

    it("a request that leaves while its sender still waits for the answer of enter is refused there, and only there", () => {
      const rig = new FlowRig(fair({ maxRequests: 4 }));
      rig.enterAll("b1", { flow: "b" });
      rig.enterAll("a1 a2", { flow: "a" });
      // a3 leaves for b2. Its waiter sends c1, for which b2 leaves: the newest of the flow that joined first.
      rig.enter("a3", { flow: "a", evicted: () => rig.enterAll("c1", { flow: "c" }) });
      const b2 = rig.enter("b2", { flow: "b" });
      expect(b2).toBeInstanceOf(Rejection);
      expect((b2 as Rejection).reason).toBe("evicted_queue_pressure");
      expect(rig.news()).toEqual(["a3 evicted_queue_pressure", "b2 refused evicted_queue_pressure"]);
      expect(rig.left.map((line) => line.split(" ")[3])).toEqual(["EvictedQueuePressure", "EvictedQueuePressure"]);
      expect(rig.counters.requests).toBe(4);
    });
  });

  it("a full band refuses also who could go on at once, for the newcomer is always the one that is refused", () => {
    const rig = new FlowRig({ bands: [bandOf(0, { maxBytes: 5 })] });
    rig.load = 0;
    rig.enter("a", { bytes: 6 });
    rig.enter("b", { bytes: 5 });
    expect(rig.news()).toEqual(["a refused saturated", "b goes on"]);
  });

  it("each way out frees its room at once", () => {
    const rig = new FlowRig({
      maxRequests: 1,
      maxBytes: 10,
      bands: [bandOf(0, { maxRequests: 1, maxBytes: 10, ttl: 50 })],
    });
    const isFull = (): boolean => rig.enter("probe", { bytes: 1 }) instanceof Rejection;
    rig.enter("cancelled", { bytes: 10 });
    expect(isFull()).toBe(true);
    rig.flow.cancel(rig.ticket("cancelled"));
    expect(rig.counters).toEqual(EMPTY);
    rig.enter("expired", { bytes: 10 });
    expect(isFull()).toBe(true);
    rig.clock.advance(50);
    expect(rig.counters).toEqual(EMPTY);
    rig.enter("dispatched", { bytes: 10 });
    rig.loadIs(0);
    expect(rig.counters).toEqual({ ...EMPTY, undecided: 1 });
    rig.load = 1;
    expect(isFull()).toBe(false);
  });
});

describe("time to live", () => {
  it("S-78: a request expires on time while the pool is saturated: 429", () => {
    const rig = new FlowRig({ template: { ...PLAIN_BAND, ttl: 2000 }, bands: [bandOf(0, { ttl: 2000 })] });
    rig.enter("a");
    rig.clock.advance(500);
    rig.enter("b");
    rig.clock.advance(1499);
    expect(rig.news()).toEqual([]);
    rig.clock.advance(1);
    expect(rig.news()).toEqual(["a ttl_expired 2000"]);
    rig.clock.advance(499);
    expect(rig.news()).toEqual([]);
    rig.clock.advance(1);
    expect(rig.news()).toEqual(["b ttl_expired 2500"]);
    expect(rig.left).toEqual(["a 0 1 EvictedTTL 2000", "b 0 1 EvictedTTL 2000"]);
    expect(rig.counters).toEqual(EMPTY);
  });

  it("S-78: an empty pool refuses with 503 after its own time, also where no TTL is set", () => {
    const rig = new FlowRig({ noEndpointTtl: 3000 });
    rig.load = 0;
    rig.pool = [];
    rig.enter("a");
    rig.clock.advance(2999);
    expect(rig.news()).toEqual([]);
    rig.clock.advance(1);
    expect(rig.news()).toEqual(["a no_endpoints 3000"]);
    expect(rig.left).toEqual(["a 0 1 EvictedNoEndpoints 3000"]);
  });

  it("S-78: what waits while the pool is empty goes to the first endpoint, and sees that one", () => {
    const rig = new FlowRig({ noEndpointTtl: 60_000 });
    rig.load = 0;
    rig.pool = [];
    const seen: Endpoint[] = [];
    const fresh = endpointOf(7);
    for (const i of range(10)) rig.enter(`${i}`, { dispatched: () => seen.push(...rig.pool) });
    rig.clock.advance(59_999);
    rig.poolIs(fresh);
    expect(rig.news()).toEqual(range(10).map((i) => `${i} Dispatched 59999`));
    expect(seen).toEqual(range(10).map(() => fresh));
  });

  it("an empty pool dispatches nothing, whatever its detector says", () => {
    const rig = new FlowRig();
    rig.pool = [];
    rig.flow.configure(rig.settings({}, { detector: { saturation: () => 0 } }));
    rig.enter("a");
    rig.clock.advance(1000);
    expect(rig.news()).toEqual([]);
  });

  it("the clock starts again when the pool empties and when it comes back", () => {
    const rig = new FlowRig({ noEndpointTtl: 5000, bands: [bandOf(0, { ttl: 2000 })] });
    rig.enter("a");
    rig.clock.advance(1500);
    rig.poolIs();
    rig.clock.advance(1000);
    rig.enter("b");
    rig.clock.advance(3999);
    expect(rig.news()).toEqual([]);
    rig.clock.advance(1);
    // 1500 + 5000: not 2000 from its arrival, nor 5000 from there.
    expect(rig.news()).toEqual(["a no_endpoints 6500"]);
    rig.clock.advance(500);
    rig.poolIs(endpointOf(0));
    rig.clock.advance(500);
    rig.enter("c");
    rig.clock.advance(1499);
    expect(rig.news()).toEqual([]);
    rig.clock.advance(1);
    // The pool came back at 7000; c came after that.
    expect(rig.news()).toEqual(["b ttl_expired 9000"]);
    rig.clock.advance(500);
    expect(rig.news()).toEqual(["c ttl_expired 9500"]);
  });

  it("notices a change of the pool that nobody announced, before it lets a request expire", () => {
    const rig = new FlowRig({ noEndpointTtl: 5000, bands: [bandOf(0, { ttl: 2007 })] });
    rig.enter("a");
    rig.clock.advance(2005);
    rig.pool = [];
    rig.clock.advance(2);
    expect(rig.news()).toEqual([]);
    rig.clock.advance(4999);
    expect(rig.news()).toEqual([]);
    rig.clock.advance(1);
    expect(rig.left).toEqual(["a 0 1 EvictedNoEndpoints 7007"]);
  });

  it("no time to live at all: it waits for any time", () => {
    const rig = new FlowRig();
    rig.enter("a");
    rig.clock.advance(600_000);
    expect([rig.news(), rig.counters.requests]).toEqual([[], 1]);
  });
});

describe("clients that leave", () => {
  it("S-79: a client that leaves frees its place at once, and its waiter learns it", () => {
    const rig = new FlowRig({ bands: [[0, TURNS]] });
    rig.enterAll("a b c");
    rig.clock.advance(5);
    rig.flow.cancel(rig.ticket("b"));
    expect(rig.news()).toEqual(["b context_cancelled 5"]);
    expect(rig.left).toEqual(["b 0 1 EvictedContextCancelled 5"]);
    expect(rig.flow.bands()[0]).toMatchObject({ requests: 2, bytes: 2, flows: 2 });
    expect(rig.loadIs(0).news()).toEqual(["a Dispatched 5", "c Dispatched 5"]);
  });

  it("calls that come twice or out of order change nothing: no counter falls below 0", () => {
    const rig = new FlowRig();
    const ended: string[] = [];
    const choice = (): FlowChoice => turnsWith((id) => void ended.push(id));
    const fairness: FairnessPolicy = { choice };
    const bands = new Map([[0, { ...bandSettingsOf(PLAIN_BAND), fairness }]]);
    rig.flow.configure(rig.settings({}, { bands }));
    rig.enterAll("a b c");
    const [a, b, c] = ["a", "b", "c"].map((id) => rig.ticket(id)) as [never, never, never];
    // While they wait, neither has an effect.
    rig.flow.decided(a);
    rig.flow.ended(a, NO_USAGE);
    expect(rig.counters).toEqual({ requests: 3, bytes: 3, undecided: 0 });
    rig.flow.cancel(b);
    for (const call of ["decided", "cancel", "ended"] as const) rig.flow[call](b, NO_USAGE);
    rig.loadIs(0);
    expect(rig.counters).toEqual({ ...EMPTY, undecided: 2 });
    rig.flow.cancel(a);
    for (const _ of range(2)) rig.flow.decided(a);
    expect(rig.counters).toEqual({ ...EMPTY, undecided: 1 });
    for (const _ of range(2)) rig.flow.ended(a, NO_USAGE);
    for (const _ of range(2)) rig.flow.ended(c, NO_USAGE);
    rig.flow.decided(c);
    expect(rig.counters).toEqual(EMPTY);
    expect(ended).toEqual(["a", "c"]);
    expect(rig.news()).toEqual(["b context_cancelled", "a Dispatched", "c Dispatched"]);
  });

  it("a policy learns what a request has cost, and when; one that fails then stops nothing", () => {
    const rig = new FlowRig();
    const seen: unknown[] = [];
    const choice = (): FlowChoice =>
      turnsWith((...told) => {
        seen.push(told);
        throw new Error("lost the books");
      });
    const fairness: FairnessPolicy = { choice };
    rig.flow.configure(rig.settings({}, { bands: new Map([[0, { ...bandSettingsOf(PLAIN_BAND), fairness }]]) }));
    rig.load = 0;
    rig.enter("a", { flow: "tenant" });
    rig.clock.advance(70);
    rig.load = 1;
    rig.enter("b");
    rig.load = 0;
    rig.flow.ended(rig.ticket("a"), { promptTokens: 10, completionTokens: 3 });
    rig.clock.advance(0);
    expect(seen).toEqual([["tenant", { promptTokens: 10, completionTokens: 3 }, 5, 70]]);
    expect(rig.failures).toEqual(["fairness policy: lost the books"]);
    expect(rig.news()).toEqual(["a goes on", "b Dispatched 70"]);
  });
});

describe("the time after which a refused request may try again", () => {
  /** A pool that lets one request go each 500 ms, for 30 s. */
  function flowing(): FlowRig {
    const rig = new FlowRig({ bands: [bandOf(0, { maxRequests: 10 }), bandOf(5, { maxRequests: 1000 })] });
    for (const _ of range(60)) {
      rig.load = 0;
      rig.enter("x");
      rig.load = 1;
      rig.clock.advance(500);
    }
    return rig;
  }
  const refusal = (rig: FlowRig): Rejection => rig.enter("refused") as Rejection;

  it("is that of the queue before it, by the measured rate", () => {
    const rig = flowing();
    for (const i of range(10)) rig.enter(`q${i}`);
    // The smoothed rate is 1.85 a second, and 11 are to leave; then 51, then 251.
    expect(refusal(rig).retryAfter).toBe(6);
    for (const i of range(40)) rig.enter(`r${i}`, { priority: 5 });
    expect(refusal(rig).retryAfter).toBe(28);
    for (const i of range(200)) rig.enter(`s${i}`, { priority: 5 });
    expect(refusal(rig).retryAfter).toBe(60);
  });

  it("is unknown where nothing leaves, and at shutdown", () => {
    const never = new FlowRig({ bands: [bandOf(0, { maxRequests: 1 })] });
    never.enter("a");
    expect(refusal(never)).toMatchObject({ reason: "saturated", retryAfter: undefined });
    const rig = flowing();
    rig.clock.advance(600_000);
    for (const i of range(10)) rig.enter(`q${i}`);
    expect(refusal(rig).retryAfter).toBeUndefined();
    rig.flow.close();
    expect(refusal(rig)).toMatchObject({ reason: "shutting_down", retryAfter: undefined });
  });
});

describe("bands", () => {
  it("S-80: a priority without band is served from band 0 under its own label, and reported", () => {
    const rig = new FlowRig({ bands: [bandOf(5, {})] });
    rig.enterAll("a b", { priority: 3 });
    rig.enter("c", { priority: 5 });
    rig.enter("d");
    rig.enter("e", { priority: -9 });
    expect(rig.flow.bands()).toMatchObject([
      { priority: 5, requests: 1 },
      { priority: 0, requests: 4 },
    ]);
    expect(
      rig
        .loadIs(0)
        .news()
        .map((line) => line.split(" ")[0]),
    ).toEqual(["c", "a", "b", "d", "e"]);
    expect(rig.left.slice(0, 2)).toEqual(["c 5 1 Dispatched 0", "a 3 1 Dispatched 0"]);
    expect(rig.strange).toEqual([3, 3, -9]);
  });

  it("priorities of objectives get bands, by the template of their sign; a configured band keeps its own settings", () => {
    const rig = new FlowRig({
      bands: [bandOf(5, { maxRequests: 5 })],
      template: { ...PLAIN_BAND, maxRequests: 6, ttl: 1000 },
      negativeTemplate: { ...PLAIN_BAND, maxRequests: 7, ttl: 2000 },
    });
    rig.flow.usePriorities(new Set([-1, 2, 5]));
    const limits = rig.flow.bands().map(({ priority, maxRequests }) => [priority, maxRequests]);
    // Band 0 exists always; without settings of its own it has those of the template.
    expect(limits).toEqual([
      [5, 5],
      [2, 6],
      [0, 6],
      [-1, 7],
    ]);
    rig.enter("low", { priority: -1 });
    rig.enter("mid", { priority: 2 });
    rig.clock.advance(1000);
    expect(rig.news()).toEqual(["mid ttl_expired 1000"]);
    rig.clock.advance(1000);
    expect(rig.news()).toEqual(["low ttl_expired 2000"]);
    expect(rig.strange).toEqual([]);
  });

  it("looks again as soon as a band is removed, because the ceilings of the others may have changed", () => {
    // 0.5 for the lowest of two priorities, 1 for a single one.
    const usageLimit: UsageLimitPolicy = {
      limit: (_, __, ceilings) => void ceilings.fill(0.5, 1),
    };
    const rig = new FlowRig({ template: { ...PLAIN_BAND, ttl: 3_600_000 } }, { usageLimit });
    rig.flow.usePriorities(new Set([7]));
    rig.load = 0.75;
    rig.clock.advance(1);
    // Its time to look comes every 20 ms from here on.
    rig.enter("a");
    rig.clock.advance(10);
    rig.flow.usePriorities(new Set());
    rig.news();
    rig.clock.advance(600_000);
    expect(rig.news()).toEqual(["a Dispatched 600011"]);
  });

  it("removes the band of a former priority once it has been empty for 10 minutes, and only then", () => {
    const minutes = (count: number): void => rig.clock.advance(count * 60_000);
    const rig = new FlowRig({ bands: [bandOf(5, {})], template: { ...PLAIN_BAND, ttl: 3_600_000 } });
    const priorities = (): number[] => rig.flow.bands().map(({ priority }) => priority);
    rig.flow.usePriorities(new Set([2, 7]));
    expect(priorities()).toEqual([7, 5, 2, 0]);
    minutes(60);
    expect(priorities()).toEqual([7, 5, 2, 0]);
    rig.enter("a", { priority: 7 });
    rig.flow.usePriorities(new Set());
    minutes(9.9);
    expect(priorities()).toEqual([7, 5, 2, 0]);
    minutes(0.1);
    // 7 still has a request.
    expect(priorities()).toEqual([7, 5, 0]);
    minutes(5);
    rig.flow.cancel(rig.ticket("a"));
    minutes(9.9);
    expect(priorities()).toEqual([7, 5, 0]);
    minutes(10);
    expect(priorities()).toEqual([5, 0]);
    rig.enter("b", { priority: 7 });
    expect(rig.strange).toEqual([7]);
  });

  it("a priority that comes back within that time keeps its band and its requests", () => {
    const rig = new FlowRig();
    rig.flow.usePriorities(new Set([2]));
    rig.flow.usePriorities(new Set());
    rig.clock.advance(400_000);
    rig.flow.usePriorities(new Set([2]));
    rig.clock.advance(1_200_000);
    expect(rig.flow.bands().map(({ priority }) => priority)).toEqual([2, 0]);
  });

  it("bounds the bands: what objectives name beyond 1,024 is in the next lower band", () => {
    const rig = new FlowRig();
    rig.flow.usePriorities(new Set(range(3000)));
    expect(rig.flow.bands().length).toBe(1024);
    rig.enter("a", { priority: 2999 });
    expect(rig.strange).toEqual([2999]);
    expect(rig.flow.bands()[0]).toMatchObject({ priority: 1023, requests: 1 });
  });

  it("a change of priorities that raises a ceiling dispatches at once", () => {
    const rig = new FlowRig({ ceilings: [0.25, 1] });
    rig.load = 0.5;
    rig.enter("a");
    rig.flow.usePriorities(new Set([5]));
    rig.clock.advance(0);
    expect(rig.news()).toEqual(["a Dispatched"]);
  });
});

describe("another configuration", () => {
  it("while 1,000 wait: none is lost, the order stays, the old times to live stay, new limits and policies hold", () => {
    const rig = new FlowRig({ bands: [bandOf(0, { ttl: 5000 }), bandOf(5, { ttl: 5000 }), bandOf(-5, { ttl: 5000 })] });
    const priorityOf = (i: number): number => [5, 0, -5][i % 3]!;
    for (const i of range(1000)) rig.enter(`${i}`, { priority: priorityOf(i), flow: `${i % 7}`, bytes: 3 });
    rig.flow.cancel(rig.ticket("500"));
    rig.clock.advance(1000);
    rig.news();
    // Band -5 is no more: its requests move to band 0, among the others by their arrival.
    const fair = { ...TURNS, ttl: 60_000, maxRequests: 10 };
    rig.flow.configure(rig.settings({ bands: [[5, { ...fair }], bandOf(0, { ttl: 60_000 })] }));
    expect(rig.counters).toEqual({ requests: 999, bytes: 2997, undecided: 0 });
    expect(rig.flow.bands()).toMatchObject([
      { priority: 5, requests: 334, bytes: 1002, flows: 7, maxRequests: 10 },
      { priority: 0, requests: 665, bytes: 1995, flows: 7 },
    ]);
    rig.enter("new", { priority: 5 });
    expect(rig.news()).toEqual(["new refused saturated 1000"]);
    rig.loadIs(0);
    const order = rig.news().map((line) => line.split(" ")[0]!);
    const turns: string[] = [];
    const flows = range(7).map((flow) => range(1000).filter((i) => i % 3 === 0 && i % 7 === flow));
    const joined = range(7).map((i) => (i * 3) % 7);
    while (flows.some((flow) => flow.length > 0))
      for (const flow of joined) if (flows[flow]!.length > 0) turns.push(`${flows[flow]!.shift()}`);
    const rest = range(1000).filter((i) => i % 3 !== 0 && i !== 500);
    expect(order).toEqual([...turns, ...rest.map((i) => `${i}`)]);
    expect(rig.counters).toEqual({ ...EMPTY, undecided: 999 });
  });

  it("a request keeps the time to live with which it came; the time for an empty pool is the new one", () => {
    const rig = new FlowRig({ noEndpointTtl: 100, bands: [bandOf(0, { ttl: 2000 })] });
    rig.enter("a");
    rig.flow.configure(rig.settings({ noEndpointTtl: 7000, bands: [bandOf(0, { ttl: 10 })] }));
    rig.enter("b");
    rig.clock.advance(1999);
    expect(rig.news()).toEqual(["b ttl_expired 10"]);
    rig.clock.advance(1);
    expect(rig.news()).toEqual(["a ttl_expired 2000"]);
    rig.enter("c");
    rig.poolIs();
    rig.clock.advance(7000);
    expect(rig.news()).toEqual(["c no_endpoints 9000"]);
  });

  it("a shorter time for an empty pool holds at once", () => {
    const rig = new FlowRig({ noEndpointTtl: 60_000 });
    rig.pool = [];
    rig.enter("a");
    rig.clock.advance(1000);
    rig.flow.configure(rig.settings({ noEndpointTtl: 1500 }));
    rig.clock.advance(500);
    expect(rig.news()).toEqual(["a no_endpoints 1500"]);
  });

  it("a ceiling or a detector that leaves more room dispatches at once", () => {
    const rig = new FlowRig({ ceilings: [0.5, 0.5] });
    rig.load = 0.75;
    rig.enter("a");
    rig.flow.configure(rig.settings({}));
    rig.clock.advance(0);
    expect(rig.news()).toEqual(["a Dispatched"]);
  });

  it("keeps the bands of objectives", () => {
    const rig = new FlowRig();
    rig.flow.usePriorities(new Set([4]));
    rig.enter("a", { priority: 4 });
    rig.flow.configure(rig.settings({ template: { ...PLAIN_BAND, maxRequests: 9 } }));
    expect(rig.flow.bands()).toMatchObject([
      { priority: 4, requests: 1, maxRequests: 9 },
      { priority: 0, requests: 0 },
    ]);
    expect(rig.strange).toEqual([]);
  });
});

describe("shutdown", () => {
  it("S-84: refuses what waits in the order of arrival, then what comes; no timer is left", () => {
    const rig = new FlowRig({ noEndpointTtl: 1000, bands: [bandOf(5, { ttl: 100 }), bandOf(0, { ttl: 50 })] });
    rig.flow.usePriorities(new Set([3]));
    rig.flow.usePriorities(new Set());
    rig.enter("a");
    rig.enter("b", { priority: 5 });
    rig.enter("c");
    rig.clock.advance(7);
    rig.flow.close();
    expect(rig.news()).toEqual(["a shutting_down 7", "b shutting_down 7", "c shutting_down 7"]);
    rig.enter("d");
    expect(rig.news()).toEqual(["d refused shutting_down 7"]);
    expect(rig.left.map((line) => line.split(" ")[3])).toEqual([
      ...["EvictedOther", "EvictedOther", "EvictedOther", "RejectedOther"],
    ]);
    expect([rig.counters, rig.clock.pending]).toEqual([EMPTY, 0]);
    rig.flow.close();
    rig.loadIs(0).clock.advance(1_000_000);
    expect(rig.news()).toEqual([]);
  });

  it("what was dispatched before goes on and is counted down", () => {
    const rig = new FlowRig();
    rig.load = 0;
    rig.enterAll("a b");
    rig.flow.close();
    rig.flow.decided(rig.ticket("a"));
    rig.flow.ended(rig.ticket("a"), NO_USAGE);
    rig.flow.ended(rig.ticket("b"), NO_USAGE);
    expect([rig.counters, rig.clock.pending]).toEqual([EMPTY, 0]);
  });
});

describe("waiters that call back", () => {
  it("one that sends another request: it takes its turn behind those that wait", () => {
    const rig = new FlowRig();
    rig.enter("a", { dispatched: () => rig.enter("a2") });
    rig.enter("b");
    expect(rig.loadIs(0).news()).toEqual(["a Dispatched", "b Dispatched", "a2 Dispatched"]);
    expect(rig.counters).toEqual({ ...EMPTY, undecided: 3 });
  });

  it("one that sends another request when it is refused: that one may go on at once", () => {
    const rig = new FlowRig({ bands: [bandOf(0, { ttl: 10 })] });
    rig.enter("a", {
      evicted: () => {
        rig.load = 0;
        rig.enter("a2");
      },
    });
    rig.enter("b");
    rig.clock.advance(10);
    expect(rig.news()).toEqual(["a ttl_expired 10", "b Dispatched 10", "a2 goes on 10"]);
  });

  it("one that cancels others, and itself", () => {
    const rig = new FlowRig();
    const dispatched = (): void => {
      for (const id of ["a", "b", "d"]) rig.flow.cancel(rig.ticket(id));
    };
    rig.enter("a", { dispatched });
    rig.enterAll("b c d e");
    expect(rig.loadIs(0).news()).toEqual([
      ...["a Dispatched", "b context_cancelled", "d context_cancelled", "c Dispatched", "e Dispatched"],
    ]);
    expect(rig.counters).toEqual({ ...EMPTY, undecided: 3 });
  });

  it("one that ends itself makes room for the next", () => {
    const rig = new FlowRig();
    rig.perRequest = 1;
    for (const id of ["a", "b", "c"]) {
      const dispatched = (): void => {
        rig.flow.decided(rig.ticket(id));
        rig.flow.ended(rig.ticket(id), NO_USAGE);
      };
      rig.enter(id, { dispatched });
    }
    expect(rig.loadIs(0).news()).toEqual(["a Dispatched", "b Dispatched", "c Dispatched"]);
    expect(rig.counters).toEqual(EMPTY);
  });

  it("one that closes: what waits is refused once, and nothing more is dispatched", () => {
    const rig = new FlowRig();
    rig.enter("a", { dispatched: () => rig.flow.close() });
    rig.enterAll("b c");
    expect(rig.loadIs(0).news()).toEqual(["a Dispatched", "b shutting_down", "c shutting_down"]);
    expect([rig.counters, rig.clock.pending]).toEqual([{ ...EMPTY, undecided: 1 }, 0]);
  });

  it("one that closes while another request enters: that one is refused, and its waiter is not called", () => {
    const rig = new FlowRig();
    rig.enter("a", { dispatched: () => rig.flow.close() });
    rig.load = 0;
    rig.enter("b");
    expect(rig.news()).toEqual(["a Dispatched", "b refused shutting_down"]);
    expect(rig.left).toEqual(["a 0 1 Dispatched 0", "b 0 1 EvictedOther 0"]);
    expect(rig.counters).toEqual({ ...EMPTY, undecided: 1 });
  });

  it("one that closes while it is refused, or refuses others while flow control closes", () => {
    const rig = new FlowRig({ bands: [bandOf(0, { ttl: 10 })] });
    rig.enter("a", { evicted: () => rig.flow.close() });
    rig.enter("b", { evicted: () => rig.flow.cancel(rig.ticket("c")) });
    rig.enterAll("c d");
    rig.clock.advance(10);
    expect(rig.news()).toEqual([
      ...["a ttl_expired 10", "b shutting_down 10", "c context_cancelled 10", "d shutting_down 10"],
    ]);
    expect([rig.counters, rig.clock.pending]).toEqual([EMPTY, 0]);
  });

  it("one that sends another request while flow control closes: it is refused", () => {
    const rig = new FlowRig();
    rig.enter("a", { evicted: () => rig.enter("a2") });
    rig.enter("b");
    rig.flow.close();
    expect(rig.news()).toEqual(["a shutting_down", "a2 refused shutting_down", "b shutting_down"]);
  });

  it("one that puts another configuration in force: the rest leaves by the new one", () => {
    const rig = new FlowRig();
    const configure = (): void => rig.flow.configure(rig.settings({ bands: [bandOf(0, { ordering: "size" })] }));
    rig.enter("a", { dispatched: configure });
    for (const [id, bytes] of Object.entries({ b: 3, c: 1, d: 2 })) rig.enter(id, { bytes });
    expect(
      rig
        .loadIs(0)
        .news()
        .map((line) => line[0]),
    ).toEqual(["a", "c", "d", "b"]);
    expect(rig.counters).toEqual({ ...EMPTY, undecided: 4 });
  });

  it("one that empties the pool stops the dispatch, and the others get the time for an empty pool", () => {
    const rig = new FlowRig({ noEndpointTtl: 300, bands: [bandOf(0, { ttl: 100 })] });
    const dispatched = (): void => {
      rig.pool = [];
    };
    rig.enter("a", { dispatched });
    rig.enter("b");
    rig.clock.advance(50);
    rig.loadIs(0);
    rig.clock.advance(300);
    expect(rig.news()).toEqual(["a Dispatched 50", "b no_endpoints 350"]);
  });

  it("one that throws stops no other request, and is reported", () => {
    const rig = new FlowRig({ bands: [bandOf(0, { ttl: 10 })] });
    const fail = (): never => {
      throw new Error("broken");
    };
    rig.enter("a", { dispatched: fail });
    rig.enter("b");
    rig.load = 0;
    rig.enter("c");
    expect(rig.news()).toEqual(["a Dispatched", "b Dispatched", "c goes on"]);
    rig.load = 1;
    rig.enter("d", { evicted: fail });
    rig.enter("e");
    rig.clock.advance(10);
    expect(rig.news()).toEqual(["d ttl_expired 10", "e ttl_expired 10"]);
    rig.enter("f", { evicted: fail });
    rig.enter("g", { evicted: fail });
    rig.flow.close();
    expect(rig.news()).toEqual(["f shutting_down 10", "g shutting_down 10"]);
    expect(rig.failures).toEqual(range(4).map(() => "waiter: broken"));
  });
});

describe("policies that fail", () => {
  it("a detector that answers NaN counts as saturated", () => {
    const rig = new FlowRig();
    rig.enter("a");
    expect(rig.loadIs(Number.NaN).news()).toEqual([]);
    expect(rig.loadIs(0).news()).toEqual(["a Dispatched"]);
  });

  it("a detector that throws holds nothing back; who asks for the saturation gets the error", () => {
    const rig = new FlowRig();
    const saturation = (): never => {
      throw new Error("no view");
    };
    rig.flow.configure(rig.settings({}, { detector: { saturation } }));
    rig.enter("a");
    expect(rig.news()).toEqual(["a goes on"]);
    expect(() => rig.flow.saturation()).toThrow("no view");
    expect(rig.failures).toEqual(["saturation detector: no view"]);
  });

  it.each<[string, (ceilings: number[]) => void]>([
    ["throws", () => JSON.parse("{")],
    ["writes NaN", (ceilings) => ceilings.fill(Number.NaN)],
    ["throws when half is written", (ceilings) => JSON.parse(`{${ceilings.fill(0)}`)],
    ["writes no numbers", (ceilings) => void Object.assign(ceilings, { 0: undefined })],
    ["takes the list apart", (ceilings) => void ceilings.splice(0)],
    ["makes the list longer", (ceilings) => void ceilings.push(2)],
  ])("a usage limit that %s: every ceiling is 1 that time", (_how, limit) => {
    let isBroken = true;
    const usageLimit: UsageLimitPolicy = {
      limit: (_saturation, _priorities, ceilings) => (isBroken ? limit(ceilings) : void ceilings.fill(0.5)),
    };
    const rig = new FlowRig({}, { usageLimit });
    rig.load = 0.75;
    rig.enter("a");
    expect(rig.news()).toEqual(["a goes on"]);
    expect(rig.failures).toHaveLength(1);
    expect(rig.failures[0]).toMatch(/^usage limit policy: /);
    isBroken = false;
    rig.enter("b");
    expect([rig.news(), rig.failures.length]).toEqual([[], 1]);
  });

  it.each<[string, () => number]>([
    ["throws", () => JSON.parse("{")],
    ["answers NaN", () => Number.NaN],
    ["answers no number", () => "1" as never],
  ])("an ordering policy that %s: the request is last, and of these the oldest first", (_how, broken) => {
    const rank = ({ bytes }: { bytes: number }): number => (bytes === 9 ? broken() : bytes);
    const bands = new Map([[0, { ...bandSettingsOf(PLAIN_BAND), ordering: { rank } }]]);
    const rig = new FlowRig({}, { bands });
    for (const [id, bytes] of Object.entries({ a: 9, b: 9, c: 2, d: 1 })) rig.enter(id, { bytes });
    expect(
      rig
        .loadIs(0)
        .news()
        .map((line) => line[0]),
    ).toEqual(["d", "c", "a", "b"]);
  });

  const QUIET: FlowChoice = { joined() {}, left() {}, served() {}, next: () => undefined as never };
  const fail = (): never => {
    throw new Error("broken");
  };
  const someFlow: QueuedFlow = { fairnessId: "a", length: 1, head: undefined as never };

  it.each<[string, Partial<FlowChoice>]>([
    ["throws", { next: fail }],
    ["answers nothing", {}],
    ["answers what is no flow", { next: () => 7 as never }],
    ["answers a flow that it made", { next: () => someFlow }],
    ["throws always", { joined: fail, left: fail, served: fail, next: fail }],
  ])("a fairness policy that %s: all flows are served, and it is reported", (_how, broken) => {
    const fairness: FairnessPolicy = { choice: () => ({ ...QUIET, ...broken }) };
    const bands = new Map([[0, { ...bandSettingsOf(PLAIN_BAND), fairness }]]);
    const rig = new FlowRig({}, { bands });
    rig.enter("a1", { flow: "a" });
    rig.enter("b1", { flow: "b" });
    rig.enter("a2", { flow: "a" });
    rig.flow.cancel(rig.ticket("a2"));
    rig.enter("c1", { flow: "c" });
    expect(rig.loadIs(0).news()).toEqual([
      "a2 context_cancelled",
      ...["a1", "b1", "c1"].map((id) => `${id} Dispatched`),
    ]);
    expect(rig.failures.length).toBeGreaterThanOrEqual(1);
    expect(new Set(rig.failures.map((text) => text.split(":")[0]))).toEqual(new Set(["fairness policy"]));
    expect(rig.counters).toEqual({ ...EMPTY, undecided: 3 });
  });

  it.each<keyof FlowChoice>(["joined", "left", "served"])(
    "a fairness policy that loses track because %s fails: the flows take turns from then on, also those it knows nothing of",
    (broken) => {
      const known: QueuedFlow[] = [];
      let isBroken = false;
      const guard = (name: keyof FlowChoice): void => {
        if (isBroken && name === broken) fail();
      };
      const choice: FlowChoice = {
        joined(flow) {
          guard("joined");
          known.push(flow);
        },
        left(flow) {
          guard("left");
          known.splice(known.indexOf(flow), 1);
        },
        served: () => guard("served"),
        next: () => known[0]!,
      };
      const bands = new Map([[0, { ...bandSettingsOf(PLAIN_BAND), fairness: { choice: () => choice } }]]);
      const rig = new FlowRig({}, { bands });
      rig.enterAll("a1 a2 a3 a4", { flow: "a" });
      isBroken = true;
      rig.enterAll("b1", { flow: "b" });
      rig.flow.cancel(rig.ticket("b1"));
      rig.enterAll("c1 c2", { flow: "c" });
      rig.news();
      rig.perRequest = 0.4;
      rig.loadIs(0);
      for (const id of ["a1", "a2", "c1"]) if (rig.tickets.get(id)?.waiting === false) rig.flow.ended(rig.ticket(id));
      rig.loadIs(0);
      const order = rig.news().map((line) => line[0]);
      // The flow that the policy may not know is among the first three.
      expect(order.slice(0, 3)).toContain("c");
      expect(rig.failures.filter((text) => text.includes("broken"))).toHaveLength(1);
    },
  );

  it("a fairness policy that answers a flow of another band or one that has left: its own flows are served", () => {
    const flows: QueuedFlow[] = [];
    const joined = (flow: QueuedFlow): void => void flows.push(flow);
    const fairness: FairnessPolicy = { choice: () => ({ ...QUIET, joined, next: () => flows[0]! }) };
    const settings = { ...bandSettingsOf(PLAIN_BAND), fairness };
    const rig = new FlowRig({}, { bands: new Map([0, 5].map((priority) => [priority, settings])) });
    rig.enter("low", { flow: "a" });
    rig.enter("high", { flow: "b", priority: 5 });
    rig.enter("low2", { flow: "c" });
    expect(rig.loadIs(0).news()).toEqual(["high Dispatched", "low Dispatched", "low2 Dispatched"]);
    expect(rig.failures).toHaveLength(2);
  });

  it("a fairness policy that makes no choice: the band has one queue, also after a change of the configuration", () => {
    const rig = new FlowRig();
    rig.enterAll("a b");
    const bands = new Map([[0, { ...bandSettingsOf(PLAIN_BAND), fairness: { choice: fail } }]]);
    rig.flow.configure(rig.settings({}, { bands }));
    rig.enter("c");
    expect(rig.loadIs(0).news()).toEqual(["a Dispatched", "b Dispatched", "c Dispatched"]);
    expect(rig.failures).toEqual(["fairness policy: broken"]);
  });
});

describe("events", () => {
  it("each request enters and leaves exactly once, whatever its end", () => {
    const rig = new FlowRig({ maxRequests: 3, bands: [bandOf(0, { ttl: 10 })] });
    rig.enter("dispatched", { bytes: 1 });
    rig.loadIs(0).load = 1;
    rig.enter("cancelled", { bytes: 2 });
    rig.flow.cancel(rig.ticket("cancelled"));
    rig.enter("expired", { bytes: 3 });
    rig.clock.advance(10);
    for (const bytes of [4, 5, 6, 7]) rig.enter("closed", { bytes });
    rig.flow.close();
    rig.enter("late", { bytes: 8 });
    const entered = ["dispatched", "cancelled", "expired", "closed", "closed", "closed", "closed", "late"];
    expect(rig.entered).toEqual(entered.map((flow, i) => `${flow} 0 ${i + 1}`));
    expect(rig.left).toEqual([
      "dispatched 0 1 Dispatched 0",
      "cancelled 0 2 EvictedContextCancelled 0",
      "expired 0 3 EvictedTTL 10",
      "closed 0 7 RejectedCapacity 0",
      "closed 0 4 EvictedOther 0",
      "closed 0 5 EvictedOther 0",
      "closed 0 6 EvictedOther 0",
      "late 0 8 RejectedOther 0",
    ]);
    expect(rig.enqueued.length).toBe(8);
  });
});

describe("eviction of requests in flight (scheduling 6.9)", () => {
  /** A pool with a load for each request in flight, which sheddable ones fill. */
  function full(settings: Partial<FlowControlSettings> = {}): FlowRig {
    const rig = new FlowRig(
      { bands: [bandOf(10, {}), bandOf(-1, {}), bandOf(-2, {})] },
      { eviction: true, ...settings },
    );
    rig.load = 0;
    rig.perRequest = 0.25;
    for (const [id, priority] of [
      ["a", -1],
      ["b", -2],
      ["c", -2],
      ["d", -1],
    ] as const) {
      rig.enter(id, { priority });
      rig.flow.decided(rig.ticket(id));
      rig.running++;
    }
    rig.news();
    return rig;
  }
  /** The stream of a request ends. */
  function end(rig: FlowRig, id: string): void {
    rig.running--;
    rig.flow.ended(rig.ticket(id), NO_USAGE);
  }

  it("S-82: the newest of the lowest priority ends; no further one before it has ended and the figure shows it", () => {
    const rig = full();
    rig.enter("x", { priority: 10 });
    rig.enter("y", { priority: 10 });
    rig.clock.advance(0);
    expect(rig.news()).toEqual(["c revoked"]);
    expect(rig.flow.reclaim()).toEqual({ target: 0, pending: 0.25 });
    rig.clock.advance(9000);
    expect(rig.news()).toEqual([]);
    end(rig, "c");
    rig.clock.advance(0);
    expect(rig.news()).toEqual(["x Dispatched 9000"]);
    rig.flow.decided(rig.ticket("x"));
    rig.running++;
    rig.clock.advance(499);
    expect(rig.news()).toEqual([]);
    rig.clock.advance(1);
    expect(rig.news()).toEqual(["b revoked 9500"]);
    expect(rig.revocations).toEqual(["for 10", "confirmed 9000", "for 10"]);
  });

  it("revokes two at once at most, though more would have to end", () => {
    const rig = full();
    // The load is 4, so three would have to end.
    rig.perRequest = 1;
    rig.enter("x", { priority: 10 });
    rig.clock.advance(0);
    expect(rig.news()).toEqual(["c revoked", "b revoked"]);
    end(rig, "c");
    rig.clock.advance(1000);
    // The other one has not ended.
    expect(rig.news()).toEqual([]);
    end(rig, "b");
    rig.clock.advance(500);
    expect(rig.news()).toEqual(["d revoked 1500"]);
  });

  it("never for a band of the same or a lower priority, nor for one that nothing can open", () => {
    const rig = full();
    rig.enter("same", { priority: -2 });
    rig.clock.advance(100);
    expect(rig.news()).toEqual([]);
    rig.flow.configure(
      rig.settings({}, { eviction: true, usageLimit: { limit: (_s, _p, ceilings) => void ceilings.fill(0) } }),
    );
    rig.enter("x", { priority: 10 });
    rig.clock.advance(100);
    expect(rig.news()).toEqual([]);
  });

  it("not without the setting, not of priority 0, and not of a request that has ended", () => {
    const off = full({ eviction: false });
    off.enter("x", { priority: 10 });
    off.clock.advance(100);
    expect(off.news()).toEqual([]);
    const rig = full();
    for (const id of ["a", "b", "c", "d"]) end(rig, id);
    rig.enter("e");
    rig.flow.decided(rig.ticket("e"));
    rig.load = 1;
    rig.news();
    rig.enter("x", { priority: 10 });
    rig.clock.advance(100);
    expect(rig.news()).toEqual([]);
  });

  it("a revoked request that does not end counts as ended after 10 s", () => {
    const rig = full();
    rig.enter("x", { priority: 10 });
    rig.clock.advance(10_499);
    expect(rig.news()).toEqual([expect.stringMatching(/^c revoked/)]);
    expect(rig.revocations).toEqual(["for 10", "timed_out 10000"]);
    rig.clock.advance(21);
    expect(rig.news()).toEqual([expect.stringMatching(/^b revoked/)]);
    // The end of the first one comes too late to count.
    end(rig, "c");
    expect(rig.revocations).toEqual(["for 10", "timed_out 10000", "for 10"]);
  });

  it("a waiter that throws stops nothing, and no timer is left after a shutdown", () => {
    const rig = full();
    rig.perRequest = 0;
    rig.enter("z", {
      priority: -9,
      revoked: () => {
        throw new Error("cannot end");
      },
    });
    rig.flow.decided(rig.ticket("z"));
    rig.running++;
    rig.perRequest = 0.25;
    rig.enter("x", { priority: 10 });
    expect(rig.failures).toEqual(["waiter: cannot end"]);
    rig.flow.close();
    end(rig, "z");
    expect(rig.clock.pending).toBe(0);
  });
});

describe("flows that their policy holds back", () => {
  /** Turns that hold back one flow from a fill of 0.5 on. */
  const holding = (id: string): Partial<FlowControlSettings> => {
    const choice = (): FlowChoice => {
      const waiting: QueuedFlow[] = [];
      return {
        joined: (flow) => void waiting.push(flow),
        left: (flow) => void waiting.splice(waiting.indexOf(flow), 1),
        served() {},
        next: (_now, fill) => waiting.find((flow) => fill < 0.5 || flow.fairnessId !== id) ?? null,
        holds: (fairnessId, fill) => fill >= 0.5 && fairnessId === id,
      };
    };
    const band = { ...bandSettingsOf(PLAIN_BAND), fairness: { choice } };
    return { bands: new Map([[0, band]]), template: bandSettingsOf(PLAIN_BAND) };
  };

  it("wait while others of the band go on, queued or not, and go on when the fill falls", () => {
    const rig = new FlowRig({}, holding("noisy"));
    rig.load = 0.5;
    rig.enter("n1", { flow: "noisy" });
    rig.enter("q1", { flow: "quiet" });
    rig.enter("n2", { flow: "noisy" });
    expect(rig.news()).toEqual(["q1 goes on"]);
    expect(rig.counters).toMatchObject({ requests: 2 });
    expect(rig.loadIs(0.49).news()).toEqual(["n1 Dispatched", "n2 Dispatched"]);
  });

  it("do not stop lower bands", () => {
    const { bands, ...rest } = holding("noisy");
    const rig = new FlowRig({}, { ...rest, bands: new Map([...bands!, [-1, bandSettingsOf(PLAIN_BAND)]]) });
    rig.load = 1;
    rig.enter("n1", { flow: "noisy" });
    rig.enter("low", { priority: -1 });
    expect(rig.strange).toEqual([]);
    expect(rig.loadIs(0.5).news()).toEqual(["low Dispatched"]);
    expect(rig.failures).toEqual([]);
  });
});

describe("the rules of v1.5 (scheduling 6.10)", () => {
  const old = (plain: Partial<PlainSettings> = {}): FlowRig => new FlowRig(plain, { rules: FLOW_RULES["v1.5"] });

  it("a priority that nothing names gets a band of the template, until the band has been empty for 10 minutes", () => {
    const rig = old({ template: { ...PLAIN_BAND, maxRequests: 7 } });
    rig.enter("a", { priority: 3 });
    rig.enter("b", { priority: -3 });
    expect(rig.strange).toEqual([]);
    expect(rig.flow.loads().map(({ priority, requests }) => [priority, requests])).toEqual([
      [3, 1],
      [0, 0],
      [-3, 1],
    ]);
    expect(rig.flow.loads()[0]!.maxRequests).toBe(7);
    rig.loadIs(0);
    rig.clock.advance(1_200_000);
    expect(rig.flow.loads().map(({ priority }) => priority)).toEqual([0]);
  });

  it("with 1,024 bands further priorities wait in band 0 and are named", () => {
    const rig = old();
    for (let priority = 0; priority < 1030; priority++) rig.enter(`r${priority}`, { priority });
    expect(rig.flow.loads()).toHaveLength(1024);
    expect(rig.strange).toEqual([1024, 1025, 1026, 1027, 1028, 1029]);
    expect(rig.flow.loads().at(-1)).toMatchObject({ priority: 0, requests: 7 });
  });

  it("a full queue refuses the newcomer, and no queued request leaves for it", () => {
    const rig = old({ maxRequests: 2, bands: [bandOf(0, { fairness: "turns" })] });
    for (const id of ["a1", "a2", "b1"]) rig.enter(id, { flow: id[0]! });
    rig.enter("c1", { priority: 5, flow: "c" });
    expect(rig.news()).toEqual(["b1 refused saturated", "c1 refused saturated"]);
  });

  it("an empty pool changes neither the time to live nor the outcomes, and a wait that is over is answered with 503", () => {
    const rig = old({ noEndpointTtl: 9000, template: { ...PLAIN_BAND, ttl: 100, maxRequests: 1 } });
    rig.enter("a");
    rig.clock.advance(50);
    rig.poolIs();
    rig.enter("b");
    rig.clock.advance(49);
    expect(rig.news()).toEqual(["b refused saturated 50"]);
    rig.clock.advance(1);
    expect(rig.news()).toEqual(["a queue_timeout 100"]);
    expect(rig.left.at(-1)).toBe("a 0 1 EvictedTTL 100");
  });

  it("roles make no stages", () => {
    const rig = old();
    rig.pool = [endpointOf(0, { labels: { "llm-d.ai/role": "prefill" } })];
    expect(rig.flow.saturation()).toEqual({ prefill: undefined, decode: undefined, effective: 1 });
  });

  it("a new configuration may bring other rules while requests wait", () => {
    const rig = old({ template: { ...PLAIN_BAND, ttl: 100 } });
    rig.enter("a");
    rig.enter("b", { priority: 3 });
    rig.clock.advance(40);
    rig.poolIs();
    rig.flow.configure(rig.settings({ noEndpointTtl: 1000, template: { ...PLAIN_BAND, ttl: 100 } }));
    expect(rig.flow.loads().map(({ priority, requests }) => [priority, requests])).toEqual([[0, 2]]);
    rig.clock.advance(999);
    expect(rig.news()).toEqual([]);
    rig.clock.advance(1);
    expect(rig.news()).toEqual(["a no_endpoints 1040", "b no_endpoints 1040"]);
  });
});
