import type { RecordedCache } from "../../src/base/inference/decision-record.ts";
import { silentLogger } from "../../src/base/telemetry/logger.ts";
import { poissonArrivals } from "../../src/lab/simulator/workloads/arrivals.ts";
import { drawTokens } from "../../src/lab/simulator/workloads/draws.ts";
import { joined, randomText } from "../../src/lab/simulator/workloads/prompt-text.ts";
import { leadMs, type WorkloadDefinition } from "../../src/lab/simulator/workloads/workload.ts";
import { CATALOGUE } from "../../src/lab/study/catalogue.ts";
import type { Policy } from "../../src/lab/study/policies.ts";
import { play, Run } from "../../src/lab/study/run.ts";
import { type SimulateFlags, simulateSettings } from "../../src/lab/study/simulate-settings.ts";
import { runOptions, type StudyPlan } from "../../src/lab/study/study.ts";
import { traceSettings } from "../../src/lab/study/trace/trace-settings.ts";
import { checkedConfig } from "../../src/picker/core/config-source.ts";

/** A simulation in which it matters whether the picker knows what the servers have in their caches. */
export interface CacheCase {
  readonly name: string;
  /** Empty = the trace of the command line. */
  readonly workload: string;
  readonly flags: SimulateFlags;
  /** Blocks of a server's cache; absent = those of the preset. */
  readonly kvBlocks?: number;
  /** Milliseconds after which the next server loses its cache; absent = none does. */
  readonly restartEveryMs?: number;
  /** The approximate index is expected to err: always, or where it takes a token for four bytes whatever the text. */
  readonly errs?: "always" | "fixed";
}

const TEMPLATES = 800;

/** Many prompts with a common beginning, and short answers: what a server reports of its cache comes soon. */
const CLASSIFICATION: WorkloadDefinition = {
  name: "classification",
  about: "800 instructions of 3,000 tokens, each with texts of 200 tokens, and answers of about 20 tokens",
  ...{ rates: [320], rateUnit: "requests/s", servers: 8, preset: "llama-3-8b-h100", durationMs: 60_000 },
  warmUp: { rate: 60, durationMs: 60_000, restMs: 5_000 },
  make: ({ rate, durationMs, warmUp }) => ({
    start(port) {
      const { random } = port;
      const templates = Array.from({ length: TEMPLATES }, () => randomText(random, 3_000));
      const arrive = (): void => {
        const prompt = joined(templates[random.below(TEMPLATES)]!, randomText(random, 200));
        port.send({ prompt, outputTokens: drawTokens(random, { mean: 20, sigma: 0.5, least: 1, most: 100 }) });
      };
      const begin = leadMs(warmUp);
      if (warmUp !== undefined) poissonArrivals(port, warmUp.rate, warmUp.durationMs, arrive);
      port.clock.after(begin, () => poissonArrivals(port, rate, begin + durationMs, arrive));
    },
  }),
};

