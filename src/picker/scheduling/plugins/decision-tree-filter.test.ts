import { describe, expect, it } from "vitest";
import {
  columnsOf,
  decisionContextOf,
  endpointOf,
  instanceOf,
  requestOf,
  unscraped,
} from "../../../../test/support/scheduling/fakes.cases.ts";
import { SeededRandom } from "../../../base/clock/random.ts";
import type { Endpoint, EndpointMetrics } from "../../../base/inference/endpoint.ts";
import type { InferenceRequest } from "../../../base/inference/request.ts";
import { decisionTreeFilter } from "./decision-tree-filter.ts";

const CRITICAL = requestOf("p", { priority: 1, targetModel: "food" });
const STANDARD = requestOf("p", { priority: 0, targetModel: "food" });

function treeWith(parameters: object = {}, random = new SeededRandom(1)) {
  const filter = instanceOf(decisionTreeFilter, parameters, { random });
  /** The slots of the endpoints that are kept. */
  return (request: InferenceRequest, endpoints: readonly Endpoint[], now = 0): number[] => {
    const candidates = columnsOf(endpoints, [], now);
    const keep = new Uint8Array(candidates.room).fill(1);
    filter.filter({ ...decisionContextOf(candidates, request), keep, random });
    return endpoints.flatMap(({ slot }, i) => (keep[i] === 0 ? [] : [slot]));
  };
}

const pods = (...metrics: readonly Partial<EndpointMetrics>[]): Endpoint[] =>
  metrics.map((each, slot) => endpointOf(slot, { metrics: each }));
const waiting = (...values: readonly number[]): Endpoint[] => pods(...values.map((value) => ({ waiting: value })));
const loaded = (...names: readonly string[]): Partial<EndpointMetrics> => ({ maxLora: 4, loraRunning: new Set(names) });

/** One pod as v0.3 kept it (scheduling 1.3): zeros before the first scrape, adapters that wait among the active ones. */
interface Pod {
  readonly slot: number;
  readonly waiting: number;
  readonly kv: number;
  readonly active: ReadonlySet<string>;
  readonly maxActive: number;
}

type Rule = (pods: readonly Pod[]) => readonly Pod[];

/** scheduling 2.2: a filter and its successors. */
interface Node {
  readonly filter: Rule;
  readonly success?: Node;
  readonly failure?: Node;
  readonly either?: Node;
}

function walk(node: Node, input: readonly Pod[]): readonly Pod[] {
  const filtered = node.filter(input);
  const succeeded = filtered.length > 0;
  const next = node.either ?? (succeeded ? node.success : node.failure);
  if (next === undefined) return filtered;
  return walk(next, succeeded ? filtered : input);
}

const leastQueue: Rule = (input) => {
  const low = Math.min(...input.map((pod) => pod.waiting));
  const high = Math.max(0, ...input.map((pod) => pod.waiting));
  // Go divides integers.
  const width = Number(BigInt(high - low) / BigInt(input.length));
  return input.filter((pod) => low <= pod.waiting && pod.waiting <= low + width);
};

const leastKv: Rule = (input) => {
  const low = Math.min(...input.map((pod) => pod.kv));
  const high = Math.max(0, ...input.map((pod) => pod.kv));
  return input.filter((pod) => low <= pod.kv && pod.kv <= low + (high - low) / input.length);
};

/** The tables of scheduling 2.3, node by node. */
function literalTree(request: InferenceRequest, random: SeededRandom): Node {
  const loraAffinity: Rule = (input) => {
    const having = input.filter((pod) => pod.active.has(request.targetModel));
    const room = input.filter((pod) => !having.includes(pod) && pod.active.size < pod.maxActive);
    if (having.length > 0 && room.length > 0) return random.next() < 0.999 ? having : room;
    return having.length > 0 ? having : room;
  };
  const kv: Node = { filter: leastKv };
  const queueThenKv: Node = { filter: leastQueue, either: kv };
  const loraThenKv: Node = { filter: loraAffinity, either: kv };
  return {
    filter: (input) => (request.priority > 0 ? input : []),
    success: {
      filter: (input) => input.filter((pod) => pod.waiting < 128),
      success: { filter: loraAffinity, either: queueThenKv },
      failure: { filter: leastQueue, either: loraThenKv },
    },
    failure: {
      filter: (input) => input.filter((pod) => pod.waiting <= 5 && pod.kv <= 0.8),
      success: { filter: leastQueue, either: loraThenKv },
      failure: { filter: () => [] },
    },
  };
}

