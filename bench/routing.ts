/**
 * Routing policies against each other in simulation, and what must hold of ours: each workload of `sluice simulate` with
 * many seeds, the least, the median and the most of each figure, and a line per requirement: met or not, with the numbers.
 *
 *   node bench/routing.ts [--seeds 10] [--only PART-OF-A-TITLE] [--config-file FILE]... [--html FILE] [--speed REQUESTS]
 *
 * Virtual time: the figures are the same on every machine, but for the speed of the simulation itself. That is measured with
 * `--speed` requests (100,000 unless given, 0 = not) of b2b-saas on eight servers, beside the same arrivals at the same
 * engines without a scheduler, and beside a virtual clock that fires as many timers which do nothing.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { CATALOGUE } from "../src/lab/study/catalogue.ts";
import { renderReport } from "../src/lab/study/report/report.ts";
import type { StudiedWorkload, Study } from "../src/lab/study/result.ts";
import { simulateSettings } from "../src/lab/study/simulate-settings.ts";
import { speedOf } from "../src/lab/study/speed.ts";
import { runOptions, runStudy, type StudyPlan } from "../src/lab/study/study.ts";
import { studyText } from "../src/lab/study/study-text.ts";
import { loadConfig } from "../src/picker/config/load.ts";
import { PLUGIN_REGISTRY } from "../src/picker/core/plugins/plugins.ts";
import { emptyClock } from "./support/empty-clock.ts";
import { judged, REQUIREMENTS, type Requirement, type Verdict } from "./support/routing-requirements.ts";

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "10" },
    only: { type: "string", default: "" },
    "config-file": { type: "string", multiple: true, default: [] },
    html: { type: "string" },
    speed: { type: "string", default: "100000" },
  },
});

function planOf({ workloads, policies, rates, configs = [] }: Requirement): StudyPlan {
  return simulateSettings(
    workloads,
    {
      policy: policies,
      configFile: [...configs.map((name) => join(import.meta.dirname, "data", name)), ...values["config-file"]],
      seeds: values.seeds,
      rate: rates?.map(String) ?? ["all"],
    },
    CATALOGUE,
  );
}

const started = performance.now();
const studies: Study[] = [];
const summary: string[] = [];
for (const requirement of REQUIREMENTS) {
  if (!requirement.title.includes(values.only)) continue;
  console.log(`\n# ${requirement.title}\n`);
  let shown = 0;
  const study = await runStudy(planOf(requirement), {
    onProgress({ done, total, share }) {
      const now = performance.now();
      if (now - shown < 5000) return;
      shown = now;
      console.error(`  ${Math.round(share * 100)} %, ${done} of ${total} runs`);
    },
  });
  studies.push(study);
  console.log(studyText(study, { planned: study.runs.length }));
  for (const verdict of judged(requirement, study)) tell(requirement.title, verdict);
}

if (values.html !== undefined) writeFileSync(values.html, await renderReport(together(studies)));
if (Number(values.speed) > 0) await printSpeed(Number(values.speed));
console.log(`\n# Summary of ${values.seeds} seeds, ${((performance.now() - started) / 1000).toFixed(0)} s\n`);
for (const line of summary) console.log(line);

function tell(title: string, { met, text }: Verdict): void {
  console.log(`${met ? "met    " : "NOT MET"}  ${text}`);
  summary.push(`${met ? "met    " : "NOT MET"}  ${title}\n           ${text}`);
}

/** The studies as one, for the report; a run that several made counts once, and a workload has the rates of all of them. */
function together(all: readonly Study[]): Study {
  const workloads = new Map<string, StudiedWorkload>();
  for (const one of all.flatMap((study) => study.workloads)) {
    const rates = [...new Set([...(workloads.get(one.name)?.rates ?? []), ...one.rates])].sort((a, b) => a - b);
    workloads.set(one.name, { ...one, rates });
  }
  const policies = new Map(all.flatMap((study) => study.policies.map((one) => [one.name, one] as const)));
  const key = ({ workload, rate, policy, seed }: Study["runs"][number]): string =>
    `${workload} ${rate} ${policy} ${seed}`;
  const runs = new Map(all.flatMap((study) => study.runs.map((one) => [key(one), one] as const)));
  return {
    ...all[0]!,
    ...{ workloads: [...workloads.values()], policies: [...policies.values()] },
    // Each study has policies of its own, so it is not each workload under each of them.
    ...{ runs: [...runs.values()], planned: runs.size },
  };
}

/** How fast `requests` of b2b-saas are simulated with the default profile. */
async function printSpeed(requests: number): Promise<void> {
  const { workloads } = simulateSettings(["b2b-saas"], {}, CATALOGUE);
  const rate = 40;
  const workload = { ...workloads[0]!, durationMs: (requests / rate) * 1000 };
  const config = loadConfig(undefined, PLUGIN_REGISTRY);
  const speed = (await speedOf(() => runOptions(workload, rate, 1), config))!;
  const clock = emptyClock(speed.events, workload.servers * 4);
  const { requestsPerSecond, bareRequestsPerSecond } = speed;
  console.log(
    `\n# Speed: ${speed.requests} requests of b2b-saas over ${workload.servers} servers at ${rate}/s, one core\n`,
  );
  console.log(
    `with the scheduler      ${requestsPerSecond.toFixed(0)} requests/s, ${(speed.requests / requestsPerSecond).toFixed(1)} s`,
  );
  console.log(`arrivals, engines alone ${bareRequestsPerSecond.toFixed(0)} requests/s`);
  console.log(
    `an empty clock          ${(speed.requests / clock).toFixed(0)} requests/s' worth of ${speed.events} timers; ${(requestsPerSecond / (speed.requests / clock)).toFixed(3)} of it`,
  );
  const share = requestsPerSecond / bareRequestsPerSecond;
  tell("speed: at least a quarter of a bare run", {
    met: share >= 0.25,
    text: `${share.toFixed(2)} of the requests/s of the same arrivals at the same engines without a scheduler`,
  });
}
