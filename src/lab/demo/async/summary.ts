import { columns } from "../../../base/process/screen.ts";
import type { LagSummary } from "../lag.ts";
import type { BacklogSummary } from "./backlog.ts";
import type { RealtimeSummary } from "./realtime.ts";

/** The results of one act, in the shape of `--json`. */
export interface PhaseSummary {
  readonly name: string;
  readonly realtime: RealtimeSummary;
  readonly backlog?: BacklogSummary;
  /** Delays of timers of this process during the act. */
  readonly lagMs: LagSummary;
  /** The machine was too busy: it dominates the measured times. */
  readonly tooBusy: boolean;
}

const HEAD = ["", "requests", "failed", "TTFT p50", "TTFT p99", "", "backlog", "done in"];

/** The acts in columns, and the results of the messages. */
export function phaseTable(acts: readonly PhaseSummary[]): string[] {
  const alone = acts[0]?.realtime.ttftMs.p99 ?? 0;
  const rows = acts.map(({ name, realtime, backlog }, at) => [
    name,
    String(realtime.requests),
    String(realtime.failed),
    `${realtime.ttftMs.p50} ms`,
    `${realtime.ttftMs.p99} ms`,
    at === 0 || alone === 0 ? "" : `${(realtime.ttftMs.p99 / alone).toFixed(1)}x`,
    backlog === undefined ? "-" : `${backlog.results}/${backlog.queued}`,
    backlog === undefined ? "-" : `${backlog.seconds.toFixed(1)} s`,
  ]);
  const lines = [...columns([HEAD, ...rows]), ""];
  const behindGate = acts[1]?.backlog;
  if (behindGate === undefined) return lines;
  const { before, during, after } = behindGate.inFlight;
  const kills = acts.reduce((total, { backlog }) => total + (backlog?.kills ?? 0), 0);
  const sum = (figure: "queued" | "lost" | "twice"): number =>
    acts.reduce((total, { backlog }) => total + (backlog?.[figure] ?? 0), 0);
  return [
    ...lines,
    `Backlog in flight behind the gate: ${before}, in the wave ${during}, after it ${after}.`,
    `${sum("queued")} messages: ${sum("lost")} lost, ${sum("twice")} with two results; the dispatcher was killed ${times(kills)}.`,
  ];
}

/** The results of one backlog. */
export function endLine({ queued, results, lost, twice, failed, seconds }: BacklogSummary): string {
  const trouble = failed > 0 ? `, ${failed} of the results have no answer of a server` : "";
  return `${results} results for ${queued} messages after ${seconds.toFixed(1)} s: ${lost} lost, ${twice} twice${trouble}`;
}

function times(count: number): string {
  return count === 1 ? "once" : `${count} times`;
}
