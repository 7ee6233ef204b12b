import { setImmediate as turn } from "node:timers/promises";
import { realClock } from "../../base/clock/real.ts";
import type { Run } from "./run.ts";

/** Milliseconds of real time between two turns of the event loop, for progress and for Ctrl-C. */
const TURN_MS = 100;

export interface PlayOptions {
  /** Ends it. */
  readonly signal?: AbortSignal | undefined;
  /** Told at every turn, and at the end. @param seconds of real time that the run has taken so far */
  onTurn?(seconds: number): void;
}

/**
 * Plays a whole run, in slices: what else the process has to do gets its turn between them. Closes the run.
 * @returns seconds of real time that it took by itself; undefined when it was cut short
 */
export async function play(run: Run, { signal, onTurn }: PlayOptions = {}): Promise<number | undefined> {
  try {
    let busy = 0;
    let turned = realClock.now();
    for (let more = true; more; ) {
      more = run.advance();
      const now = realClock.now();
      if (now - turned < TURN_MS && more) continue;
      busy += now - turned;
      onTurn?.(busy / 1000);
      // Behind the last slice, too: runs may be short and many.
      await turn();
      if (signal?.aborted && more) return undefined;
      turned = realClock.now();
    }
    return busy / 1000;
  } finally {
    run.close();
  }
}
