import {
  anyFlowControl,
  type KindResult,
  type RunResult,
  type Spread,
  type StudiedWorkload,
  type Study,
} from "../result.ts";
import {
  advantage,
  FIGURES,
  type Figure,
  formatted,
  KIND_FIGURES,
  NO_NUMBER,
  number,
  standing,
  TTFT_P90,
} from "./figures.ts";
import { type Html, html } from "./html.ts";
import { type StudyIndex, spreadOf } from "./study-index.ts";

/** From this many kinds on (tenants) the table has fewer figures, so the page stays small. */
const MANY_KINDS = 12;
const FEW_FIGURES = KIND_FIGURES.filter(({ name }) => ["TTFT p90", "Finished", "Rejected"].includes(name));

const NOTHING = html``;

/** One figure of every policy, over seeds. */
interface Row {
  readonly figure: Figure<never>;
  readonly spreads: readonly Spread[];
  /** Whether each policy takes part in the comparison: without a finished request it would have the fewest preemptions, too. */
  readonly eligible: readonly boolean[];
}

/** Which policies are as good as the best one within the shown digits; none when all are. */
function best({ figure, spreads, eligible }: Row): boolean[] {
  const able = spreads.map(({ median }, i) => eligible[i]! && Number.isFinite(median));
  const medians = spreads.filter((_, i) => able[i]).map(({ median }) => median);
  if (medians.length < 2) return spreads.map(() => false);
  const winner = formatted(figure.better === "less" ? Math.min(...medians) : Math.max(...medians), figure.unit);
  const found = spreads.map(({ median }, i) => able[i]! && formatted(median, figure.unit) === winner);
  return found.filter(Boolean).length === medians.length ? spreads.map(() => false) : found;
}

/** The comparison with the first policy, such as `142x better`; empty when one of the two has no figure. */
function held(median: number, first: number, { better }: Figure<never>): string {
  const stands = standing(median, first, better);
  if (stands === undefined || (median === 0 && first === 0)) return "";
  return stands.equal ? "same" : `${advantage(stands.factor)} ${stands.ahead ? "better" : "worse"}`;
}

/** The median, the range over seeds if there is one, and the comparison with the first policy. */
function cell({ min, median, max }: Spread, { unit }: Figure<never>, against: string, winner: boolean): Html {
  const [low, middle, high] = [formatted(min, unit), formatted(median, unit), formatted(max, unit)];
  const mark = winner ? html` <em>best</em>` : NOTHING;
  const range = low === high ? NOTHING : html`<small>${low} to ${high}</small>`;
  return html`<td><b>${middle}</b>${mark}${range}${against === "" ? NOTHING : html`<i>${against}</i>`}</td>`;
}

function row(label: string, data: Row): Html {
  const { figure, spreads, eligible } = data;
  const winners = best(data);
  const cells = spreads.map((spread, i) => {
    const against = i === 0 || !eligible[0] || !eligible[i] ? "" : held(spread.median, spreads[0]!.median, figure);
    return cell(spread, figure, against, winners[i]!);
  });
  return html`<tr><th scope="row">${label}</th>${cells}</tr>\n`;
}

function table(caption: string, corner: string, study: Study, bodies: readonly Html[]): Html {
  return html`<div class="scroll" tabindex="0" role="region" aria-label="${caption}"><table>
<caption>${caption}</caption>
<thead><tr><th scope="col">${corner}</th>${study.policies.map(({ name }) => html`<th scope="col">${name}</th>`)}</tr></thead>
${bodies}</table></div>
`;
}

/** Leaves out rows without information, such as adapter loads when no policy loads an adapter. */
function worthShowing({ figure, spreads }: Row): boolean {
  return figure.unlessZero === undefined || spreads.some(({ max, min }) => max > 0 || min > 0);
}

/** A row for each reason of refusals. */
function refusalRows(index: StudyIndex, workload: StudiedWorkload, rate: number): readonly Figure[] {
  const runs = index.runsOf(workload).filter((run) => run.rate === rate);
  const reasons = [...new Set(runs.flatMap(({ refusals }) => Object.keys(refusals)))].sort();
  return reasons.map((reason) => ({
    ...{ name: `Rejected: ${reason.replaceAll("_", " ")}`, unit: "count", better: "less" },
    of: ({ refusals }) => refusals[reason] ?? 0,
  }));
}

