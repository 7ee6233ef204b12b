import type { Pool } from "undici";
import { delay } from "../../../base/clock/clock.ts";
import type { DemoEnvironment } from "../environment.ts";
import { isTooBusy, LagMeter } from "../lag.ts";
import { type DemoRequest, runTraffic } from "../traffic.ts";
import { BacklogRun, type BacklogRunOptions, type BacklogStatus } from "./backlog.ts";
import { RealtimeFigures } from "./realtime.ts";
import { endLine, type PhaseSummary } from "./summary.ts";

/** Milliseconds between two readings of the state, and number of readings per line. */
const LOOK_MS = 200;
const LOOKS_PER_LINE = 5;
/** Milliseconds that a backlog may continue after its act. A request without a result then counts as lost. */
const PATIENCE_MS = 60_000;

interface Phase {
  readonly name: string;
  readonly realtime: readonly DemoRequest[];
  readonly lengthMs: number;
  /** Requests that all servers together run at a time. */
  readonly slots: number;
  /** Undefined = realtime traffic alone. */
  readonly backlog?: BacklogRunOptions;
}

/**
 * Plays one act: realtime traffic, and beside it the backlog until its last result. Prints a line with the state every second.
 */
export async function playPhase(
  { clock, cluster, screen, signal }: DemoEnvironment,
  client: Pool,
  act: Phase,
): Promise<PhaseSummary> {
  const { name, lengthMs, slots } = act;
  await cluster.reset();
  const figures = new RealtimeFigures(clock);
  const backlog = act.backlog === undefined ? undefined : new BacklogRun(act.backlog, clock);
  const begin = clock.now();
  const lag = new LagMeter(clock);
  const traffic = runTraffic(client, clock, act.realtime, signal, figures);
  screen.say(HEAD);
  let told = "";
  for (let looks = 1; ; looks++) {
    await delay(clock, begin + looks * LOOK_MS - clock.now(), signal).catch(() => undefined);
    if (signal.aborted) break;
    const passed = clock.now() - begin;
    const status = { seconds: passed / 1000, slots, figures, backlog: await backlog?.step(passed / lengthMs) };
    if (looks % LOOKS_PER_LINE === 0) {
      screen.say(statusLine(status));
      const { state = "", because = "" } = status.backlog?.view?.gate ?? {};
      if (state !== told && state !== "") screen.say(`    gate ${state}: ${because}`);
      told = state;
    }
    if (passed >= lengthMs && (backlog?.done !== false || passed >= lengthMs + PATIENCE_MS)) break;
  }
  await traffic;
  lag.stop();
  const lagMs = lag.summary();
  const machine = { lagMs, tooBusy: isTooBusy(lagMs) };
  if (!signal.aborted) for (const problem of figures.problems) screen.say(`failed: ${problem}`);
  const realtime = figures.summary();
  if (backlog === undefined) return { name, realtime, ...machine };
  const summary = await backlog.finish();
  if (!signal.aborted) screen.say(`    ${endLine(summary)}`);
  return { name, realtime, backlog: summary, ...machine };
}

/** Length of the bar for all slots, in characters. */
const WIDTH = 24;

/** The state at one moment of an act. */
export interface PhaseStatus {
  /** Seconds since the act began. */
  readonly seconds: number;
  readonly slots: number;
  readonly figures: RealtimeFigures;
  readonly backlog: BacklogStatus | undefined;
}

/** The heading of the lines of an act; the lines fit into 80 columns. */
export const HEAD = [
  `    ${"slots taken by".padEnd(WIDTH)} realtime     the backlog         the gate`,
  `    ${"# realtime, = backlog".padEnd(WIDTH)}   # TTFT p99 wait   = done  ETA    D  N`,
].join("\n");

/** The state at one moment in one line. */
export function statusLine({ seconds, slots, figures, backlog }: PhaseStatus): string {
  const { inFlight, latelyP99 } = figures;
  const view = backlog?.view;
  const running = view?.running ?? 0;
  const cells = [
    `${Math.round(seconds)}s`.padStart(3),
    bar(inFlight, running, slots),
    String(inFlight).padStart(3),
    (latelyP99 === undefined ? "-" : `${Math.round(latelyP99)} ms`).padStart(8),
  ];
  if (backlog !== undefined) {
    const eta = view?.etaSeconds ?? null;
    const gate = view?.gate;
    cells.push(
      String(backlog.waiting).padStart(4),
      (view === undefined ? "?" : String(running)).padStart(3),
      String(backlog.done).padStart(4),
      (eta === null ? "-" : `${Math.min(999, Math.ceil(eta))}s`).padStart(4),
      (gate?.D?.toFixed(2) ?? "-").padStart(4),
      String(gate?.N ?? "-").padStart(2),
      view === undefined ? "away" : (gate?.state ?? "none"),
    );
  }
  return cells.join(" ");
}

/** The requests in flight as parts of the slots; `>` at the end when they are more than the slots. */
export function bar(realtime: number, backlog: number, slots: number): string {
  const per = WIDTH / slots;
  const first = Math.round(realtime * per);
  const both = Math.round((realtime + backlog) * per);
  const taken = "#".repeat(first) + "=".repeat(both - first);
  return taken.length > WIDTH ? `${taken.slice(0, WIDTH - 1)}>` : taken.padEnd(WIDTH, ".");
}
