/** Words and figures of explanations: as precise as needed, never `NaN`. */

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
