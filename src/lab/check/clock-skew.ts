/** How far another clock is ahead of the own one, and how sure that is. Both in milliseconds. */
export interface ClockSkew {
  /** Above 0 = the other clock is ahead. */
  readonly ms: number;
  /** The true value lies at most this far from `ms`. */
  readonly error: number;
}

/** A header `date` has whole seconds. */
const RESOLUTION = 1000;

/**
 * The skew that the `date` of an answer shows. The other side wrote it at some time between the request and the end of the
 * answer, and cut it to the second.
 * @param sentAt wall-clock milliseconds of the request, @param took milliseconds from there to the end of the answer
 * @returns undefined without a date that can be read
 */
export function clockSkew(date: string | undefined, sentAt: number, took: number): ClockSkew | undefined {
  const written = date === undefined ? Number.NaN : Date.parse(date);
  if (Number.isNaN(written)) return undefined;
  return { ms: written + RESOLUTION / 2 - (sentAt + took / 2), error: RESOLUTION / 2 + took / 2 };
}

/** The least skew that the measurement proves, without sign; 0 when the clocks may agree. */
export function provenSkew({ ms, error }: ClockSkew): number {
  return Math.max(0, Math.abs(ms) - error);
}
