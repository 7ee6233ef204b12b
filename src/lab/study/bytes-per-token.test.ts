import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/clock/random.ts";
import { loadConfig } from "../../picker/config/load.ts";
import { PLUGIN_REGISTRY } from "../../picker/core/plugins/plugins.ts";
import { BatchingEngine } from "../simulator/batching/batching-engine.ts";
import { presetNamed } from "../simulator/batching/config.ts";
import { poissonArrivals } from "../simulator/workloads/arrivals.ts";
import { joined, randomText, stretched } from "../simulator/workloads/prompt-text.ts";
import type { Workload } from "../simulator/workloads/workload.ts";
import { simulate } from "./run.ts";

const SERVERS = 3;
const TENANTS = 30;
const QUESTIONS = 4;
const SYSTEM = 3000;
const QUESTION = 400;
/** Tokens of all prompts together, and of the four caches: 84 % full when each prompt is in one of them. */
const WORKING_SET = TENANTS * (SYSTEM + QUESTIONS * QUESTION);
const CACHE_TOKENS = WORKING_SET / 0.84;
const CONFIG = { ...presetNamed("qwen3-32b-2xh100")!.config, kvBlocks: Math.floor(CACHE_TOKENS / SERVERS / 16) };
const WARM_UP = 25_000;
const DURATION = 20_000;

/** The same questions again and again. */
const nearlyFull: Workload = {
  start(port) {
    const { random } = port;
    const prompts = Array.from({ length: TENANTS }, () => randomText(random, SYSTEM)).flatMap((system) =>
      Array.from({ length: QUESTIONS }, () => joined(system, randomText(random, QUESTION))),
    );
    poissonArrivals(port, 20, WARM_UP + DURATION, () =>
      port.send({ prompt: prompts[random.below(prompts.length)]!, outputTokens: 20 + random.below(60) }),
    );
  },
};

/** Mean over a few seeds of the p90 of the time to first token, and of the hit rate: packing alone makes single runs differ. */
function played(bytesPerToken: number): { readonly ttft: number; readonly hitRate: number } {
  const seeds = [1, 2, 3, 4, 5, 6];
  const runs = seeds.map((seed) =>
    simulate({
      ...{ workload: nearlyFull, durationMs: DURATION, warmUpMs: WARM_UP, servers: SERVERS, seed, bytesPerToken },
      engine: (_, parts) => new BatchingEngine({ config: CONFIG, ...parts }),
      decides: { config: loadConfig(undefined, PLUGIN_REGISTRY) },
    }),
  );
  const mean = (figure: (run: (typeof runs)[number]) => number): number =>
    runs.reduce((sum, run) => sum + figure(run), 0) / runs.length;
  return { ttft: mean(({ ttft }) => ttft.p90), hitRate: mean(({ hitRate }) => hitRate) };
}

describe("text with other than four bytes per token, and caches that are nearly full", () => {
  const usual = played(4);

  it.each([2, 8, 12])("finds its prefixes again with %d bytes as with 4", (bytesPerToken) => {
    const result = played(bytesPerToken);
    expect(result.hitRate).toBeGreaterThan(usual.hitRate - 0.02);
    expect(result.ttft / usual.ttft).toBeLessThan(1.15);
  });
});

describe("stretched text", () => {
  const prompt = randomText(new SeededRandom(1), 500);

  it.each([1, 2, 2.5, 3, 5.3, 8, 12, 16])(
    "has %d bytes per token, and equal beginnings stay equal",
    (bytesPerToken) => {
      const whole = stretched(prompt.slice(), bytesPerToken);
      expect(whole).toHaveLength(Math.ceil(500 * bytesPerToken));
      const part = stretched(prompt.slice(0, 4 * 200), bytesPerToken);
      const same = Math.floor(200 * bytesPerToken);
      expect(part.subarray(0, same)).toEqual(whole.subarray(0, same));
      const changed = prompt.slice();
      changed[4 * 300]! ^= 3;
      expect(stretched(changed, bytesPerToken)).not.toEqual(whole);
    },
  );

  it("is the prompt itself where a token has four bytes, and is made once for a prompt", () => {
    expect(stretched(prompt, 4)).toBe(prompt);
    expect(stretched(prompt, 8)).toBe(stretched(prompt, 8));
  });
});