/** Every figure of every policy at one rate. */
export function rateTable(index: StudyIndex, workload: StudiedWorkload, rate: number): Html {
  const { policies } = index.study;
  const eligible = policies.map(({ name }) => index.runs(workload, rate, name).some(({ finished }) => finished > 0));
  const rows = [...FIGURES, ...refusalRows(index, workload, rate)].map((figure): Row => {
    const spreads = policies.map(({ name }) => index.spread(workload, rate, name, figure));
    return { figure: figure as Figure<never>, spreads, eligible };
  });
  const body = html`<tbody>${rows.filter(worthShowing).map((data) => row(data.figure.name, data))}</tbody>`;
  const caption = `${workload.name} at ${number(rate)} ${workload.rateUnit}`;
  return table(caption, "Median over seeds", index.study, [body]);
}

/** A sort of groups of requests, and where a run has their results. */
export interface Grouping {
  /** Such as `kind`. */
  readonly name: string;
  of(run: RunResult): readonly KindResult[];
}

/** The groupings of a workload that say something: tenants and priorities only with flow control, and if there are several. */
export function groupingsOf(index: StudyIndex, workload: StudiedWorkload): readonly Grouping[] {
  const runs = index.runsOf(workload);
  const kinds: Grouping = { name: "kind", of: (run) => run.kinds };
  const further: readonly Grouping[] = [
    { name: "tenant", of: (run) => run.tenants },
    { name: "priority", of: (run) => run.priorities },
  ];
  return [kinds, ...(anyFlowControl(runs) ? further.filter(({ of }) => runs.some((run) => of(run).length > 1)) : [])];
}

/** The groups in the runs of a workload, in the order of their first appearance. */
function groupsOf(index: StudyIndex, workload: StudiedWorkload, { of }: Grouping): string[] {
  return [...new Set(index.runsOf(workload).flatMap((run) => of(run).map(({ kind }) => kind)))];
}

/** The results of each group of requests at one rate: rows for each figure; undefined without groups. */
export function groupTable(
  index: StudyIndex,
  workload: StudiedWorkload,
  rate: number,
  grouping: Grouping,
): Html | undefined {
  const { policies } = index.study;
  const groups = groupsOf(index, workload, grouping);
  if (groups.length === 0) return undefined;
  const figures = groups.length < MANY_KINDS ? KIND_FIGURES : FEW_FIGURES;
  const found = (policy: string, group: string): KindResult[] =>
    index.runs(workload, rate, policy).flatMap((run) => grouping.of(run).filter(({ kind }) => kind === group));
  const bodies = figures.map((figure) => {
    const rows = groups
      .map((group): Row & { readonly group: string } => {
        const results = policies.map(({ name }) => found(name, group));
        return {
          group,
          figure: figure as Figure<never>,
          spreads: results.map((of) => spreadOf(of.map((result) => figure.of(result)))),
          eligible: results.map((of) => of.some(({ finished }) => finished > 0)),
        };
      })
      .filter(worthShowing);
    if (rows.length === 0) return NOTHING;
    return html`<tbody><tr class="group"><th scope="rowgroup">${figure.name}</th>${policies.map(() => html`<td></td>`)}</tr>${rows.map((data) => row(data.group, data))}</tbody>\n`;
  });
  const caption = `${workload.name} by ${grouping.name} at ${number(rate)} ${workload.rateUnit}`;
  return table(caption, "Median over seeds", index.study, bodies);
}

/** TTFT p90 of every policy at the top rate of every workload. */
export function glanceTable(index: StudyIndex): Html {
  const { policies, workloads } = index.study;
  const rows = workloads.flatMap((workload) => {
    const rate = index.topRate(workload);
    if (rate === undefined) return [];
    const spreads = policies.map(({ name }) => index.spread(workload, rate, name, TTFT_P90));
    const label = `${workload.name} at ${number(rate)} ${workload.rateUnit}`;
    return [row(label, { figure: TTFT_P90 as Figure<never>, spreads, eligible: policies.map(() => true) })];
  });
  return table("TTFT p90 at each workload's top rate", "Workload", index.study, [html`<tbody>${rows}</tbody>`]);
}

/** The explanation of the tables. */
export function legend(study: Study): Html {
  const first = study.policies[0]?.name ?? "";
  return html`<p class="note">In each cell: the median over seeds; below it the minimum and the maximum, if they differ, and its ratio to ${first}.
<em>best</em> marks the best median. ${NO_NUMBER} means that there is no figure because no request finished; it counts as the highest.
TTFT: from arrival to the first token; e2e: to the last; TPOT: time per token after the first. Max/mean load: requests at the busiest server, divided by the average; 1 = even.
Queue wait: time in flow control. Jain index: over the tokens that the tenants got, 1 = even. Wasted: computed tokens whose requests were evicted. Backlog: priorities below 0.</p>`;
}
