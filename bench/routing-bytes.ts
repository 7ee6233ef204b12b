/**
 * Routing of text that a tokenizer cuts more finely or more coarsely than into four bytes: the same workloads, with the
 * same tokens for the engines, as prompts of 2 to 12 bytes per token. What must hold: the time to first token stays within
 * 15 % of that with 4.
 *
 *   node bench/routing-bytes.ts [--bytes 2,4,8,12] [--seeds 10] [--only PART-OF-A-NAME] [--policy default]
 *
 * Virtual time: the figures are the same on every machine. What is judged is the mean over the seeds of the TTFT p90, as
 * single runs near the edge of a cache differ by how the prompts happen to be packed. The scheduler begins each run
 * without knowing anything of the model, and the warm-up of a workload is what it learns in.
 */
import { parseArgs } from "node:util";
import { CATALOGUE } from "../src/lab/study/catalogue.ts";
import { simulateSettings } from "../src/lab/study/simulate-settings.ts";
import { runStudy } from "../src/lab/study/study.ts";

const LIMIT = 1.15;
const USUAL = "4";

/** What is played: a workload, at which rate, on how many servers (absent = its own). */
const CASES: readonly { readonly name: string; readonly rate: string; readonly servers?: string }[] = [
  { name: "b2b-saas", rate: "60" },
  // Prompts for 84 % of what the caches hold.
  { name: "b2b-saas", rate: "40", servers: "7" },
  { name: "low-prefix-share", rate: "40" },
  { name: "tenants", rate: "71" },
  { name: "conversations", rate: "4" },
];

const { values } = parseArgs({
  options: {
    bytes: { type: "string", default: "2,4,8,12" },
    seeds: { type: "string", default: "10" },
    only: { type: "string", default: "" },
    policy: { type: "string", default: "default" },
  },
});

const others = values.bytes.split(",").filter((bytes) => bytes !== USUAL);
let failed = false;
for (const { name, rate, servers } of CASES) {
  const title = `${name} at ${rate}/s${servers === undefined ? "" : ` on ${servers} servers`}`;
  if (!title.includes(values.only)) continue;
  console.log(`\n# ${title}\n`);
  const usual = await played(name, rate, servers, USUAL);
  console.log(`4 bytes per token: TTFT p90 ${usual.ttft.toFixed(0)} ms, cache hits ${usual.hits.toFixed(3)}`);
  for (const bytes of others) {
    const one = await played(name, rate, servers, bytes);
    const ratio = one.ttft / usual.ttft;
    const met = ratio <= LIMIT;
    failed ||= !met;
    console.log(
      `${met ? "met    " : "NOT MET"}  ${bytes} bytes: TTFT p90 ${one.ttft.toFixed(0)} ms, ${ratio.toFixed(2)}x; cache hits ${one.hits.toFixed(3)}`,
    );
  }
}
if (failed) process.exitCode = 1;

/** Means over the seeds. */
async function played(
  name: string,
  rate: string,
  servers: string | undefined,
  bytesPerToken: string,
): Promise<{ readonly ttft: number; readonly hits: number }> {
  const flags = { policy: [values.policy], seeds: values.seeds, rate: [rate], bytesPerToken };
  const plan = simulateSettings([name], { ...flags, servers }, CATALOGUE);
  const { runs } = await runStudy(plan);
  const mean = (figures: readonly number[]): number => figures.reduce((sum, one) => sum + one, 0) / figures.length;
  return { ttft: mean(runs.map(({ ttft }) => ttft.p90)), hits: mean(runs.map(({ hitRate }) => hitRate)) };
}
