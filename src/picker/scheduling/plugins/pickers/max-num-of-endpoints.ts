import { z } from "zod";

/** The parameter all pickers share (scheduling 3.8). */
export const maxNumOfEndpoints = z
  .int()
  .default(1)
  .transform((value) => Math.max(1, value))
  .describe("How many endpoints are offered to the proxy, best first, at most 8; 0 or less counts as 1.");
