/** The program of a worker thread of `WorkerPool`: one job after the other, from the pool's messages. */
import { parentPort, workerData } from "node:worker_threads";
import { realClock } from "../../base/clock/real.ts";
import { messageOf, oneLine } from "../../base/inference/errors.ts";
import { RequestUnusable } from "./unusable.ts";
import type { Answer, Job, Load, WorkerSettings } from "./worker-messages.ts";
import { WorkerModels } from "./worker-models.ts";

const models = new WorkerModels(workerData as WorkerSettings, realClock);

parentPort!.on("message", (message: Job | Load) => {
  const answer = answerTo(message);
  parentPort!.postMessage(answer, "tokens" in answer ? [answer.tokens.buffer] : []);
});

function answerTo(message: Job | Load): Answer {
  const { id, path } = message;
  const counts = () => models.counts;
  try {
    const model = models.load(path);
    if (!("body" in message)) return { id, counts: counts(), nothing: true };
    try {
      const found = models.tokens(message, model);
      if (found === undefined) return { id, counts: counts(), nothing: true };
      // The buffer may be longer than the tokens, and only whole buffers change threads.
      const tokens = Uint8Array.from(found.tokens);
      return { id, counts: counts(), tokens, prompts: found.prompts, count: found.count };
    } catch (error) {
      // An unexpected error may quote the prompt.
      const why = error instanceof RequestUnusable ? error.message : `an error of type ${(error as Error).name}`;
      return { id, counts: counts(), fault: "request", message: why };
    }
  } catch (error) {
    return { id, counts: counts(), fault: "file", message: oneLine(messageOf(error)).slice(0, 300) };
  }
}
