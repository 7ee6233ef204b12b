import { type RunResult, type Spread, type Study, spread } from "../../src/lab/study/result.ts";

/** What must hold of one or more workloads, and how it is judged. */
export interface Requirement {
  readonly title: string;
  readonly workloads: readonly string[];
  /** As the workload says, unless given. */
  readonly rates?: readonly number[];
  readonly policies: readonly string[];
  /** Configurations in `bench/data` that are policies beside those, by the names of their files. */
  readonly configs?: readonly string[];
  /** Whether requests may be refused: the workload has some that may be shed. */
  readonly sheds?: boolean;
  judge(study: Study): readonly Verdict[];
}

export interface Verdict {
  readonly met: boolean;
  readonly text: string;
}

type Figure = (run: RunResult) => number;

/** Our own profiles: what is said of "ours" holds of both. */
const OURS = ["default", "sticky-until-saturated"] as const;
/** The reference's: what was published of a cache-aware policy was measured with it. */
const PUBLISHED = "classic-blend";

/** Our profiles as they were before ADR 17, with a scale of 65,536 pending tokens. */
const BEFORE: Readonly<Record<(typeof OURS)[number], string>> = {
  default: "default-of-adr-15.yaml",
  "sticky-until-saturated": "sticky-of-adr-15.yaml",
};

/** Where no TTFT p90 may have grown with ADR 17: rates that show each workload at ease and under load. */
const COMPARED: Readonly<Record<string, readonly number[] | undefined>> = {
  "b2b-saas": [3, 30, 60],
  "low-prefix-share": [20, 60],
  "hot-prefix": [20, 30, 40],
  bursts: [200, 400, 800],
  "staleness-5s": [40],
  tenants: [30, 71],
  "realtime-and-batch": undefined,
  "lora-tiers": [20, 100, 180],
  conversations: [2],
  "long-documents": undefined,
  agents: undefined,
  "working-set-0.5x": undefined,
  "working-set-1x": undefined,
  "working-set-4x": undefined,
  "hot-document": undefined,
  "tenants-fresh": undefined,
};

/** The runs of one workload, rate and policy, by seed. */
function runsOf(study: Study, workload: string, rate: number, policy: string): readonly RunResult[] {
  return study.runs.filter((run) => run.workload === workload && run.rate === rate && run.policy === policy);
}

function figures(study: Study, workload: string, rate: number, policy: string, figure: Figure): readonly number[] {
  return runsOf(study, workload, rate, policy).map(figure);
}

/** Ratios seed by seed of one policy's figure to another's. */
function ratios(
  study: Study,
  [workload, rate]: readonly [string, number],
  [one, other]: readonly [string, string],
  figure: Figure,
): Spread {
  const others = new Map(runsOf(study, workload, rate, other).map((run) => [run.seed, figure(run)]));
  return spread(runsOf(study, workload, rate, one).map((run) => figure(run) / (others.get(run.seed) ?? Number.NaN)));
}

/**
 * Whether a requirement is met. Whoever refuses requests has shorter times for the others: such figures compare with nobody's,
 * so all that came must have been answered, under every policy.
 */
export function judged({ judge, sheds = false }: Requirement, study: Study): readonly Verdict[] {
  const lost = sheds ? [] : study.runs.filter((run) => run.finished !== run.requests);
  const refusals = [...new Set(lost.map(({ policy }) => policy))].map((policy) => {
    const runs = lost.filter((run) => run.policy === policy);
    const most = Math.max(...runs.map((run) => run.requests - run.finished));
    return {
      met: false,
      text: `${policy}: in ${runs.length} runs not all requests were answered, up to ${most} were not`,
    };
  });
  return [...refusals, ...judge(study)];
}

function ratesOf(study: Study, workload: string): readonly number[] {
  return study.workloads.find(({ name }) => name === workload)!.rates;
}

const text = ({ min, median, max }: Spread, digits = 2): string =>
  `${median.toFixed(digits)} (${min.toFixed(digits)} to ${max.toFixed(digits)})`;

const p90: Figure = ({ ttft }) => ttft.p90;
const p99: Figure = ({ ttft }) => ttft.p99;
const p99Of =
  (kind: string): Figure =>
  (run) =>
    run.kinds.find((one) => one.kind === kind)!.ttft.p99;
