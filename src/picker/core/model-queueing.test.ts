import { describe, expect, it } from "vitest";
import { samplesOf } from "../../../test/support/core.ts";
import { madeModel, madeObjective, madePool } from "../../../test/support/resources/made.cases.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { parseDocument } from "../../base/document/parse.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import { render } from "../../base/telemetry/exposition.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import type { PoolEndpoint } from "../../pool/endpoints/pool-endpoint.ts";
import { modelsIn, type ServedModels } from "../../pool/endpoints/served-models.ts";
import { objectivesFromFlags } from "../../pool/resources/objectives.ts";
import { GROUP, type InferenceModel } from "../../pool/resources/objects.ts";
import type { ModelMatching } from "../../pool/resources/resolve.ts";
import { ResourceStore } from "../../pool/resources/resource-store.ts";
import type { EffectiveConfig } from "../config/effective.ts";
import { loadConfig } from "../config/load.ts";
import type { Decision } from "../exchange/wire.ts";
import { InferenceCore } from "./inference-core.ts";
import { PLUGIN_REGISTRY } from "./plugins/plugins.ts";

/** Requests that the one model server serves at a time. */
const SLOTS = 4;
/** Virtual milliseconds of service for one token. */
const MS_PER_TOKEN = 1;

function configOf(gates = "", plugins = ""): EffectiveConfig {
  const text = `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
${gates === "" ? "" : `featureGates: [${gates}]\n`}plugins:
- {type: queue-scorer}
- {name: slots, type: concurrency-detector, parameters: {maxConcurrency: ${SLOTS}}}
${plugins}schedulingProfiles: [{name: default, plugins: [{pluginRef: queue-scorer}]}]
flowControl: {saturationDetector: {pluginRef: slots}}
`;
  return loadConfig(parseDocument(text, { file: "c.yaml" }), PLUGIN_REGISTRY);
}

/** Flow control that a configuration asks for. */
const ASKED = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nfeatureGates: [flowControl]\n";

interface Options {
  readonly config?: EffectiveConfig;
  readonly models?: readonly InferenceModel[];
  readonly matching?: ModelMatching;
  readonly group?: string;
  readonly legacyCriticality?: boolean;
}

/** A core with one model server, and the API objects that a test changes. */
class Rig {
  readonly clock = new VirtualClock();
  readonly store = new ResourceStore();
  readonly core: InferenceCore;
  readonly log: string[] = [];
  /** Tokens served by fairness ID, while a run counts. */
  readonly served = new Map<string, number>();
  readonly outcomes: string[] = [];

  constructor({
    config = configOf(),
    models = [],
    matching,
    group = GROUP.experimental,
    legacyCriticality,
  }: Options = {}) {
    this.store.put(madePool("pool", { group }));
    for (const model of models) this.store.put(model);
    const line =
      (level: string) =>
      (_fields: unknown, text: unknown): void =>
        void this.log.push(`${level}: ${text}`);
    const log = {
      info: line("info"),
      warn: line("warn"),
      error: line("error"),
      debug() {},
      child: () => log,
    } as unknown as Logger;
    this.core = new InferenceCore({
      ...{ clock: this.clock, random: new SeededRandom(1), config, log },
      models: { objectives: objectivesFromFlags([]), resources: this.store, matching, legacyCriticality },
      ...{ staleness: 2000, ignoreSubset: false, learnsBytesPerToken: false },
    });
    this.core.endpoints.upsert({ namespace: "n", name: "e", address: "127.0.0.1", port: 1, rank: 0, labels: {} });
  }

