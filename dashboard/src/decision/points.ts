/** Points and weights: two digits, and more only where two digits would say 0. */
export function points(value: number): string {
  if (!Number.isFinite(value)) return "–";
  return value !== 0 && Math.abs(value) < 0.01 ? value.toPrecision(1) : value.toFixed(2);
}

/** A weight without digits that say nothing. */
export function weightText(weight: number): string {
  return String(Number(weight.toFixed(3)));
}
