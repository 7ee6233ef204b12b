import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { SeededRandom } from "../clock/random.ts";
import { VirtualClock } from "../clock/virtual.ts";
import type { EffectiveConfig } from "../config/effective.ts";
import { loadConfig } from "../config/load.ts";
import { parseDocument } from "../document/parse.ts";
import { buildDefaultPlan } from "../scheduling/default-profile.ts";
import type { Profile } from "../scheduling/profile.ts";
import { PLUGIN_REGISTRY } from "./plugins.ts";

const members = (config: EffectiveConfig) =>
  config.profiles[0]!.plugins.map(({ definition, weight }) =>
    definition.kind === "scorer" ? [definition.type, weight] : [definition.type],
  );
const WANTED = [
  ["queue-scorer", 2],
  ["kv-cache-utilization-scorer", 2],
  ["prefix-cache-scorer", 3],
  ["active-request-scorer", 2],
  ["max-score-picker"],
];

describe("the default profile", () => {
  it("is the same in the configuration, in the scheduler's own tests and in the example", () => {
    expect(members(loadConfig(undefined, PLUGIN_REGISTRY))).toEqual(WANTED);
    const [{ scorers, picker }] = buildDefaultPlan(new VirtualClock(), new SeededRandom(1)).profiles as [Profile];
    expect([...scorers.map(({ type, weight }) => [type, weight]), [picker.type]]).toEqual(WANTED);
    const file = new URL("../../examples/config.yaml", import.meta.url);
    const example = parseDocument(readFileSync(file, "utf8"), { file: "examples/config.yaml" });
    expect(members(loadConfig(example, PLUGIN_REGISTRY))).toEqual(WANTED);
  });
});
