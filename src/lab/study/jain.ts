/**
 * Jain's index of fairness: 1 when all values are the same, 1/n when one of n has everything. NaN for fewer than two values, and
 * when all are 0. Source: Jain, Chiu, Hawe, DEC-TR-301 (1984).
 * @param values >= 0
 */
export function jainIndex(values: readonly number[]): number {
  const sum = values.reduce((total, value) => total + value, 0);
  const squares = values.reduce((total, value) => total + value * value, 0);
  return values.length < 2 || squares === 0 ? Number.NaN : (sum * sum) / (values.length * squares);
}
