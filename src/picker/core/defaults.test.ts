import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { buildDefaultPlan } from "../../../test/support/scheduling/default-profile.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { parseDocument } from "../../base/document/parse.ts";
import type { EffectiveConfig } from "../config/effective.ts";
import { loadConfig } from "../config/load.ts";
import type { Profile } from "../scheduling/profile.ts";
import { PLUGIN_REGISTRY } from "./plugins/plugins.ts";

const members = (config: EffectiveConfig) =>
  config.profiles[0]!.plugins.map(({ definition, weight }) =>
    definition.kind === "scorer" ? [definition.type, weight] : [definition.type],
  );
const parameters = (config: EffectiveConfig) => config.profiles[0]!.plugins.map((plugin) => plugin.parameters);
const WANTED = [
  ["queue-scorer", 1],
  ["kv-cache-utilization-scorer", 1],
  ["prefix-cache-scorer", 3],
  ["lora-affinity-scorer", 4],
  ["active-request-scorer", 3],
  ["token-load-scorer", 64],
  ["max-score-picker"],
];

describe("the default profile", () => {
  it("is the same in the configuration, in the scheduler's own tests and in the example", () => {
    expect(members(loadConfig(undefined, PLUGIN_REGISTRY))).toEqual(WANTED);
    const [{ scorers, picker }] = buildDefaultPlan(new VirtualClock(), new SeededRandom(1)).profiles as [Profile];
    expect([...scorers.map(({ type, weight }) => [type, weight]), [picker.type]]).toEqual(WANTED);
    const file = new URL("../../../examples/config.yaml", import.meta.url);
    const example = parseDocument(readFileSync(file, "utf8"), { file: "examples/config.yaml" });
    expect(members(loadConfig(example, PLUGIN_REGISTRY))).toEqual(WANTED);
    expect(parameters(loadConfig(example, PLUGIN_REGISTRY))).toEqual(
      parameters(loadConfig(undefined, PLUGIN_REGISTRY)),
    );
  });

  it.each(["manifests/epp.yaml", "helm/sluice-epp/templates/config.yaml"])("is what deploy/%s writes out", (file) => {
    const text = readFileSync(new URL(`../../../deploy/${file}`, import.meta.url), "utf8");
    const scorers = [...text.matchAll(/- pluginRef: (\S+)\n +weight: (\d+)/g)].map(([, type, weight]) => [
      type,
      Number(weight),
    ]);
    expect(scorers).toEqual(WANTED.slice(0, -1));
    for (const [type] of scorers) expect(text).toContain(`- type: ${type}\n`);
    expect(text).toMatch(/- type: token-load-scorer\n +parameters:\n +queueThresholdTokens: 1048576\n/);
  });
});
