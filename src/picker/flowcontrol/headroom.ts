import { z } from "zod";

/** The parameter `headroom` of the detectors (scheduling 5.3). */
export const headroom = z
  .number("headroom must be a number")
  .min(0, "headroom must not be negative")
  .default(0)
  .describe("Share above saturation that the filter role tolerates: 0.2 is a fifth.");

/** What the author of a configuration should know of a headroom. */
export function headroomNotes(value: number): readonly string[] {
  if (value <= 1) return [];
  return [`headroom ${value} tolerates ${value * 100} percent above saturation; did you mean ${value / 100}?`];
}
