import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { defineSaturationDetector } from "../../base/plugin/define.ts";
import { render } from "../../base/telemetry/exposition.ts";
import { type Logger, silentLogger } from "../../base/telemetry/logger.ts";
import { objectivesFromFlags } from "../../pool/resources/objectives.ts";
import { loadConfig } from "../config/load.ts";
import { InferenceCore } from "./inference-core.ts";
import { PLUGIN_REGISTRY } from "./plugins/plugins.ts";
import { showSaturation } from "./saturation-metrics.ts";

/** What a page says of the pool, and what was logged, with such a detector. */
function shown(...answers: (() => unknown)[]): { values: (string | undefined)[]; logged: string[] } {
  let turn = 0;
  const saturation = (): number => answers[turn++]!() as number;
  const detector = defineSaturationDetector({ type: "mine", describe: "", create: () => ({ saturation }) });
  const logged: string[] = [];
  const log: Logger = { ...silentLogger, error: ({ err }) => void logged.push(String(err)) };
  const core = new InferenceCore({
    clock: new VirtualClock(),
    random: new SeededRandom(1),
    config: {
      ...loadConfig(undefined, PLUGIN_REGISTRY),
      detector: { definition: detector, name: "mine", parameters: {} },
    },
    models: { objectives: objectivesFromFlags([]) },
    staleness: 2000,
    ignoreSubset: false,
    log,
  });
  showSaturation(core, "p");
  const value = (): string | undefined =>
    /^llm_d_epp_\w*saturation\w*\{[^}]*\} (\S+)$/m.exec(render(core.registry))?.[1];
  return { values: answers.map(value), logged };
}

describe("the saturation of the pool on the metrics page", () => {
  it("is not known where the detector fails, which is logged, and the page is there all the same", () => {
    const broken = (): never => {
      throw new Error("broken");
    };
    const late = () => Promise.reject(new Error("too late"));
    const { values, logged } = shown(
      () => 0.5,
      broken,
      () => 0.25,
      late,
    );
    expect(values).toEqual(["0.5", "NaN", "0.25", "NaN"]);
    expect(logged).toEqual([expect.stringContaining("broken")]);
  });
});