// The prompts of b2b-saas fill about 110,000 blocks, 13,800 for each of eight servers.
const B2B = "b2b-saas";
export const CACHE_CASES: readonly CacheCase[] = [
  { name: "b2b-saas, all fits", workload: B2B, flags: { rate: ["25"] } },
  { name: "b2b-saas, four times the cache", workload: B2B, flags: { rate: ["10"] }, kvBlocks: 3_450, errs: "always" },
  { name: "b2b-saas, cold", workload: B2B, flags: { rate: ["25"], cold: true } },
  { name: "b2b-saas, restarts", workload: B2B, flags: { rate: ["25"] }, restartEveryMs: 5_000, errs: "always" },
  { name: "b2b-saas, 2 bytes a token", workload: B2B, flags: { rate: ["25"], bytesPerToken: "2" } },
  { name: "b2b-saas, 8 bytes a token", workload: B2B, flags: { rate: ["25"], bytesPerToken: "8" }, errs: "fixed" },
  { name: "b2b-saas, 12 bytes a token", workload: B2B, flags: { rate: ["25"], bytesPerToken: "12" }, errs: "fixed" },
  { name: "conversations", workload: "conversations", flags: { rate: ["4"] } },
  { name: "conversations, restarts", workload: "conversations", flags: { rate: ["4"] }, restartEveryMs: 10_000 },
  { name: "tool calls", workload: "tool-calls", flags: { rate: ["14"] } },
  { name: "documents, 1x", workload: "working-set-1x", flags: { rate: ["10"] } },
  { name: "documents, 4x", workload: "working-set-4x", flags: { rate: ["4"] }, errs: "always" },
  { name: "documents, 1x, restarts", workload: "working-set-1x", flags: { rate: ["10"] }, restartEveryMs: 7_000 },
  { name: "classification", workload: "classification", flags: { rate: ["320"] } },
  { name: "classification, restarts", workload: "classification", flags: { rate: ["320"] }, restartEveryMs: 7_000 },
];
/** The trace of the command line. */
export const TRACE_CASE: CacheCase = { name: "trace", workload: "", flags: {} };

/** The figures of a policy in a case, as means over the seeds. */
export interface CacheFigures {
  /** Milliseconds. */
  readonly ttft: number;
  /** Share of the prompt tokens that the servers found in their caches. */
  readonly hits: number;
  /** Share of the prompt tokens that the index expected at the chosen server, but the server computed. */
  readonly vain: number;
  /** Share of the prompt tokens that the chosen server had, but the index did not expect. */
  readonly unforeseen: number;
}

/** Plays a case under policies. @param trace a file of `sluice simulate --trace`, for the case without a workload */
export async function playCase(
  { workload, flags, kvBlocks, restartEveryMs }: CacheCase,
  policies: readonly Policy[],
  seeds: string,
  trace: { readonly file: string; readonly window: string; readonly speed: string },
): Promise<CacheFigures[]> {
  const catalogue = { ...CATALOGUE, policies, workloads: [...CATALOGUE.workloads, CLASSIFICATION] };
  const given = { ...flags, policy: policies.map(({ name }) => name), seeds };
  const asked: StudyPlan =
    workload === ""
      ? (await traceSettings(trace.file, { ...given, window: trace.window, speed: trace.speed }, catalogue)).plan
      : simulateSettings([workload], given, catalogue);
  const planned = asked.workloads[0]!;
  const { preset } = planned;
  const config = { ...preset.config, kvBlocks: kvBlocks ?? preset.config.kvBlocks };
  const own = { ...planned, restartEveryMs, preset: { ...preset, config } };
  const figures: CacheFigures[] = [];
  for (const { source } of policies) {
    const sums = { ttft: 0, hits: 0 };
    const tokens = { all: 0, vain: 0, unforeseen: 0 };
    const cached = ({ predicted, events, reported, prompt }: Readonly<RecordedCache>): void => {
      // Where both indexes are configured, the scorers read the events. An estimate may be longer than the prompt.
      const expected = Math.min(Number.isNaN(events) ? predicted : events, prompt);
      tokens.all += prompt;
      tokens.vain += Math.max(0, expected - reported);
      tokens.unforeseen += Math.max(0, reported - expected);
    };
    for (const seed of asked.seeds) {
      const decides = { config: await checkedConfig(source!, silentLogger) };
      const run = new Run({ ...runOptions(own, planned.rates[0]!, seed), decides, cached });
      await play(run);
      const { ttft, hitRate } = run.figures();
      sums.ttft += ttft.p90;
      sums.hits += hitRate;
    }
    const seeds = asked.seeds.length;
    const { all, vain, unforeseen } = tokens;
    figures.push({ ttft: sums.ttft / seeds, hits: sums.hits / seeds, vain: vain / all, unforeseen: unforeseen / all });
  }
  return figures;
}
