import type { Pool } from "undici";
import { delay } from "../../../base/clock/clock.ts";
import { isTooBusy, LagMeter } from "../lag.ts";
import type { Stage } from "../stage.ts";
import { runTraffic } from "../traffic.ts";
import type { WorkloadRequest } from "../workload.ts";
import { BacklogRun, type BacklogRunOptions } from "./backlog-run.ts";
import { HEAD, type Moment, momentLine } from "./moment.ts";
import { RealtimeFigures } from "./realtime-figures.ts";
import { type ActSummary, endLine } from "./summary.ts";

/** Milliseconds between looks, and looks from one line to the next. */
const LOOK_MS = 200;
const LOOKS_PER_LINE = 5;
/** Milliseconds that a backlog may go on after its act: what has no result then counts as lost. */
const PATIENCE_MS = 60_000;

export interface Act {
  readonly name: string;
  readonly realtime: readonly WorkloadRequest[];
  readonly lengthMs: number;
  /** Requests that all servers together run at a time. */
  readonly slots: number;
  /** Undefined = realtime traffic alone. */
  readonly backlog?: BacklogRunOptions;
  /** Told at every look how things stand. */
  onMoment(moment: Moment): void;
}

/** Plays one act: realtime traffic, and beside it the backlog until its last result. Every second a line says how it stands. */
export async function playAct({ clock, cluster, screen, signal }: Stage, client: Pool, act: Act): Promise<ActSummary> {
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
    const moment = { seconds: passed / 1000, slots, figures, backlog: await backlog?.step(passed / lengthMs) };
    act.onMoment(moment);
    if (looks % LOOKS_PER_LINE === 0) {
      screen.say(momentLine(moment));
      const { state = "", because = "" } = moment.backlog?.view?.gate ?? {};
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
