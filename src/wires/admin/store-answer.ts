import type { Context } from "hono";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import { refused } from "./page/posted-json.ts";

/** Answers from a store. One that is away is no fault of this process: 503 with the reason. Throws every other error. */
export async function fromStore(context: Context, answer: () => Promise<Response>): Promise<Response> {
  try {
    return await answer();
  } catch (error) {
    if (error instanceof SluiceError) return refused(context, 503, messageOf(error));
    throw error;
  }
}
