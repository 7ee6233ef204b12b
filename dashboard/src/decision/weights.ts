/** A candidate with its raw scores, 0..1, in the order of the scorers. */
export interface Scored {
  readonly id: string;
  readonly scores: readonly number[];
  /** Weighted sum at the recorded weights. */
  readonly total: number;
}

/** The weight of a scorer from which another candidate would have won. */
export interface Turn {
  readonly weight: number;
  readonly id: string;
}

/** How far the weight of one scorer can move before another candidate wins; undefined = it never does on that side. */
export interface WeightRoom {
  readonly below: Turn | undefined;
  readonly above: Turn | undefined;
}

/**
 * For each scorer, the nearest weights at which the pick would have lost, all other weights as they were. Totals decide; a draw
 * by chance among equal totals does not count as a loss.
 * @param candidates the pick first
 */
export function roomOf(candidates: readonly Scored[], weights: readonly number[]): WeightRoom[] {
  const [pick, ...others] = candidates;
  return weights.map((weight, at) => {
    let below: Turn | undefined;
    let above: Turn | undefined;
    for (const { id, scores, total } of pick === undefined ? [] : others) {
      const lead = pick!.total - total;
      const gain = (scores[at] ?? 0) - (pick!.scores[at] ?? 0);
      if (gain === 0 || lead < 0) continue;
      const turn = { id, weight: weight + lead / gain };
      if (gain > 0 && (above === undefined || turn.weight < above.weight)) above = turn;
      if (gain < 0 && turn.weight >= 0 && (below === undefined || turn.weight > below.weight)) below = turn;
    }
    return { below, above };
  });
}

/** The candidates with their totals at other weights, the best first; equal ones keep their order. */
export function ranked<Of extends Scored>(
  candidates: readonly Of[],
  weights: readonly number[],
): (Of & { readonly now: number })[] {
  return candidates
    .map((candidate) => ({
      ...candidate,
      now: candidate.scores.reduce((sum, score, at) => sum + score * (weights[at] ?? 0), 0),
    }))
    .sort((a, b) => b.now - a.now);
}
