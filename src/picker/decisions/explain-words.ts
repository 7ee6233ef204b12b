/** Words and figures of explanations: as precise as what they say, never `NaN`. */

/** Points with two digits behind the point; `?` where there is no number. */
export function points(value: number, digits = 2): string {
  return Number.isFinite(value) ? value.toFixed(digits) : "?";
}

/** How many digits behind the point it takes to tell two figures apart: 2 to 6. */
export function digitsApart(a: number, b: number): number {
  let digits = 2;
  while (digits < 6 && points(a, digits) === points(b, digits)) digits++;
  return digits;
}

/** A weight as somebody may have written it. */
export function weightText(weight: number): string {
  return String(Number(weight.toPrecision(6)));
}

/** Whole percent, without rounding to nothing or to everything what is neither. @param share 0..1 */
export function percent(share: number): string {
  if (share > 0 && share < 0.005) return "less than 1 %";
  if (share < 1 && share >= 0.995) return "more than 99 %";
  return `${Math.round(share * 100)} %`;
}

/** Milliseconds as people say them: `42 ms`, `6.2 s`, `3 min`. */
export function span(ms: number): string {
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  if (ms < 119_950) return `${(ms / 1000).toFixed(1)} s`;
  return `${Math.round(ms / 60_000)} min`;
}
