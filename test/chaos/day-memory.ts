/** A heap without garbage. */
export interface HeapSample {
  /** Decisions that the process had made. */
  readonly decisions: number;
  readonly bytes: number;
}

/**
 * Decisions after which the heap should have its size: the process keeps the newest 4,096 decision records, the prefix index
 * holds all prompts of the traffic, and the code that the traffic needs is compiled. Heap snapshots at 28,000, 40,000 and 56,000
 * decisions of one day differ only in compiled code and type feedback, by 1 % of the heap.
 */
export const WARM_UP = 5000;
/** The fewest samples past the warm-up that say anything. */
const FEWEST = 8;

/**
 * Bytes that a heap grows by with each decision, past the warm-up: the median of the slopes between any two samples
 * (Theil and Sen). A leak shows in most pairs. A few samples that are too high or too low, taken while many requests were in
 * flight, move the median little.
 * @returns undefined = too few samples past the warm-up
 */
export function growthPerDecision(samples: readonly HeapSample[]): number | undefined {
  const warm = samples.filter(({ decisions }) => decisions >= WARM_UP);
  if (warm.length < FEWEST) return undefined;
  const slopes = warm.flatMap((a, i) =>
    warm
      .slice(i + 1)
      .filter((b) => b.decisions > a.decisions)
      .map((b) => (b.bytes - a.bytes) / (b.decisions - a.decisions)),
  );
  slopes.sort((a, b) => a - b);
  const middle = slopes.length >> 1;
  return slopes.length % 2 === 1 ? slopes[middle] : (slopes[middle - 1]! + slopes[middle]!) / 2;
}
