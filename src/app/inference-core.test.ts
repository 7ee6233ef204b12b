import { describe, expect, it } from "vitest";
import { SeededRandom } from "../clock/random.ts";
import { VirtualClock } from "../clock/virtual.ts";
import { loadConfig } from "../config/load.ts";
import { HeaderList } from "../inference/headers.ts";
import { defineRequestHook } from "../plugin/define.ts";
import { objectivesFromFlags } from "../resources/objectives.ts";
import { silentLogger } from "../telemetry/logger.ts";
import { InferenceCore } from "./inference-core.ts";
import { PLUGIN_REGISTRY } from "./plugins.ts";

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

/** The profile by which a request is decided now. */
function profileOf(core: InferenceCore): string | undefined {
  const exchange = core.openExchange({ pauseRequest() {}, resumeRequest() {}, evict() {} });
  exchange.requestHeaders(HeaderList.of([[":path", "/v1/completions"]]), false);
  exchange.requestBody(Buffer.from('{"model":"m","prompt":"x"}'), true);
  exchange.end("complete");
  return core.records.latest(1)[0]?.profile;
}

describe("another configuration", () => {
  const other = { ...CONFIG, profile: { ...CONFIG.profile, name: "other" } };

  it("is in force from the next request on", () => {
    const core = coreWithEndpoint();
    expect(profileOf(core)).toBe("default");
    core.useConfig(other);
    expect(profileOf(core)).toBe("other");
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
    expect(() => core.useConfig({ ...other, hooks })).toThrow("no licence");
    expect(profileOf(core)).toBe("default");
  });
});
