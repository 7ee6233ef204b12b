/**
 * Exact prefix matches beside approximate ones, in the simulation: the same profile, once with the KV-cache events of the servers and
 * once with what the picker assumes. What must hold: exact matches are never worse than approximate ones by more than 3 % in the TTFT
 * p90, and at least 20 % better where the approximate index errs.
 *
 *   node bench/routing-precise.ts [--seeds 5] [--only PART-OF-A-NAME] [--pair llm-d|default]
 *
 * Virtual time: the figures are the same on every machine. What is judged is the mean over the seeds of the TTFT p90.
 */
import { parseArgs } from "node:util";
import { CATALOGUE } from "../src/lab/study/catalogue.ts";
import { type SimulateFlags, simulateSettings } from "../src/lab/study/simulate-settings.ts";
import { runStudy } from "../src/lab/study/study.ts";

const NEVER_WORSE = 1.03;
const BETTER = 0.8;

interface Case {
  readonly name: string;
  readonly workload: string;
  readonly flags: SimulateFlags;
  /** Blocks of a server's cache; absent = those of the preset. */
  readonly kvBlocks?: number;
  /** The approximate index is expected to err. */
  readonly errs?: boolean;
}

// The prompts of b2b-saas fill about 110,000 blocks, 13,800 for each of eight servers.
const CASES: readonly Case[] = [
  { name: "b2b-saas, all fits", workload: "b2b-saas", flags: { rate: ["25"] } },
  {
    name: "b2b-saas, four times the cache",
    workload: "b2b-saas",
    flags: { rate: ["10"] },
    kvBlocks: 3_450,
    errs: true,
  },
  { name: "b2b-saas, cold", workload: "b2b-saas", flags: { rate: ["25"], cold: true } },
  { name: "b2b-saas, 2 bytes a token", workload: "b2b-saas", flags: { rate: ["25"], bytesPerToken: "2" } },
  { name: "b2b-saas, 8 bytes a token", workload: "b2b-saas", flags: { rate: ["25"], bytesPerToken: "8" }, errs: true },
  {
    name: "b2b-saas, 12 bytes a token",
    workload: "b2b-saas",
    flags: { rate: ["25"], bytesPerToken: "12" },
    errs: true,
  },
  { name: "conversations", workload: "conversations", flags: { rate: ["4"] } },
];
const PAIRS: Readonly<Record<string, readonly [string, string]>> = {
  "llm-d": ["llm-d-defaults", "llm-d-precise"],
  default: ["default", "default-precise"],
};

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "5" },
    only: { type: "string", default: "" },
    pair: { type: "string", default: "default" },
  },
});
const pair = PAIRS[values.pair] ?? PAIRS["default"]!;
let failed = false;
for (const one of CASES) {
  if (!one.name.includes(values.only)) continue;
  const [approximate, exact] = await played(one);
  const ratio = exact!.ttft / approximate!.ttft;
  const limit = one.errs ? BETTER : NEVER_WORSE;
  const met = ratio <= limit;
  failed ||= !met;
  console.log(
    `${met ? "met    " : "NOT MET"}  ${one.name}: ${pair[1]} ${exact!.ttft.toFixed(0)} ms, ${pair[0]} ${approximate!.ttft.toFixed(0)} ms TTFT p90, ${ratio.toFixed(2)}x (limit ${limit}); hits ${exact!.hits.toFixed(3)} and ${approximate!.hits.toFixed(3)}`,
  );
}
if (failed) process.exitCode = 1;

/** Means over the seeds, for each policy of the pair. */
async function played({
  workload,
  flags,
  kvBlocks,
}: Case): Promise<{ readonly ttft: number; readonly hits: number }[]> {
  const asked = simulateSettings([workload], { ...flags, policy: pair, seeds: values.seeds }, CATALOGUE);
  const workloads = asked.workloads.map((planned) => {
    const { preset } = planned;
    const config = { ...preset.config, kvBlocks: kvBlocks ?? preset.config.kvBlocks };
    return { ...planned, preset: { ...preset, config } };
  });
  const plan = { ...asked, workloads };
  const { runs } = await runStudy(plan);
  return pair.map((policy) => {
    const own = runs.filter((run) => run.policy === policy);
    const mean = (figures: readonly number[]): number => figures.reduce((sum, x) => sum + x, 0) / figures.length;
    return { ttft: mean(own.map(({ ttft }) => ttft.p90)), hits: mean(own.map(({ hitRate }) => hitRate)) };
  });
}
