/** Words and figures of explanations: as precise as needed, never `NaN`. */
import { counted, grouped } from "../../base/document/words.ts";

/** Returns points with `digits` decimals; `?` where there is no number. */
export function points(value: number, digits = 2): string {
  return Number.isFinite(value) ? value.toFixed(digits) : "?";
}

/** Returns the decimals that make two figures differ: 2 to 6. */
export function digitsApart(a: number, b: number): number {
  let digits = 2;
  while (digits < 6 && points(a, digits) === points(b, digits)) digits++;
  return digits;
}

/** Returns a weight in its shortest form. */
export function weightText(weight: number): string {
  return String(Number(weight.toPrecision(6)));
}

/** Returns whole percent; only an exact 0 or 1 becomes 0 % or 100 %. @param share 0..1 */
export function percent(share: number): string {
  if (share > 0 && share < 0.005) return "less than 1 %";
  if (share < 1 && share >= 0.995) return "more than 99 %";
  return `${Math.round(share * 100)} %`;
}

/** Returns milliseconds as a short text: `42 ms`, `6.2 s`, `3 min`. */
export function span(ms: number): string {
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  if (ms < 119_950) return `${(ms / 1000).toFixed(1)} s`;
  return `${Math.round(ms / 60_000)} min`;
}

/** How an operator gets a full record, for messages about a missing one. */
export const FULL_RECORDS_HOW =
  "Start the process with --full-records-every 1 and send the request again; or start it with --decision-header and send the request with x-sluice-explain: 1";

/** The decisions whose records a process keeps. */
export interface KeptDecisions {
  readonly count: number;
  /** The most records that it keeps. */
  readonly most: number;
  /** Time of the oldest, ISO 8601; undefined without any. */
  readonly oldest: string | undefined;
}

/** Why there is no decision with this id, and how to find ids. */
export function unknownDecision(id: string, { count, most, oldest }: KeptDecisions): string {
  const kept =
    count === 0 ? "has made no decision yet" : `has ${counted(count, "decision")}, the oldest from ${oldest}`;
  return (
    `no decision ${id}. The process ${kept}; it keeps at most the newest ${grouped(most)} decisions, and no decision for a request that it could not read.\n` +
    "Give the x-request-id of the request, its first eight characters, or the number of the decision. " +
    "sluice explain --last shows the newest decision, and /debug/decisions of the admin port lists the newest 100"
  );
}
