import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { parseDocument } from "../../base/document/parse.ts";
import { loadConfig } from "../../picker/config/load.ts";
import { PLUGIN_REGISTRY } from "../../picker/core/plugins/plugins.ts";
import { BatchingEngine } from "../simulator/batching/batching-engine.ts";
import { PRESETS } from "../simulator/batching/config.ts";
import { type ModelEngine, NO_COUNTS } from "../simulator/model-engine.ts";
import { Sequence, type SequenceListener } from "../simulator/sequence.ts";
import { SimCluster, type SimClusterOptions } from "./cluster.ts";
import { POLICIES } from "./policies.ts";
import { simRequest } from "./run.ts";

const DONE = new Sequence(1, { prompt: 10 }, {}, 0, new Uint32Array(0), 0);

/** An engine that does nothing by itself and says that so many wait. */
class StillEngine implements ModelEngine {
  readonly running = 0;
  readonly counters = NO_COUNTS;
  readonly listeners: SequenceListener[] = [];
  waiting = 0;
  readAt: number[] = [];
  readonly #clock: VirtualClock;

  constructor(clock: VirtualClock) {
    this.#clock = clock;
  }

  snapshotMetrics() {
    this.readAt.push(this.#clock.now());
    return {
      ...{ waiting: this.waiting, running: 0, kvUsage: 0, maxLora: 1, loraRunning: new Set<string>() },
      ...{ loraWaiting: new Set<string>(), blockSize: 16, blocks: 1000, scrapedAt: this.#clock.now() },
    };
  }

  submit(spec: { prompt: Uint32Array | number }, listener: SequenceListener): Sequence {
    this.listeners.push(listener);
    return new Sequence(1, spec, listener, 0, new Uint32Array(0), this.#clock.now());
  }

  abort(sequence: Sequence): void {
    sequence.listener.onAbort?.(sequence);
  }
}

function setUp(policy: string, servers: number, options: Partial<SimClusterOptions> = {}) {
  const clock = new VirtualClock();
  const engines = Array.from({ length: servers }, () => new StillEngine(clock));
  const { configText } = POLICIES.find(({ name }) => name === policy)!.source!;
  const document = configText === undefined ? undefined : parseDocument(configText, { file: policy });
  const config = loadConfig(document, PLUGIN_REGISTRY);
  const cluster = new SimCluster({ engines, config, clock, random: new SeededRandom(1), ...options });
  cluster.scrape(() => true);
  /** Where the next request goes. */
  const placed = (): number => {
    let at = -1;
    const listener = { placed: (server: number) => (at = server), finished() {}, rejected() {} };
    cluster.submit(simRequest("r"), { prompt: 10 }, listener);
    return at;
  };
  const several = (count: number): readonly number[] => Array.from({ length: count }, placed);
  return { clock, engines, placed, several };
}

describe("what the scheduler knows of simulated servers", () => {
  it("is what each said at the last scrape, all known from the start, each read in a phase of its own", () => {
    const { clock, engines } = setUp("scraped-queue", 4);
    clock.advance(140);
    expect(engines.map(({ readAt }) => readAt)).toEqual([
      [0, 12.5, 62.5, 112.5],
      [0, 25, 75, 125],
      [0, 37.5, 87.5, 137.5],
      [0, 50, 100],
    ]);
  });

  it("is not what has happened since the last scrape", () => {
    const { clock, engines, several } = setUp("scraped-queue", 2, { scrapeIntervalMs: 1000 });
    clock.advance(10);
    engines[0]!.waiting = 5;
    clock.advance(480);
    expect(new Set(several(20))).toEqual(new Set([0, 1]));
    clock.advance(20);
    expect(new Set(several(20))).toEqual(new Set([1]));
  });

  it("comes as much later as it is to lag", () => {
    const { clock, engines, several } = setUp("scraped-queue", 2, { metricsLagMs: 5000 });
    clock.advance(6000);
    engines[0]!.waiting = 5;
    clock.advance(4990);
    expect(new Set(several(20))).toEqual(new Set([0, 1]));
    clock.advance(100);
    expect(new Set(several(20))).toEqual(new Set([1]));
  });

  it("is what is in flight at once, from the decision to the end of the answer, refused ones not", () => {
    const { engines, placed, several } = setUp("least-active", 3, { metrics: false });
    expect([...several(3)].sort()).toEqual([0, 1, 2]);
    engines[1]!.listeners[0]!.onFinish!(DONE);
    expect(placed()).toBe(1);
    engines[2]!.listeners[0]!.onReject!(DONE, "queue-full");
    expect(placed()).toBe(2);
    expect([...several(3)].sort()).toEqual([0, 1, 2]);
  });

  it("is told apart for 512 servers", () => {
    const { several } = setUp("least-active", 512);
    expect(new Set(several(512)).size).toBe(512);
  });
});

describe("a simulated cluster with flow control", () => {
  const QUEUES = `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
featureGates: [flowControl]
plugins:
- {type: concurrency-detector, parameters: {maxConcurrency: 2}}
- type: random-picker
schedulingProfiles:
- {name: default, plugins: [{pluginRef: random-picker}]}
flowControl:
  defaultRequestTTL: 10s
  saturationDetector: {pluginRef: concurrency-detector}
`;

  it("holds requests until a server has room, serves the higher priority first, and refuses what expires", () => {
    const clock = new VirtualClock();
    const engine = new StillEngine(clock);
    const config = loadConfig(parseDocument(QUEUES, { file: "queues" }), PLUGIN_REGISTRY);
    const cluster = new SimCluster({ engines: [engine], config, clock, random: new SeededRandom(1) });
    const events: string[] = [];
    const send = (id: string, priority = 0): void =>
      cluster.submit(
        { ...simRequest(id), priority },
        { prompt: 10 },
        {
          placed: () => events.push(`${id} placed`),
          finished: () => events.push(`${id} finished`),
          rejected: () => events.push(`${id} rejected`),
        },
      );
    for (const id of ["a", "b", "c", "d"]) send(id);
    send("e", 1);
    send("f", -1);
    expect(events).toEqual(["a placed", "b placed"]);
    engine.listeners[0]!.onFinish!(DONE);
    clock.advance(0);
    expect(events.slice(2)).toEqual(["a finished", "e placed"]);
    engine.listeners[1]!.onFinish!(DONE);
    clock.advance(0);
    expect(events.slice(4)).toEqual(["b finished", "c placed"]);
    clock.advance(10_000);
    expect(events.slice(6).toSorted()).toEqual(["d rejected", "f rejected"]);
    cluster.close();
    expect(clock.pending).toBe(0);
  });

  it("refuses nothing while the pool is empty, and serves what waited as soon as servers come", () => {
    const clock = new VirtualClock();
    const config = loadConfig(parseDocument(QUEUES, { file: "queues" }), PLUGIN_REGISTRY);
    const engines = [new StillEngine(clock)];
    const cluster = new SimCluster({ engines, config, clock, random: new SeededRandom(1), serversAfterMs: 5000 });
    cluster.scrape(() => clock.now() < 6000);
    const waits: (number | undefined)[] = [];
    const listener = { placed: (_: number, waited?: number) => waits.push(waited), finished() {}, rejected() {} };
    cluster.submit(simRequest("a"), { prompt: 10 }, listener);
    clock.advance(4999);
    expect([waits, engines[0]!.readAt]).toEqual([[], []]);
    clock.advance(1);
    expect(waits).toEqual([5000]);
    cluster.close();
  });

  it("says why it refuses, and what work was lost with an evicted request", () => {
    const clock = new VirtualClock();
    const text = QUEUES.replace("defaultRequestTTL", "enableEviction: true\n  defaultRequestTTL");
    const config = loadConfig(parseDocument(text, { file: "queues" }), PLUGIN_REGISTRY);
    const engine = new BatchingEngine({ config: PRESETS[0]!.config, clock, random: new SeededRandom(1) });
    const cluster = new SimCluster({ engines: [engine], config, clock, random: new SeededRandom(1) });
    const ends: string[] = [];
    const send = (id: string, priority: number): void =>
      cluster.submit(
        { ...simRequest(id), priority },
        { prompt: 100, outputTokens: 50 },
        {
          finished: (work) => ends.push(`${id} finished ${work}`),
          rejected: (reason, work) => ends.push(`${id} ${reason} ${work}`),
        },
      );
    send("a", -1);
    send("b", -1);
    clock.advance(100);
    send("c", 0);
    clock.advance(0);
    expect(ends).toHaveLength(1);
    const [, reason, work] = ends[0]!.split(" ");
    expect(reason).toBe("evicted");
    // The prompt, and the tokens of 100 ms.
    expect(Number(work)).toBeGreaterThan(100);
    expect(Number(work)).toBeLessThan(150);
    clock.advance(5000);
    expect(ends.toSorted()).toEqual(["a finished 150", ends[0], "c finished 150"]);
    cluster.close();
  });

  it("has one server compute the prompt and another one generate, where servers have roles", () => {
    const clock = new VirtualClock();
    const { disaggregated } = POLICIES.find(({ name }) => name === "flow-control")!;
    const config = loadConfig(parseDocument(disaggregated!.configText!, { file: "roles" }), PLUGIN_REGISTRY);
    const engines = [1, 2].map(
      (seed) => new BatchingEngine({ config: PRESETS[0]!.config, clock, random: new SeededRandom(seed) }),
    );
    const roles = ["prefill", "decode"];
    const cluster = new SimCluster({ engines, config, clock, random: new SeededRandom(1), roles });
    cluster.scrape(() => clock.now() < 5000);
    const events: string[] = [];
    cluster.submit(
      { ...simRequest("a"), body: new Uint8Array(4000), prompts: [[{ start: 0, end: 4000 }]] },
      { prompt: 1000, outputTokens: 20 },
      {
        placed: (server) => events.push(`server ${server}`),
        started: () => events.push("started"),
        finished: (work) => events.push(`finished ${work}`),
        rejected: (reason) => events.push(reason),
      },
    );
    clock.advance(4000);
    expect(events.slice(0, 2)).toEqual(["server 1", "started"]);
    expect(engines.map(({ counters }) => [counters.promptTokens, counters.generationTokens])).toEqual([
      [1000, 1],
      [0, 20],
    ]);
    // The prompt and a token at the one; at the other the last token of the prompt again, and the answer.
    expect(events[2]).toBe("finished 1022");
    clock.advance(2000);
    expect(engines.map(({ running, waiting }) => running + waiting)).toEqual([0, 0]);
    cluster.close();
  });

  it("ends a sheddable request for one of higher priority, and counts it as rejected", () => {
    const clock = new VirtualClock();
    const text = QUEUES.replace("defaultRequestTTL", "enableEviction: true\n  defaultRequestTTL");
    const config = loadConfig(parseDocument(text, { file: "queues" }), PLUGIN_REGISTRY);
    const engines = [new StillEngine(clock)];
    const cluster = new SimCluster({ engines, config, clock, random: new SeededRandom(1) });
    const events: string[] = [];
    for (const [id, priority] of [
      ["a", -1],
      ["b", -1],
      ["c", 0],
    ] as const)
      cluster.submit(
        { ...simRequest(id), priority },
        { prompt: 10 },
        {
          placed: () => events.push(`${id} placed`),
          finished: () => events.push(`${id} finished`),
          rejected: () => events.push(`${id} rejected`),
        },
      );
    clock.advance(0);
    expect(events).toEqual(["a placed", "b placed", "b rejected", "c placed"]);
    cluster.close();
  });
});
