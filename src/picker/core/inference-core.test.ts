import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { parseDocument } from "../../base/document/parse.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import { defineProducer, defineRequestHook } from "../../base/plugin/define.ts";
import { silentLogger } from "../../base/telemetry/logger.ts";
import { objectivesFromFlags } from "../../pool/resources/objectives.ts";
import type { EffectiveConfig } from "../config/effective.ts";
import { loadConfig } from "../config/load.ts";
import { InferenceCore } from "./inference-core.ts";
import { PLUGIN_REGISTRY } from "./plugins/plugins.ts";

const CONFIG = loadConfig(undefined, PLUGIN_REGISTRY);

function coreWithEndpoint(): InferenceCore {
  const core = new InferenceCore({
    clock: new VirtualClock(),
    random: new SeededRandom(1),
    config: CONFIG,
    models: { objectives: objectivesFromFlags([]) },
    staleness: 2000,
    ignoreSubset: false,
    log: silentLogger,
  });
  core.endpoints.upsert({ namespace: "n", name: "e", address: "127.0.0.1", port: 1, rank: 0, labels: {} });
  return core;
}

/** Reports a number from the usage of each answer. */
function reporting(expression: string): EffectiveConfig {
  const attributes = [{ key: { name: "cost" }, expression }];
  const plugins = [{ type: "request-attribute-reporter", parameters: { attributes } }];
  const text = JSON.stringify({ apiVersion: "llm-d.ai/v1alpha1", kind: "EndpointPickerConfig", plugins });
  return loadConfig(parseDocument(text, { file: "config.yaml" }), PLUGIN_REGISTRY);
}

/** The profile by which a request is decided now. */
function profileOf(core: InferenceCore): string | undefined {
  const exchange = core.openExchange({ pauseRequest() {}, resumeRequest() {}, evict() {} });
  exchange.requestHeaders(HeaderList.of([[":path", "/v1/completions"]]), false);
  exchange.requestBody(Buffer.from('{"model":"m","prompt":"x"}'), true);
  exchange.end("complete");
  return core.records.latest(1)[0]?.profile;
}

describe("another configuration", () => {
  const other = { ...CONFIG, profiles: [{ ...CONFIG.profiles[0]!, name: "other" }] };

  it("is in force from the next request on", () => {
    const core = coreWithEndpoint();
    expect(profileOf(core)).toBe("default");
    core.useConfig(other, false);
    expect(profileOf(core)).toBe("other");
  });

  it("in which nothing but an expression differs counts by that one, and has another fingerprint", () => {
    const core = coreWithEndpoint();
    const costs: unknown[] = [];
    for (const expression of ["usage.total_tokens", "usage.total_tokens * 2"]) {
      core.useConfig(reporting(expression), true);
      const exchange = core.openExchange({ pauseRequest() {}, resumeRequest() {}, evict() {} });
      exchange.requestHeaders(HeaderList.of([[":path", "/v1/completions"]]), false);
      exchange.requestBody(Buffer.from('{"model":"m","prompt":"x"}'), true);
      exchange.responseHeaders(200, HeaderList.of([["content-type", "application/json"]]), false);
      exchange.responseBody(
        Buffer.from('{"usage":{"prompt_tokens":7,"completion_tokens":10,"total_tokens":17}}'),
        true,
      );
      costs.push(exchange.responseMetadata);
    }
    expect(costs).toEqual([{ "envoy.lb": { cost: 17 } }, { "envoy.lb": { cost: 34 } }]);
    const [second, first] = core.records.latest(2);
    expect(first?.configHash).not.toBe(second?.configHash);
  });

  it("of which a plugin cannot be made is not in force at all", () => {
    const core = coreWithEndpoint();
    const definition = defineRequestHook({
      type: "cannot-be-made",
      describe: "Throws.",
      create: () => {
        throw new Error("no licence");
      },
    });
    const hooks = [{ definition, name: "cannot-be-made", parameters: {} }];
    expect(() => core.useConfig({ ...other, hooks }, true)).toThrow("no licence");
    expect(profileOf(core)).toBe("default");
  });
});

describe("the plugins of a core", () => {
  const closed: string[] = [];
  const closing = defineProducer({
    type: "closing",
    describe: "Notes its end.",
    create: (_, { name }) => ({ produce() {}, close: () => void closed.push(name) }),
  });
  const cannot = defineRequestHook({
    type: "cannot-be-made",
    describe: "Throws.",
    create: () => {
      throw new Error("no licence");
    },
  });
  const of = (...names: string[]): EffectiveConfig => ({
    ...CONFIG,
    producers: [...CONFIG.producers, ...names.map((name) => ({ definition: closing, name, parameters: {} }))],
  });
  const since = () => closed.splice(0);

  it("end with the configuration that has them, with the one that is refused, and with the core", async () => {
    const core = coreWithEndpoint();
    core.useConfig(of("a", "b"), true);
    core.useConfig(of("b", "c"), true);
    expect(since()).toEqual(["a"]);
    const refused = { ...of("b", "d"), parsers: [{ definition: cannot as never, name: "x", parameters: {} }] };
    expect(() => core.useConfig(refused, true)).toThrow("no licence");
    const late = { ...of("b", "d"), headerProcessors: [{ definition: cannot as never, name: "x", parameters: {} }] };
    expect(() => core.useConfig(late, true)).toThrow("no licence");
    expect(since()).toEqual(["d"]);
    core.useConfig(of("b"), false);
    expect(since()).toEqual(["c", "b"]);
    await core.close();
    expect(since()).toEqual(["b"]);
    await core.close();
    // One that was being read meanwhile.
    core.useConfig(of("e"), true);
    expect(since()).toEqual([]);
    expect(core.pluginStates()).toEqual([]);
  });
});