  /** Sends a request of `prompt` and `answer` tokens; the server takes its time for them. */
  send(model: string, { prompt = 5, answer = 5, headers = [] as readonly (readonly [string, string])[] } = {}): void {
    const exchange = this.core.openExchange({ pauseRequest() {}, resumeRequest() {}, evict() {} });
    exchange.requestHeaders(HeaderList.of([[":path", "/v1/completions"], ...headers]), false);
    const body = JSON.stringify({ model, prompt: "x".repeat(4 * prompt) });
    const decision = exchange.requestBody(Buffer.from(body), true) as Decision | Promise<Decision>;
    const serve = (decided: Decision): void => {
      if (decided instanceof Rejection) {
        this.outcomes.push(`${model} ${decided.status}`);
        exchange.end("rejected");
        return;
      }
      this.outcomes.push(`${model} routed`);
      const end = (): void => {
        const usage = { prompt_tokens: prompt, completion_tokens: answer, total_tokens: prompt + answer };
        exchange.responseHeaders(200, HeaderList.of([["content-type", "application/json"]]), false);
        exchange.responseBody(Buffer.from(JSON.stringify({ usage })), true);
        this.served.set(model, (this.served.get(model) ?? 0) + prompt + answer);
      };
      this.clock.after((prompt + answer) * MS_PER_TOKEN, end);
    };
    if (decision instanceof Promise) void decision.then(serve);
    else serve(decision);
  }

  async advance(ms: number): Promise<void> {
    this.clock.advance(ms);
    for (let i = 0; i < 8; i++) await null;
  }

  /** Fills the model server, and lets `count` further requests of a model come. */
  fill(model: string, count = 0): void {
    for (let i = 0; i < SLOTS + count; i++) this.send(model, { answer: 1000 });
  }

  get waiting(): number | undefined {
    return this.core.queues()?.requests;
  }

  get priorities(): readonly number[] | undefined {
    return this.core.queues()?.bands.map(({ priority }) => priority);
  }
}

const standard = (name: string, weight?: number): InferenceModel => ({
  ...madeModel(name, name, { criticality: "Standard" }),
  ...(weight === undefined ? {} : { fairnessWeight: weight }),
});

/** What tells how equal shares are: 1 = equal, 1/n = one has all (Jain, Chiu, Hawe: DEC-TR-301, 1984). */
function jain(shares: readonly number[]): number {
  const sum = shares.reduce((a, b) => a + b, 0);
  return sum ** 2 / (shares.length * shares.reduce((a, b) => a + b * b, 0));
}

/** 30 virtual seconds: `busy` sends ten times as many requests as `calm`, each asks for more than half of the server. */
async function longRun(rig: Rig): Promise<{ readonly busy: number; readonly calm: number }> {
  for (let at = 0; at < 3000; at++) {
    rig.send("busy", { prompt: 20, answer: 20 });
    if (at % 10 === 0) rig.send("calm", { prompt: 100, answer: 300 });
    // The first second fills the queues.
    if (at === 100) rig.served.clear();
    await rig.advance(10);
  }
  expect(rig.outcomes.filter((outcome) => !outcome.endsWith("routed"))).toEqual([]);
  return { busy: rig.served.get("busy")!, calm: rig.served.get("calm")! };
}

