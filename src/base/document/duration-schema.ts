import { z } from "zod";
import type { SluiceError } from "../inference/errors.ts";
import { DURATION_EXAMPLE, parseDuration } from "./duration.ts";

/**
 * Schema of a duration in a configuration file: a Go string in, milliseconds out.
 * @param bounds.min smallest value accepted, in milliseconds (default 0: negative ones are refused)
 * @param bounds.moreThan the value must be above this, in milliseconds
 */
export function duration(bounds: { readonly min?: number; readonly moreThan?: number } = {}) {
  const min = bounds.min ?? 0;
  return z
    .string({
      error: ({ input }) =>
        input === undefined ? undefined : `expected ${DURATION_EXAMPLE}, got ${JSON.stringify(input)}`,
    })
    .transform((text, context) => {
      let ms: number;
      try {
        ms = parseDuration(text);
      } catch (error) {
        context.addIssue({ code: "custom", message: (error as SluiceError).message });
        return z.NEVER;
      }
      if (bounds.moreThan !== undefined && ms <= bounds.moreThan)
        context.addIssue({ code: "custom", message: `must be more than ${bounds.moreThan}ms, got ${text}` });
      else if (ms < min) context.addIssue({ code: "custom", message: `must be at least ${min}ms, got ${text}` });
      return ms;
    });
}
