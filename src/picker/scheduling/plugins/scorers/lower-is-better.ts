/**
 * `(max - v) / (max - min)` per candidate: 1 for the least, 0 for the most. Where all are equal, or nobody's value is
 * known (NaN), everybody gets 1.
 */
export function lowerIsBetter(values: Float64Array, count: number, out: Float64Array): void {
  let min = Number.POSITIVE_INFINITY;
  let max = Number.NEGATIVE_INFINITY;
  for (let i = 0; i < count; i++) {
    const value = values[i]!;
    if (value < min) min = value;
    if (value > max) max = value;
  }
  const range = max - min;
  if (!(range > 0)) {
    out.fill(1, 0, count);
    return;
  }
  for (let i = 0; i < count; i++) out[i] = (max - values[i]!) / range;
}
