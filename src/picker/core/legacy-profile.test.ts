import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { TestCore } from "../../../test/support/core.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import { silentLogger } from "../../base/telemetry/logger.ts";
import { effectiveSummary } from "../config/effective.ts";
import { readConfig } from "./config-source.ts";

const EXAMPLE = readFileSync(new URL("../../../examples/legacy-v0.3.yaml", import.meta.url), "utf8");
const BODY = Buffer.from('{"model":"m","prompt":"p"}');

/** Where a request of an objective goes, or what it is answered. */
function route(core: TestCore, objective = ""): string {
  const exchange = core.openExchange({ pauseRequest() {}, resumeRequest() {}, evict() {} });
  const headers: [string, string][] = [[":path", "/v1/completions"]];
  if (objective !== "") headers.push(["x-gateway-inference-objective", objective]);
  exchange.requestHeaders(HeaderList.of(headers), false);
  const decision = exchange.requestBody(BODY, true);
  if (decision instanceof Rejection) return `${decision.status} ${decision.text}`;
  if (decision === undefined || !("endpoints" in decision)) throw new Error("not decided at once");
  return decision.endpoints[0]!.name;
}

const pool = (...metrics: readonly { waiting: number; kvUsage?: number }[]) =>
  new TestCore({
    config: EXAMPLE,
    endpoints: metrics.map((each) => ({ metrics: each })),
    objectives: ["critical=1", "sheddable=-1"],
  });
const DROPPED =
  "429 inference error: ResourceExhausted - the request was dropped because backend resources are limited";

describe("the profile legacy-v0.3", () => {
  it("S-21: refuses what is not critical with 429 while every endpoint is busy, and serves what is", () => {
    const busy = pool({ waiting: 6 }, { waiting: 0, kvUsage: 0.81 });
    expect([route(busy), route(busy, "sheddable"), route(busy, "unknown")]).toEqual([DROPPED, DROPPED, DROPPED]);
    expect(route(busy, "critical")).toBe("pod-2");
  });

  it("S-21: leaves it to the tree who is shed: one idle endpoint among many that are saturated serves everybody", () => {
    const mostly = pool({ waiting: 90 }, { waiting: 90 }, { waiting: 5, kvUsage: 0.8 }, { waiting: 90 });
    for (const objective of ["", "sheddable", "critical"]) expect(route(mostly, objective)).toBe("pod-3");
  });

  it("answers 429 when there is no endpoint at all (scheduling 2.3(5))", () => {
    expect(route(new TestCore({ config: EXAMPLE, endpoints: 0 }))).toBe(DROPPED);
    expect(route(new TestCore({ endpoints: 0 }))).toMatch(/^503 /);
  });

  it("chooses uniformly among what the tree leaves (scheduling 2.3)", () => {
    const core = pool({ waiting: 0 }, { waiting: 0 }, { waiting: 3 }, { waiting: 0 });
    const counts = new Map<string, number>();
    for (let i = 0; i < 3000; i++) {
      const name = route(core);
      counts.set(name, (counts.get(name) ?? 0) + 1);
    }
    expect([...counts.keys()].sort()).toEqual(["pod-1", "pod-2", "pod-4"]);
    for (const count of counts.values()) expect(Math.abs(count - 1000)).toBeLessThan(130);
  });

  it("is the same by its name and from the example (scheduling 5.1)", async () => {
    const { source: _, ...byName } = effectiveSummary(await readConfig({ profile: "legacy-v0.3" }, silentLogger));
    const { source: __, ...byText } = effectiveSummary(await readConfig({ configText: EXAMPLE }, silentLogger));
    expect(byName).toEqual(byText);
    expect(byName).toMatchObject({
      profile: "legacy-v0.3",
      filters: ["decision-tree-filter"],
      picker: "random-picker",
      saturationDetector: "never-saturated-detector",
    });
  });

  it("cannot be combined with a configuration, and must exist", async () => {
    const failure = (source: Parameters<typeof readConfig>[0]): Promise<unknown> =>
      readConfig(source, silentLogger).catch(
        (error: { code: string; message: string }) => `${error.code}: ${error.message}`,
      );
    const conflict =
      "FLAG_CONFLICT: --profile chooses a built-in configuration and cannot be combined with another configuration";
    expect(await failure({ profile: "legacy-v0.3", configText: EXAMPLE })).toBe(conflict);
    expect(await failure({ profile: "default", configFile: "c.yaml" })).toBe(conflict);
    expect(await failure({ profile: "legacy" })).toBe(
      'FLAG_VALUE: --profile="legacy" is not a profile; the profiles are default, sticky-until-saturated, legacy-v0.3',
    );
    expect(await failure({ profile: "legacy-v03" })).toBe(
      'FLAG_VALUE: --profile="legacy-v03" is not a profile; did you mean `legacy-v0.3`?',
    );
  });
});

describe("the environment of v0.3 (scheduling 2.1)", () => {
  async function tree(
    env: Record<string, string>,
    configText?: string,
  ): Promise<{ parameters: unknown; warned: string[] }> {
    const warned: string[] = [];
    const log = { ...silentLogger, warn: (_: object, text: string) => void warned.push(text) };
    const source = configText === undefined ? { profile: "legacy-v0.3" } : { configText };
    const { profiles } = await readConfig({ ...source, env }, log);
    return { parameters: profiles[0]!.plugins[0]!.parameters, warned };
  }

  it("gives the tree its constants, where the configuration does not", async () => {
    const env = {
      KV_CACHE_THRESHOLD: "0.5",
      QUEUE_THRESHOLD_CRITICAL: "7",
      QUEUING_THRESHOLD_LORA: "64",
      LORA_AFFINITY_THRESHOLD: "1e-1",
    };
    const all = {
      kvCacheThreshold: 0.5,
      queueThresholdCritical: 7,
      queuingThresholdLoRA: 64,
      loraAffinityThreshold: 0.1,
    };
    expect(await tree(env)).toEqual({ parameters: all, warned: [] });
    const said = EXAMPLE.replace(
      "- type: decision-tree-filter",
      "- type: decision-tree-filter\n  parameters: {kvCacheThreshold: 0.9}",
    );
    expect((await tree(env, said)).parameters).toEqual({ ...all, kvCacheThreshold: 0.9 });
    expect((await tree({}, said)).parameters).toEqual({ kvCacheThreshold: 0.9 });
  });

  it("is ignored with a line in the log where it is no number, and not checked for its range", async () => {
    const ignored = (name: string): string =>
      `environment variable ${name} is ignored: its value is not a valid number`;
    expect(
      await tree({
        KV_CACHE_THRESHOLD: "high",
        QUEUE_THRESHOLD_CRITICAL: "5.5",
        QUEUING_THRESHOLD_LORA: "-1",
        LORA_AFFINITY_THRESHOLD: "0x1",
      }),
    ).toEqual({
      parameters: { queuingThresholdLoRA: -1 },
      warned: ["KV_CACHE_THRESHOLD", "QUEUE_THRESHOLD_CRITICAL", "LORA_AFFINITY_THRESHOLD"].map(ignored),
    });
    expect(await tree({ KV_CACHE_THRESHOLD: "" })).toEqual({ parameters: {}, warned: [] });
  });

  it("means nothing to other profiles", async () => {
    const config = await readConfig({ env: { KV_CACHE_THRESHOLD: "high" } }, silentLogger);
    expect(
      JSON.stringify(config.profiles.map(({ plugins }) => plugins.map(({ parameters }) => parameters))),
    ).not.toContain("kvCacheThreshold");
  });
});
