import type { BacklogPicture } from "../../../wires/admin/views.ts";
import type { BacklogMoment } from "./backlog-run.ts";
import type { RealtimeFigures } from "./realtime-figures.ts";

/** Characters of the bar that shows all slots. */
const WIDTH = 24;

/** How things stand at one moment of an act. */
export interface Moment {
  /** Since the act began. */
  readonly seconds: number;
  readonly slots: number;
  readonly figures: RealtimeFigures;
  readonly backlog: BacklogMoment | undefined;
}

/** Above the lines of an act; with them it fits into 80 columns. */
export const HEAD = [
  `    ${"slots taken by".padEnd(WIDTH)} realtime     the backlog         the gate`,
  `    ${"# realtime, = backlog".padEnd(WIDTH)}   # TTFT p99 wait   = done  ETA    D  N`,
].join("\n");

/** One moment in one line. */
export function momentLine({ seconds, slots, figures, backlog }: Moment): string {
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

/** What is in flight, as parts of the slots; `>` at the end when it is more than there are. */
export function bar(realtime: number, backlog: number, slots: number): string {
  const per = WIDTH / slots;
  const first = Math.round(realtime * per);
  const both = Math.round((realtime + backlog) * per);
  const taken = "#".repeat(first) + "=".repeat(both - first);
  return taken.length > WIDTH ? `${taken.slice(0, WIDTH - 1)}>` : taken.padEnd(WIDTH, ".");
}

/** The same for the gateway's page. */
export function backlogPicture(moment: Moment | undefined): BacklogPicture | undefined {
  if (moment?.backlog === undefined) return undefined;
  const { waiting, done, view } = moment.backlog;
  const { state = "none", because = "lets everything pass" } = view?.gate ?? {};
  return {
    ...{ waiting, done, inFlight: view?.running, etaSeconds: view?.etaSeconds },
    gate: view === undefined ? "away" : state,
    because: view === undefined ? "the dispatcher does not answer" : because,
  };
}
