import { print, tell } from "../../async/batch/print.ts";
import { delay } from "../../base/clock/clock.ts";
import { realClock } from "../../base/clock/real.ts";
import { messageOf, SluiceError } from "../../base/inference/errors.ts";
import { interruptible } from "../../base/process/lifecycle.ts";
import { ProgressLine } from "../../base/process/screen.ts";
import { type BatchSource, isRunning } from "./source.ts";
import { batchText, endText, listText, progressText } from "./text.ts";

/** Milliseconds between two questions: on a terminal, and in a log. */
const WATCHED = 1000;
const LOGGED = 5000;

/** Prints batches: as a table, or as one JSON document. @throws SluiceError of the source */
export async function listBatches(source: BatchSource, limit: number, json: boolean): Promise<void> {
  const found = await source.list(limit);
  await print(json ? `${JSON.stringify(found)}\n` : listText(found, realClock.wall() / 1000));
}

/** Prints one batch. @throws SluiceError of the source */
export async function showBatch(source: BatchSource, id: string, json: boolean): Promise<void> {
  const { batch, gate } = await source.get(id);
  await print(json ? `${JSON.stringify({ batch, gate })}\n` : batchText(batch, gate, realClock.wall() / 1000));
}

/**
 * Shows the progress of a batch on standard error until it ends; a server that is away is asked again.
 * @returns the exit status: 0 when all lines succeeded, else 1
 * @throws SluiceError of the source, if it is no temporary one
 */
export function followBatch(source: BatchSource, id: string): Promise<number> {
  const screen = new ProgressLine(process.stderr);
  return interruptible(
    async (signal) => {
      try {
        for (let asked = 0; ; asked++) {
          try {
            const { batch, gate } = await source.get(id);
            screen.show(progressText(batch, gate));
            if (!isRunning(batch)) {
              screen.keep();
              await print(`${endText(batch)}\n`);
              return batch.status === "completed" && batch.failed === 0 ? 0 : 1;
            }
          } catch (error) {
            // A mistyped address does not get better.
            const isAway = error instanceof SluiceError && error.code === "BATCH_API_UNREACHABLE";
            if (!isAway || asked === 0) throw error;
            screen.show(`${messageOf(error)}; Sluice asks again`);
          }
          await delay(realClock, screen.terminal ? WATCHED : LOGGED, signal);
        }
      } finally {
        screen.clear();
      }
    },
    () => tell("interrupted; the batch continues"),
  );
}

/** Cancels batches one after the other, and says what became of each. @throws SluiceError of the source, after the others */
export async function cancelBatches(source: BatchSource, ids: readonly string[]): Promise<void> {
  let failed: unknown;
  for (const id of new Set(ids))
    try {
      await print(`${id} ${await source.cancel(id)}\n`);
    } catch (error) {
      if (failed !== undefined) tell(messageOf(failed));
      failed = error;
    }
  if (failed !== undefined) throw failed;
}
