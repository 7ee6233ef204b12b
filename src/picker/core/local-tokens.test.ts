import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { NO_WIRE } from "../../../test/support/exchange/fakes.cases.ts";
import { poll } from "../../../test/support/poll.ts";
import { SMALL_CONFIG, writeModel } from "../../../test/support/small-tokenizer.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { parseDocument } from "../../base/document/parse.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import { render } from "../../base/telemetry/exposition.ts";
import { silentLogger } from "../../base/telemetry/logger.ts";
import { objectivesFromFlags } from "../../pool/resources/objectives.ts";
import { loadConfig } from "../config/load.ts";
import { explain } from "../decisions/explain.ts";
import type { Routed } from "../exchange/wire.ts";
import { InferenceCore } from "./inference-core.ts";
import { PLUGIN_REGISTRY } from "./plugins/plugins.ts";

const folder = mkdtempSync(join(tmpdir(), "sluice-local-"));
const cores: InferenceCore[] = [];
afterAll(async () => {
  for (const core of cores) await core.close();
  rmSync(folder, { recursive: true, force: true });
});

/** A pool with the tokenizers `good`, and `slow`, whose chat template takes for ever. */
function setUp() {
  writeModel(join(folder, "good"));
  const endless = "{% for i in range(1000000000) %}{{ i }}{% endfor %}";
  writeModel(join(folder, "slow"), { config: { ...SMALL_CONFIG, chat_template: endless } });
  const plugins = [
    { type: "token-producer", parameters: { local: { autoDiscoveryDir: folder, workersCount: 1 } } },
    { type: "prefix-cache-scorer" },
    { type: "max-score-picker" },
  ];
  const profile = {
    name: "default",
    plugins: [{ pluginRef: "prefix-cache-scorer" }, { pluginRef: "max-score-picker" }],
  };
  const text = {
    apiVersion: "llm-d.ai/v1alpha1",
    kind: "EndpointPickerConfig",
    plugins,
    schedulingProfiles: [profile],
  };
  const clock = new VirtualClock();
  const core = new InferenceCore({
    ...{ clock, random: new SeededRandom(1), staleness: 2000, ignoreSubset: false, log: silentLogger },
    config: loadConfig(parseDocument(JSON.stringify(text), { file: "config.yaml" }), PLUGIN_REGISTRY),
    models: { objectives: objectivesFromFlags([]) },
  });
  cores.push(core);
  for (let port = 1; port <= 4; port++)
    core.endpoints.upsert({ namespace: "n", name: `e${port}`, address: "127.0.0.1", port, rank: 0, labels: {} });
  return { core, clock };
}

/** Sends a request; its decision. */
async function send(core: InferenceCore, body: string, path = "/v1/chat/completions"): Promise<Routed> {
  const exchange = core.openExchange(NO_WIRE);
  exchange.requestHeaders(HeaderList.of([[":path", path]]), false);
  return (await exchange.requestBody(Buffer.from(body), true)) as Routed;
}

const chat = (model: string, content: unknown): string =>
  JSON.stringify({ model, messages: [{ role: "user", content }] });

/** What the page of metrics says of decisions without data. */
function missed(core: InferenceCore): string[] {
  return render(core.registry)
    .split("\n")
    .filter((line) => line.startsWith("sluice_preparations_missed_total{"));
}

/** Whether a thread has a request. */
function isBusy(core: InferenceCore): boolean {
  const producer = core.pluginStates().find(({ name }) => name === "token-producer");
  return (producer!.state!() as { readonly busy: number }).busy === 1;
}

describe("a published precise-prefix-cache-scorer with a tokenizersPoolConfig", () => {
  /** The producers of a configuration, with their parameters. */
  function producersOf(indexerConfig: object, more: readonly object[] = []) {
    const plugins = [{ type: "precise-prefix-cache-scorer", parameters: { indexerConfig } }, ...more];
    const profile = { name: "default", plugins: [{ pluginRef: "precise-prefix-cache-scorer" }] };
    const text = {
      apiVersion: "llm-d.ai/v1alpha1",
      kind: "EndpointPickerConfig",
      plugins,
      schedulingProfiles: [profile],
    };
    const { producers } = loadConfig(parseDocument(JSON.stringify(text), { file: "config.yaml" }), PLUGIN_REGISTRY);
    return producers.map(({ definition, parameters }) => ({ type: definition.type, parameters }));
  }

  const pool = {
    modelName: "org/model",
    workersCount: 8,
    hf: { enabled: true, tokenizersCacheDir: "/tmp/tokenizers" },
  };

  it("brings a tokenizer of this process along", () => {
    expect(producersOf({ tokenizersPoolConfig: pool })).toContainEqual({
      type: "token-producer",
      parameters: expect.objectContaining({
        modelName: "org/model",
        local: expect.objectContaining({ autoDiscoveryDir: "/tmp/tokenizers", workersCount: 8 }),
      }),
    });
    expect(producersOf({ tokenizersPoolConfig: pool }).map(({ type }) => type)).toContain(
      "precise-prefix-cache-producer",
    );
  });

  it("leaves the token-producer of the file in place, and without one brings none", () => {
    const own = { type: "token-producer", parameters: { vllm: { url: "http://render:8000" } } };
    const found = producersOf({ tokenizersPoolConfig: pool }, [own]).filter(({ type }) => type === "token-producer");
    expect(found).toMatchObject([{ parameters: { vllm: { url: "http://render:8000" } } }]);
    expect(producersOf({}).filter(({ type }) => type === "token-producer")).toEqual([]);
  });
});

describe("prompts that threads of the picker make tokens of", () => {
  it("S-50: match by their tokens, however a client writes the JSON", async () => {
    const { core } = setUp();
    const words = Array.from({ length: 300 }, (_, i) => `word${i}`).join(" ");
    const first = await send(core, chat("good", words));
    expect(first.record!.top[0]!.scores[0]).toBe(0);
    const spaced = JSON.stringify(JSON.parse(chat("good", [{ text: words, type: "text" }])), undefined, 3);
    const second = await send(core, spaced);
    expect(second.record!.top[0]!.scores[0]).toBe(1);
    expect(second.endpoints[0]!.name).toBe(first.endpoints[0]!.name);
    expect(missed(core)).toEqual([]);
  });

  it("S-43: that take too long are decided without tokens, and record, metric and explanation say so", async () => {
    const { core, clock } = setUp();
    const late = send(core, chat("slow", "x"));
    await poll("the thread to be busy", () => isBusy(core));
    await clock.advanceAsync(400);
    const { record } = await late;
    expect(record!.late).toEqual(["token-producer"]);
    expect(explain(record!).sentence).toContain("(without the data of token-producer, which came too late)");
    expect(explain(record!).notes.join()).toContain("sluice_preparations_missed_total");
    expect(missed(core)).toEqual([
      'sluice_preparations_missed_total{plugin_type="token-producer",plugin_name="token-producer",reason="late"} 1',
    ]);
  });

  it("of a model without a tokenizer are decided without tokens, and those of the others with them", async () => {
    const { core } = setUp();
    expect((await send(core, chat("unknown", "x"))).record).toMatchObject({
      failed: ["token-producer"],
      late: undefined,
    });
    expect((await send(core, chat("good", "x"))).record!.failed).toEqual([]);
    expect(missed(core).join()).toMatch(/reason="failed"} 1$/);
  });

  it("of other APIs count by their bytes, without a complaint", async () => {
    const { core } = setUp();
    const found = await send(core, JSON.stringify({ model: "good", input: "x" }), "/v1/embeddings");
    expect([found.kind, missed(core)]).toEqual(["routed", []]);
  });
});