function podOf({ slot, metrics }: Endpoint): Pod {
  return {
    slot,
    waiting: metrics.waiting || 0,
    kv: metrics.kvUsage || 0,
    active: new Set([...metrics.loraRunning, ...metrics.loraWaiting]),
    maxActive: metrics.maxLora || 0,
  };
}

describe("decision-tree-filter", () => {
  it("keeps what the tables of scheduling 2.3 keep, on 10,000 pools", () => {
    const draw = new SeededRandom(7);
    const among = <T>(values: readonly T[]): T => values[draw.below(values.length)]!;
    const names = (): Set<string> => new Set(["food", "sql", "chat"].filter(() => draw.next() < 0.3));
    let dropped = 0;
    let both = 0;
    for (let round = 0; round < 10_000; round++) {
      const queues = among([
        [0, 1, 2, 3, 4, 5, 6],
        [0, 3, 10, 40],
        [127, 128, 129, 140],
        [0, 5, 6, 127, 128],
      ]);
      const withLora = draw.next() < 0.7;
      const pool = Array.from({ length: 1 + draw.below(20) }, (_, slot) => {
        if (draw.next() < 0.05) return unscraped(slot);
        const kvUsage = among([0, 0.5, 0.79, 0.8, 0.81, 1, Math.fround(draw.next())]);
        const lora = withLora
          ? { maxLora: among([Number.NaN, 0, 1, 2, 4]), loraRunning: names(), loraWaiting: names() }
          : {};
        return endpointOf(slot, { metrics: { waiting: among(queues), kvUsage, ...lora } });
      });
      const request = requestOf("p", { priority: among([-1, 0, 1, 10]), targetModel: among(["food", "sql", "base"]) });
      const seed = draw.below(2 ** 32);
      const slow = new SeededRandom(seed);
      const expected = walk(literalTree(request, slow), pool.map(podOf));
      const fast = new SeededRandom(seed);
      expect(treeWith({}, fast)(request, pool)).toEqual(expected.map(({ slot }) => slot));
      // Chance is drawn where the tree draws it and nowhere else.
      expect(fast.state).toBe(slow.state);
      if (expected.length === 0) dropped++;
      if (slow.state !== seed) both++;
    }
    expect(dropped).toBeGreaterThan(500);
    expect(both).toBeGreaterThan(500);
  });

  it("S-20: of a critical request takes queues of 127 for short ones and those of 128 not", () => {
    const short = pods({ waiting: 127, kvUsage: 0.5 }, { waiting: 128, kvUsage: 0 });
    expect(treeWith()(CRITICAL, short)).toEqual([0]);
    // All long: the shortest queue first, then the adapter, which 3 has and the queue rules out, then the KV cache.
    const long = pods(
      { waiting: 128, kvUsage: 0.9, ...loaded() },
      { waiting: 128, kvUsage: 0.1, ...loaded("food") },
      { waiting: 128, kvUsage: 0.3, ...loaded("food") },
      { waiting: 500, kvUsage: 0, ...loaded("food") },
    );
    expect(treeWith({ loraAffinityThreshold: 1 })(CRITICAL, long)).toEqual([1]);
    // With a short one among them the adapter comes before the queue.
    const affine = pods(
      { waiting: 0, maxLora: 0 },
      { waiting: 100, ...loaded("food") },
      { waiting: 128, ...loaded("food") },
    );
    expect(treeWith()(CRITICAL, affine)).toEqual([1]);
  });

  it("S-21: of any other takes 5 waiting and a KV cache of 0.8 (scheduling 2.3(1), 2.3(3))", () => {
    for (const priority of [0, -1]) {
      const request = requestOf("p", { priority });
      expect(treeWith()(request, pods({ waiting: 5, kvUsage: 0.8 }))).toEqual([0]);
      expect(treeWith()(request, pods({ waiting: 6, kvUsage: 0 }, { waiting: 0, kvUsage: 0.81 }))).toEqual([]);
    }
  });

  it("never drops a critical request (scheduling 2.3(2))", () => {
    expect(treeWith()(CRITICAL, pods({ waiting: 1e6, kvUsage: 1 }))).toEqual([0]);
  });

  it("S-22: divides the range of queues in whole numbers, that of KV caches not", () => {
    expect(treeWith()(CRITICAL, waiting(0, 3, 10))).toEqual([0, 1]);
    expect(treeWith()(CRITICAL, waiting(0, 4, 10))).toEqual([0]);
    // floor(2 / 3) = 0
    expect(treeWith()(CRITICAL, waiting(1, 2, 3))).toEqual([0]);
    expect(treeWith()(CRITICAL, pods({ kvUsage: 0.1 }, { kvUsage: 0.39 }, { kvUsage: 0.41 }, { kvUsage: 1 }))).toEqual([
      0,
    ]);
    expect(treeWith()(CRITICAL, pods({ kvUsage: 0.1 }, { kvUsage: 0.325 }, { kvUsage: 0.41 }, { kvUsage: 1 }))).toEqual(
      [0, 1],
    );
  });

  it("S-23: leaves the endpoint with the adapter for one with room once in a thousand", () => {
    const tree = treeWith({}, new SeededRandom(3));
    const pool = pods({ ...loaded("food"), kvUsage: 0.5 }, { ...loaded("sql"), kvUsage: 0.1 });
    let left = 0;
    for (let i = 0; i < 100_000; i++) if (tree(CRITICAL, pool)[0] === 1) left++;
    expect(left).toBeGreaterThan(60);
    expect(left).toBeLessThan(140);
    for (const [loraAffinityThreshold, kept] of [
      [1, 0],
      [0, 1],
    ] as const)
      expect(treeWith({ loraAffinityThreshold })(CRITICAL, pool)).toEqual([kept]);
  });

  it("S-24: hands everybody on where no queue is short", () => {
    expect(treeWith()(CRITICAL, waiting(128, 300, 128))).toEqual([0, 2]);
  });

  it("S-14: counts adapters that wait as active, both for having and for room", () => {
    const waits = { maxLora: 2, loraRunning: new Set(["sql"]), loraWaiting: new Set(["food"]) };
    const full = { maxLora: 2, loraRunning: new Set(["sql"]), loraWaiting: new Set(["chat", "sql"]) };
    expect(treeWith()(CRITICAL, pods(full, waits))).toEqual([1]);
    expect(
      treeWith()(requestOf("p", { priority: 1, targetModel: "new" }), pods(full, { ...full, maxLora: 3 })),
    ).toEqual([1]);
  });

  it("does not mind how old figures are, and takes an endpoint never scraped for an idle one (scheduling 2.3(4))", () => {
    const pool = [endpointOf(0, { metrics: { waiting: 3, kvUsage: 0.3 } }), endpointOf(1, { metrics: { waiting: 2 } })];
    expect(treeWith()(STANDARD, pool, 3_600_000)).toEqual([1]);
    expect(treeWith()(STANDARD, [...pool, unscraped(2)])).toEqual([2]);
    // A queue nobody knows is none either: not the worst one known, as elsewhere.
    expect(treeWith()(STANDARD, [pool[0]!, endpointOf(1, { metrics: { waiting: Number.NaN } })])).toEqual([1]);
  });

  it("passes all candidates on if no endpoint reports adapters (scheduling 2.3(6))", () => {
    expect(treeWith()(CRITICAL, waiting(0, 0, 0))).toEqual([0, 1, 2]);
    const noRoom = pods({ waiting: 0, maxLora: Number.NaN }, { waiting: 0, ...loaded("sql"), maxLora: 1 });
    expect(treeWith()(CRITICAL, noRoom)).toEqual([0, 1]);
  });

  it("uses the thresholds it is given", () => {
    const tree = treeWith({ queueThresholdCritical: 0, kvCacheThreshold: 0.1, queuingThresholdLoRA: 2 });
    expect(tree(STANDARD, pods({ waiting: 1 }, { kvUsage: 0.11 }, { kvUsage: 0.1 }))).toEqual([2]);
    expect(tree(CRITICAL, pods({ waiting: 2, ...loaded("food") }, { waiting: 1, ...loaded() }))).toEqual([1]);
  });

  it("serves pools of any size, one after the other", () => {
    const tree = treeWith();
    for (const size of [1, 17, 3, 1000]) {
      const pool = waiting(...Array.from({ length: size }, (_, i) => (i === size - 1 ? 0 : 100)));
      expect(tree(CRITICAL, pool)).toEqual([size - 1]);
    }
  });

  it("refuses parameters that make no sense", () => {
    for (const wrong of [
      { kvCacheThreshold: -0.1 },
      { queueThresholdCritical: 1.5 },
      { loraAffinityThreshold: 2 },
      { queue: 1 },
    ])
      expect(decisionTreeFilter.parameters.safeParse(wrong).success).toBe(false);
  });
});
