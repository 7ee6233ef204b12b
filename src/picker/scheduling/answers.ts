import { SluiceError } from "../../base/inference/errors.ts";
import { Rejection } from "../../base/inference/outcomes.ts";

/**
 * To be given what a plugin's method returned, within what watches its call: nothing stops an author from writing `async`
 * or from handing on a promise, and a rejection that nobody takes ends the process.
 * @throws SluiceError PLUGIN_ASYNC
 */
export function refusePromise(result: unknown): void {
  if (typeof result !== "object" || result === null || !("then" in result)) return;
  Promise.resolve(result).catch(() => {});
  throw new SluiceError(
    "PLUGIN_ASYNC",
    "it returned a promise, but a decision waits for nobody; what has to wait is done in `prepare` of a producer",
  );
}

/**
 * What a plugin that may refuse requests has answered.
 * @returns undefined when it did not refuse
 * @throws SluiceError PLUGIN_ASYNC, PLUGIN_ANSWER for anything but a rejection and nothing
 */
export function refusalIn(answer: unknown): Rejection | undefined {
  if (answer === undefined || answer === null) return undefined;
  if (answer instanceof Rejection) return answer;
  refusePromise(answer);
  throw new SluiceError(
    "PLUGIN_ANSWER",
    `it answered with a ${typeof answer}; nothing lets the request pass, a Rejection refuses it`,
  );
}
