import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { parseDocument } from "../../base/document/parse.ts";
import { loadConfig } from "../../picker/config/load.ts";
import { PLUGIN_REGISTRY } from "../../picker/core/plugins/plugins.ts";
import { type ModelEngine, NO_COUNTS } from "../simulator/model-engine.ts";
import { Sequence, type SequenceListener } from "../simulator/sequence.ts";
import { SimCluster, type SimClusterOptions } from "./cluster.ts";
import { POLICIES } from "./policies.ts";
import { simRequest } from "./run.ts";

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
    engines[1]!.listeners[0]!.onFinish!(undefined as never);
    expect(placed()).toBe(1);
    engines[2]!.listeners[0]!.onReject!(undefined as never, "queue-full");
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
    engine.listeners[0]!.onFinish!(undefined as never);
    clock.advance(0);
    expect(events.slice(2)).toEqual(["a finished", "e placed"]);
    engine.listeners[1]!.onFinish!(undefined as never);
    clock.advance(0);
    expect(events.slice(4)).toEqual(["b finished", "c placed"]);
    clock.advance(10_000);
    expect(events.slice(6).toSorted()).toEqual(["d rejected", "f rejected"]);
    cluster.close();
    expect(clock.pending).toBe(0);
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
