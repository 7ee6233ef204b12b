import { waveArrivals } from "./arrivals.ts";
import { drawTokens, type TokenLengths } from "./draws.ts";
import { joined, randomText } from "./prompt-text.ts";
import type { Workload, WorkloadDefinition, WorkloadSettings } from "./workload.ts";

/** The whole wave is in flight before its first answers end. It is mostly over when the next one arrives. */
const WAVE_EVERY_MS = 15_000;
const WAVE_WIDTH_MS = 250;
const SYSTEM_TOKENS = 64;
/** A wide distribution: equal numbers of requests are not equal work. */
const QUESTION: TokenLengths = { mean: 500, sigma: 0.9, least: 16, most: 8000 };
const ANSWER: TokenLengths = { mean: 200, sigma: 0.7, least: 1, most: 1000 };

/** All requests of a wave at once, then none: decisions come faster than any metric. */
export const BURSTS: WorkloadDefinition = {
  name: "bursts",
  about:
    "a wave of simultaneous requests every 15 s, with little in common: shows which policies count the requests just sent",
  rates: [200, 400, 800],
  rateUnit: "requests a wave",
  servers: 8,
  preset: "qwen3-32b-2xh100",
  durationMs: 45_000,
  make: burstTraffic,
};

function burstTraffic({ rate, durationMs }: WorkloadSettings): Workload {
  return {
    start(port) {
      const { clock, random } = port;
      const system = randomText(random, SYSTEM_TOKENS);
      const arrive = (): void => {
        const prompt = joined(system, randomText(random, drawTokens(random, QUESTION)));
        port.send({ prompt, outputTokens: drawTokens(random, ANSWER) });
      };
      const wave = (from: number): void => {
        waveArrivals(port, Math.max(1, Math.round(rate)), from, Math.min(WAVE_WIDTH_MS, durationMs - from), arrive);
        const next = from + WAVE_EVERY_MS;
        if (next < durationMs) clock.after(next - clock.now(), () => wave(next));
      };
      wave(0);
    },
  };
}
