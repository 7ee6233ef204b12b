const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

/** Milliseconds as a person says them: `42 ms`, `6 s`, `3 min`, `5 h`, `12 days`. */
export function spanText(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 2 * MINUTE) return `${Math.round(ms / 1000)} s`;
  if (ms < 2 * HOUR) return `${Math.round(ms / MINUTE)} min`;
  if (ms < 2 * DAY) return `${Math.round(ms / HOUR)} h`;
  return `${Math.round(ms / DAY)} days`;
}