const mean: Figure = ({ ttft }) => ttft.mean;
const e2e: Figure = (run) => run.e2e.mean;
const tokens: Figure = (run) => run.outputTokensPerSecond;

/** The rate at which a policy's TTFT p90 passes `KNEE_TTFT_MS`, between two rates of the ladder by interpolation. */
function knee(study: Study, workload: string, policy: string): number {
  let before = { rate: 0, share: 0 };
  for (const rate of ratesOf(study, workload)) {
    const waits = spread(figures(study, workload, rate, policy, p90)).median;
    const share = waits / KNEE_TTFT_MS;
    if (share > 1) return before.rate + ((1 - before.share) / (share - before.share)) * (rate - before.rate);
    before = { rate, share };
  }
  return Number.POSITIVE_INFINITY;
}

/** A p90 of the time to first token beyond which a ladder is past its knee, milliseconds. */
const KNEE_TTFT_MS = 2000;

function within(value: number, least: number, most: number, tolerance = 0.25): boolean {
  return value >= least * (1 - tolerance) && value <= most * (1 + tolerance);
}

/** Two figures this close are the same: it is what one answer more or less at the end of a run makes. */
const SAME = 0.005;
const TOP = 60;
const B2B = "b2b-saas";

export const REQUIREMENTS: readonly Requirement[] = [
  {
    title:
      "the published shape: round robin's knee at about 18/s, output 2.0 to 2.1x of round robin's at the top, each within 25 %",
    workloads: [B2B],
    policies: ["round-robin", "least-active", "scraped-queue", PUBLISHED, ...OURS],
    judge(study) {
      const at = knee(study, B2B, "round-robin");
      const verdicts = [
        {
          met: within(at, 18, 18),
          text: `round robin's TTFT p90 passes ${KNEE_TTFT_MS / 1000} s at ${at.toFixed(1)}/s`,
        },
      ];
      for (const policy of [PUBLISHED, ...OURS]) {
        const ratio = ratios(study, [B2B, TOP], [policy, "round-robin"], tokens);
        verdicts.push({
          met: within(ratio.median, 2.0, 2.1),
          text: `${policy}: ${text(ratio)}x the output tokens/s at ${TOP}/s`,
        });
      }
      return verdicts;
    },
  },
  {
    title: `${B2B} at ${TOP}/s: TTFT p90 at least 100x better than round robin's, output tokens/s at least 2x`,
    workloads: [B2B],
    rates: [TOP],
    policies: ["round-robin", ...OURS],
    judge: (study) =>
      OURS.flatMap((policy) => {
        const times = ratios(study, [B2B, TOP], ["round-robin", policy], p90);
        const more = ratios(study, [B2B, TOP], [policy, "round-robin"], tokens);
        return [
          { met: times.median >= 100, text: `${policy}: TTFT p90 ${text(times, 0)}x better` },
          { met: more.median >= 2, text: `${policy}: ${text(more)}x the output tokens/s` },
        ];
      }),
  },
  {
    title: "low prefix share: none of ours more than 5 % worse than least-active",
    workloads: ["low-prefix-share"],
    policies: ["least-active", "round-robin", ...OURS],
    judge: (study) =>
      ratesOf(study, "low-prefix-share").flatMap((rate) =>
        OURS.map((policy) => {
          const pair = [policy, "least-active"] as const;
          const [slower, slowest, longer, fewer] = [mean, p90, e2e, tokens].map((figure) =>
            ratios(study, ["low-prefix-share", rate], pair, figure),
          ) as [Spread, Spread, Spread, Spread];
          return {
            met: slower.median <= 1.05 && slowest.median <= 1.05 && longer.median <= 1.05 && fewer.median >= 0.95,
            text: `${policy} at ${rate}/s: TTFT mean ${text(slower)}x, p90 ${text(slowest)}x, whole answers ${text(longer)}x, output tokens/s ${text(fewer)}x`,
          };
        }),
      ),
  },
  {
    title: "bursts: not worse than least-request (half a percent counts as the same)",
    workloads: ["bursts"],
    policies: ["least-request", "least-active", "round-robin", ...OURS],
    judge: (study) =>
      ratesOf(study, "bursts").flatMap((rate) =>
        OURS.map((policy) => {
          const [slower, slowest, fewer] = [mean, p90, tokens].map((figure) =>
            ratios(study, ["bursts", rate], [policy, "least-request"], figure),
          ) as [Spread, Spread, Spread];
          return {
            met: slower.median <= 1 + SAME && slowest.median <= 1 + SAME && fewer.median >= 1 - SAME,
            text: `${policy} at ${rate}: TTFT mean ${text(slower)}x, p90 ${text(slowest)}x, output tokens/s ${text(fewer)}x`,
          };
        }),
      ),
  },
  {
    title: "hot prefix: max/mean load under 1.3 once it is let go",
    workloads: ["hot-prefix"],
    policies: ["least-active", "classic-blend", ...OURS],
    judge: (study) =>
      ratesOf(study, "hot-prefix").flatMap((rate) =>
        OURS.map((policy) => {
          const load = spread(figures(study, "hot-prefix", rate, policy, (run) => run.maxToMeanLoad));
          return { met: load.median < 1.3, text: `${policy} at ${rate}/s: ${text(load)}` };
        }),
      ),
  },
  {
    title: "figures 5 s old against new ones: TTFT p99 within 25 %",
    workloads: ["staleness-0s", "staleness-5s"],
    policies: ["least-active", "scraped-queue", "classic-blend", ...OURS],
    judge: (study) =>
      ratesOf(study, "staleness-0s").flatMap((rate) =>
        OURS.map((policy) => {
          const of = (workload: string, seed: number) =>
            runsOf(study, workload, rate, policy).find((run) => run.seed === seed)?.ttft.p99 ?? Number.NaN;
          const ratio = spread(study.seeds.map((seed) => of("staleness-5s", seed) / of("staleness-0s", seed)));
          return { met: ratio.median <= 1.25, text: `${policy} at ${rate}/s: ${text(ratio)}x` };
        }),
      ),
  },
  {
    title: "LoRA: adapters loaded at least 3x less often than without affinity",
    workloads: ["lora-tiers"],
    policies: ["round-robin", "least-active", "classic-blend", ...OURS],
    judge: (study) =>
      ratesOf(study, "lora-tiers").flatMap((rate) =>
        OURS.map((policy) => {
          const fewer = ratios(study, ["lora-tiers", rate], ["least-active", policy], (run) => run.adapterLoads);
          return {
            met: fewer.median >= 3,
            text: `${policy} at ${rate}/s: ${text(fewer)}x less often than least-active`,
          };
        }),
      ),
  },
  {
    title:
      "documents among chats: TTFT p99 of the documents at least 30 % shorter than before ADR 17, that of the chats no longer",
    workloads: ["long-documents"],
    rates: [15, 20, 25],
    policies: OURS,
    configs: Object.values(BEFORE),
    judge: (study) =>
      ratesOf(study, "long-documents").flatMap((rate) =>
        OURS.map((policy) => {
          const [documents, chats] = ["document", "chat"].map((kind) =>
            ratios(study, ["long-documents", rate], [policy, BEFORE[policy]], p99Of(kind)),
          ) as [Spread, Spread];
          return {
            met: documents.median <= 0.7 && chats.median <= 1.05,
            text: `${policy} at ${rate}/s: documents ${text(documents)}x, chats ${text(chats)}x`,
          };
        }),
      ),
  },
  ...Object.entries(COMPARED).map(
    ([workload, rates]): Requirement => ({
      title: `${workload}: TTFT p90 not more than 5 % longer than before ADR 17, output tokens/s not more than 5 % fewer`,
      workloads: [workload],
      ...(rates === undefined ? {} : { rates }),
      policies: OURS,
      configs: Object.values(BEFORE),
      sheds: workload === "realtime-and-batch",
      judge: (study) =>
        ratesOf(study, workload).flatMap((rate) =>
          OURS.map((policy) => {
            const [tenth, hundredth, output] = [p90, p99, tokens].map((figure) =>
              ratios(study, [workload, rate], [policy, BEFORE[policy]], figure),
            ) as [Spread, Spread, Spread];
            return {
              met: tenth.median <= 1.05 && output.median >= 0.95,
              text: `${policy} at ${rate}: p90 ${text(tenth)}x, p99 ${text(hundredth)}x, output tokens/s ${text(output)}x`,
            };
          }),
        ),
    }),
  ),
];
