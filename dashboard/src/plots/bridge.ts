/** The most seconds without an observation over which a line is drawn. */
const BRIDGED = 5;

/**
 * Values for uPlot, which draws a line over undefined and none over null: short times without an observation are bridged, and
 * long ones are gaps.
 */
export function bridged(values: readonly (number | null)[]): (number | null | undefined)[] {
  const drawn: (number | null | undefined)[] = [...values];
  let empty = 0;
  for (let at = 0; at < drawn.length; at++) {
    if (drawn[at] === null) {
      empty++;
      continue;
    }
    if (empty > 0 && empty <= BRIDGED && empty < at) drawn.fill(undefined, at - empty, at);
    empty = 0;
  }
  return drawn;
}