describe("InferenceModels without a feature gate (decisions: model fairness)", () => {
  it("share tokens fairly, whatever the number and the length of their requests (api-resources 2)", async () => {
    const { busy, calm } = await longRun(new Rig({ models: [standard("busy"), standard("calm")] }));
    expect(busy + calm).toBeGreaterThan(100_000);
    expect(jain([busy, calm])).toBeGreaterThanOrEqual(0.98);
    expect(calm / busy).toBeCloseTo(1, 1);
  });

  it("share by the weights that they state, and weights of the policy win", async () => {
    const heavy = await longRun(new Rig({ models: [standard("busy"), standard("calm", 2)] }));
    expect(heavy.calm / heavy.busy).toBeCloseTo(2, 1);
    const policy = "- {type: token-deficit-fairness-policy, parameters: {weights: {calm: 0.5}}}\n";
    const config = configOf("", policy);
    const told = await longRun(new Rig({ config, models: [standard("busy"), standard("calm", 2)] }));
    expect(told.busy / told.calm).toBeCloseTo(2, 1);
  });

  it("wait behind those of higher criticality, and are not refused for saturation (scheduling 5.5)", async () => {
    const rig = new Rig({
      models: (["Critical", "Standard", "Sheddable"] as const).map((criticality) =>
        madeModel(criticality.toLowerCase(), criticality.toLowerCase(), { criticality }),
      ),
    });
    rig.fill("standard");
    for (const model of ["sheddable", "standard", "critical"]) rig.send(model);
    rig.outcomes.length = 0;
    expect(rig.waiting).toBe(3);
    expect(rig.priorities).toEqual([1, 0, -1]);
    await rig.advance(2000);
    expect(rig.outcomes).toEqual(["critical routed", "standard routed", "sheddable routed"]);
  });

  it("make a flow of each model, unless the request names its flow", async () => {
    const rig = new Rig({ models: [standard("a"), standard("b")] });
    rig.fill("a", 2);
    rig.send("b");
    rig.send("b", { headers: [["x-llm-d-inference-fairness-id", "team"]] });
    const flows = rig.core.queues()!.bands.flatMap(({ longest }) => longest.map(({ fairnessId }) => fairnessId));
    expect(flows.sort()).toEqual(["a", "b", "team"]);
  });

  it("take the weight from the objective that a request names, before that of its model", async () => {
    const rig = new Rig({ models: [standard("m", 3)] });
    rig.store.put({ ...madeObjective("gold", 0), fairnessWeight: 5 });
    rig.store.put(madeObjective("plain", 0));
    const weightOf = (objective: string): number => {
      const headers = HeaderList.of(objective === "" ? [] : [["x-llm-d-inference-objective", objective]]);
      const body = { model: "m", modelRange: { start: 0, end: 1 }, modelInsertAt: -1 };
      return (rig.core.models.resolve(body, headers) as { fairnessWeight: number }).fairnessWeight;
    };
    expect([weightOf("gold"), weightOf("plain"), weightOf(""), weightOf("unknown")]).toEqual([5, 3, 3, 3]);
  });

  it("turn flow control on when the first one comes, and off when the last one goes; no request is lost", async () => {
    const rig = new Rig();
    expect(rig.waiting).toBeUndefined();
    rig.fill("a", 1);
    expect(rig.outcomes).toEqual(Array(SLOTS + 1).fill("a routed"));
    rig.store.put(standard("a"));
    rig.store.put(standard("b"));
    rig.outcomes.length = 0;
    for (let i = 0; i < 20; i++) rig.send(i % 2 === 0 ? "a" : "b");
    expect(rig.waiting).toBe(20);
    rig.store.remove(standard("a"));
    await rig.advance(100);
    expect(rig.waiting).toBe(20);
    rig.store.remove(standard("b"));
    expect(rig.waiting).toBeUndefined();
    await rig.advance(0);
    expect(rig.outcomes).toEqual(Array.from({ length: 20 }, (_, i) => `${i % 2 === 0 ? "a" : "b"} routed`));
    // They come back while the server is full: requests wait again, and leave in the end.
    rig.store.put(standard("a"));
    rig.send("a");
    expect(rig.waiting).toBe(1);
    await rig.advance(5000);
    expect([rig.waiting, rig.outcomes.length]).toEqual([0, 21]);
    expect(rig.log.filter((text) => text.startsWith("info: flow control"))).toEqual([
      "info: flow control is on: there are InferenceModels of a v1alpha2 pool, and the configuration does not set the feature gate flowControl",
      "info: flow control by InferenceModels is off; waiting requests continue at once",
      "info: flow control is on: there are InferenceModels of a v1alpha2 pool, and the configuration does not set the feature gate flowControl",
    ]);
  });

  it("are looked at again when the models of an endpoint change", async () => {
    const rig = new Rig({ models: [standard("a")] });
    rig.fill("a", 1);
    await rig.advance(1);
    const cycles = (): number =>
      samplesOf(render(rig.core.registry)).get("llm_d_epp_flow_control_dispatch_cycle_duration_seconds_count")!;
    const before = cycles();
    const listed = (name: string): ServedModels => modelsIn(JSON.stringify({ data: [{ id: name }] })) as ServedModels;
    const [endpoint] = rig.core.endpoints.list();
    for (const name of ["a", "a", "b"]) {
      rig.core.endpoints.listed(endpoint as PoolEndpoint, listed(name));
      await rig.advance(0);
    }
    // The second list is as the first.
    expect(cycles() - before).toBe(2);
    expect(rig.waiting).toBe(1);
  });

  it("keep requests in their queue while the pool itself is away", async () => {
    const rig = new Rig({ models: [standard("a")] });
    rig.fill("a", 3);
    rig.store.remove(madePool());
    await rig.advance(100);
    expect(rig.waiting).toBe(3);
    rig.store.put(madePool());
    await rig.advance(5000);
    expect([rig.waiting, rig.outcomes.length]).toEqual([0, SLOTS + 3]);
  });

  it("hold no request back while no endpoint has metrics that can be read, as nobody asked for queues", async () => {
    const rig = new Rig({ config: loadConfig(undefined, PLUGIN_REGISTRY), models: [standard("a")] });
    // No one scrapes this endpoint, so the default detector counts it as full.
    expect(rig.core.queues()).toMatchObject({ saturation: { effective: 0, expected: 0 } });
    rig.fill("a", 100);
    expect([rig.waiting, rig.outcomes]).toEqual([0, Array(SLOTS + 100).fill("a routed")]);
    const asked = loadConfig(parseDocument(ASKED, { file: "c.yaml" }), PLUGIN_REGISTRY);
    rig.core.useConfig(asked, true);
    rig.send("a");
    expect(rig.waiting).toBe(1);
  });

  it("turn nothing on where the configuration sets the gate, where they do not count, and without a pool of v1alpha2", () => {
    const models = [madeModel("a", "a", { criticality: "Sheddable" })];
    const off = [
      new Rig({ models, config: configOf("flowControl=false") }),
      new Rig({ models, matching: "off" }),
      new Rig({ models: [madeModel("a", "a", { poolRef: { group: GROUP.stable } })], group: GROUP.stable }),
    ];
    for (const rig of off) {
      rig.fill("a");
      expect([rig.waiting, rig.log]).toEqual([undefined, []]);
    }
    // Without flow control saturation refuses, as ever (scheduling 5.4).
    off[0]!.send("a");
    expect(off[0]!.outcomes.at(-1)).toBe("a 429");
    const on = new Rig({ models, config: configOf("flowControl") });
    expect(on.core.queues()).toMatchObject({ requests: 0 });
    expect(on.log).toEqual([]);
  });

  it("leave the choice to a new configuration, and take it back", async () => {
    const rig = new Rig({ models: [standard("a")] });
    rig.fill("a", 2);
    expect(rig.waiting).toBe(2);
    rig.core.useConfig(configOf("flowControl"), true);
    expect(rig.waiting).toBe(2);
    rig.core.useConfig(configOf(), true);
    expect(rig.waiting).toBe(2);
    rig.core.useConfig(configOf("flowControl=false"), true);
    await rig.advance(0);
    expect([rig.waiting, rig.outcomes.length]).toEqual([undefined, SLOTS + 2]);
    expect(rig.log.map((text) => text.split(":")[1]!.trim())).toEqual([
      ...[
        "flow control is on",
        "flow control is on",
        "flow control by InferenceModels is off; waiting requests continue at once",
      ],
    ]);
  });

  it("warn once that flags for shedding have no effect", () => {
    const rig = new Rig({ models: [standard("a")], legacyCriticality: true });
    rig.store.put(standard("b"));
    expect(rig.log.filter((text) => text.startsWith("warn"))).toEqual([
      "warn: --standard-shed-at and --legacy-criticality have no effect while flow control is on; the feature gate flowControl=false turns it off",
    ]);
  });
});
