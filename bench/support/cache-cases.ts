import { CATALOGUE } from "../../src/lab/study/catalogue.ts";
import type { Policy } from "../../src/lab/study/policies.ts";
import { type SimulateFlags, simulateSettings } from "../../src/lab/study/simulate-settings.ts";
import { runStudy, type StudyPlan } from "../../src/lab/study/study.ts";
import { traceSettings } from "../../src/lab/study/trace/trace-settings.ts";

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
  /** The approximate index is expected to err. */
  readonly errs?: boolean;
}

// The prompts of b2b-saas fill about 110,000 blocks, 13,800 for each of eight servers.
const B2B = "b2b-saas";
export const CACHE_CASES: readonly CacheCase[] = [
  { name: "b2b-saas, all fits", workload: B2B, flags: { rate: ["25"] } },
  { name: "b2b-saas, four times the cache", workload: B2B, flags: { rate: ["10"] }, kvBlocks: 3_450, errs: true },
  { name: "b2b-saas, cold", workload: B2B, flags: { rate: ["25"], cold: true } },
  { name: "b2b-saas, restarts", workload: B2B, flags: { rate: ["25"] }, restartEveryMs: 5_000, errs: true },
  { name: "b2b-saas, 2 bytes a token", workload: B2B, flags: { rate: ["25"], bytesPerToken: "2" } },
  { name: "b2b-saas, 8 bytes a token", workload: B2B, flags: { rate: ["25"], bytesPerToken: "8" }, errs: true },
  { name: "b2b-saas, 12 bytes a token", workload: B2B, flags: { rate: ["25"], bytesPerToken: "12" }, errs: true },
  { name: "conversations", workload: "conversations", flags: { rate: ["4"] } },
  { name: "conversations, restarts", workload: "conversations", flags: { rate: ["4"] }, restartEveryMs: 10_000 },
  { name: "documents, 1x", workload: "working-set-1x", flags: { rate: ["10"] } },
  { name: "documents, 4x", workload: "working-set-4x", flags: { rate: ["4"] }, errs: true },
  { name: "documents, 1x, restarts", workload: "working-set-1x", flags: { rate: ["10"] }, restartEveryMs: 7_000 },
];
/** The trace of the command line. */
export const TRACE_CASE: CacheCase = { name: "trace", workload: "", flags: {} };

/** The figures of a policy in a case, as means over the seeds. */
export interface CacheFigures {
  /** Milliseconds. */
  readonly ttft: number;
  /** Share of the prompt tokens that the servers found in their caches. */
  readonly hits: number;
}

/** Plays a case under policies. @param trace a file of `sluice simulate --trace`, for the case without a workload */
export async function playCase(
  { workload, flags, kvBlocks, restartEveryMs }: CacheCase,
  policies: readonly Policy[],
  seeds: string,
  trace: { readonly file: string; readonly window: string; readonly speed: string },
): Promise<CacheFigures[]> {
  const catalogue = { ...CATALOGUE, policies };
  const given = { ...flags, policy: policies.map(({ name }) => name), seeds };
  const asked: StudyPlan =
    workload === ""
      ? (await traceSettings(trace.file, { ...given, window: trace.window, speed: trace.speed }, catalogue)).plan
      : simulateSettings([workload], given, catalogue);
  const workloads = asked.workloads.map((planned) => {
    const { preset } = planned;
    const config = { ...preset.config, kvBlocks: kvBlocks ?? preset.config.kvBlocks };
    return { ...planned, restartEveryMs, preset: { ...preset, config } };
  });
  const { runs } = await runStudy({ ...asked, workloads });
  return policies.map(({ name }) => {
    const own = runs.filter((run) => run.policy === name);
    const mean = (figures: readonly number[]): number => figures.reduce((sum, x) => sum + x, 0) / figures.length;
    return { ttft: mean(own.map(({ ttft }) => ttft.p90)), hits: mean(own.map(({ hitRate }) => hitRate)) };
  });
}
