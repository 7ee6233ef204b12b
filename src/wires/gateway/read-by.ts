import { z } from "zod";
import { messageOf } from "../../base/inference/errors.ts";

/** A text that a function reads, whose error is the violation. */
export function readBy<T>(read: (text: string) => T) {
  return (text: string, context: z.core.$RefinementCtx): T => {
    try {
      return read(text);
    } catch (error) {
      context.addIssue({ code: "custom", message: messageOf(error) });
      return z.NEVER;
    }
  };
}
