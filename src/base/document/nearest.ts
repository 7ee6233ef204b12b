/** Longest word that is compared: a longer word is no typing error, and the comparison is quadratic. */
const MAX_LENGTH = 64;

/**
 * The candidate that a person most likely meant: the one with the smallest Damerau-Levenshtein distance (optimal string
 * alignment, case ignored). The distance is at most 3 and at most a third of the longer word, rounded up. It is less than the
 * whole word, so a short word does not match everything. The first of equals wins.
 * @returns undefined when no candidate is near
 */
export function nearest(word: string, candidates: Iterable<string>): string | undefined {
  if (word.length > MAX_LENGTH) return undefined;
  const wanted = word.toLowerCase();
  let best: string | undefined;
  let bestDistance = Number.POSITIVE_INFINITY;
  for (const candidate of candidates) {
    if (candidate.length > MAX_LENGTH) continue;
    const longer = Math.max(word.length, candidate.length);
    const limit = Math.min(3, Math.ceil(longer / 3), longer - 1);
    if (Math.abs(word.length - candidate.length) > limit) continue;
    const distance = editDistance(wanted, candidate.toLowerCase());
    if (distance <= limit && distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

/** `; did you mean \`x\`?` for the nearest candidate, or nothing: the end of an error message. */
export function didYouMean(word: string, candidates: Iterable<string>): string {
  const found = nearest(word, candidates);
  return found === undefined ? "" : `; did you mean \`${found}\`?`;
}

/** The candidates that have most in common with a word, best first: words between hyphens first, then letters. */
export function nearestFew(word: string, candidates: Iterable<string>, count: number): string[] {
  const wanted = word.slice(0, MAX_LENGTH).toLowerCase();
  const parts = new Set(wanted.split("-"));
  return [...candidates]
    .map((candidate) => ({
      candidate,
      common: candidate.split("-").filter((part) => parts.has(part)).length,
      distance: editDistance(wanted, candidate.slice(0, MAX_LENGTH).toLowerCase()),
    }))
    .sort((a, b) => b.common - a.common || a.distance - b.distance || (a.candidate < b.candidate ? -1 : 1))
    .slice(0, count)
    .map(({ candidate }) => candidate);
}

/**
 * How many insertions, deletions, replacements and swaps of neighbours turn `a` into `b`, when no part changes twice (optimal
 * string alignment; Damerau 1964). In UTF-16 units.
 */
export function editDistance(a: string, b: string): number {
  const width = b.length + 1;
  let beforeLast = new Uint16Array(width);
  let last = Uint16Array.from({ length: width }, (_, at) => at);
  let row = new Uint16Array(width);
  for (let i = 1; i <= a.length; i++) {
    row[0] = i;
    for (let j = 1; j <= b.length; j++) {
      const same = a.charCodeAt(i - 1) === b.charCodeAt(j - 1);
      let cost = Math.min(last[j]! + 1, row[j - 1]! + 1, last[j - 1]! + (same ? 0 : 1));
      const swapped =
        i > 1 && j > 1 && a.charCodeAt(i - 1) === b.charCodeAt(j - 2) && a.charCodeAt(i - 2) === b.charCodeAt(j - 1);
      if (swapped) cost = Math.min(cost, beforeLast[j - 2]! + 1);
      row[j] = cost;
    }
    [beforeLast, last, row] = [last, row, beforeLast];
  }
  return last[b.length]!;
}
