/** The thread that tries inputs; `run.ts` watches it. */
import { parentPort, workerData } from "node:worker_threads";
import { readCorpus } from "./corpus.ts";
import { type Failure, Fuzzer } from "./fuzzer.ts";
import { SharedInput } from "./shared-input.ts";
import type { FuzzTarget } from "./target.ts";
import { TARGETS } from "./targets/index.ts";

/** What the thread is given. */
export interface WorkerTask {
  readonly target: string;
  readonly seed: number;
  readonly milliseconds: number;
  readonly memory: SharedArrayBuffer;
}

/** What it says: how far it is, now and then, and once how it ended. */
export interface WorkerReport {
  readonly runs: number;
  readonly outcomes: number;
  readonly pool: number;
  /** Whether this is the last report. */
  readonly over: boolean;
  readonly failure: Failure | undefined;
}

/** Inputs between two looks at the clock. */
const BATCH = 64;
/** Bytes; what the thread may hold at most at any time, its buffers included. */
const MAX_HELD = 512 * 1024 * 1024;

function run({ target: name, seed, milliseconds, memory }: WorkerTask): void {
  const target = TARGETS.find((candidate) => candidate.name === name)!;
  const shared = new SharedInput(memory);
  const watched: FuzzTarget = {
    ...target,
    run(input) {
      shared.show(input);
      return target.run(input);
    },
  };
  const seeds = readCorpus(name).map(({ bytes }) => bytes);
  const fuzzer = new Fuzzer(watched, seeds, seed);
  const report = (over: boolean, failure?: Failure): void => {
    const { runs, outcomes, pool } = fuzzer;
    parentPort!.postMessage({ runs, outcomes, pool, over, failure } satisfies WorkerReport);
  };
  const failure = search(fuzzer, shared, milliseconds, () => report(false));
  report(true, failure === undefined ? undefined : fuzzer.shrink(failure));
}

function search(
  fuzzer: Fuzzer,
  shared: SharedInput,
  milliseconds: number,
  onProgress: () => void,
): Failure | undefined {
  const end = performance.now() + milliseconds;
  let progressAt = performance.now() + 10_000;
  let failure = fuzzer.first();
  while (failure === undefined && performance.now() < end) {
    for (let i = 0; i < BATCH && failure === undefined; i++) failure = fuzzer.try(fuzzer.make());
    if (performance.now() < progressAt) continue;
    progressAt = performance.now() + 10_000;
    onProgress();
    const { heapUsed, external } = process.memoryUsage();
    if (heapUsed + external > MAX_HELD) {
      const message = `holds ${Math.round((heapUsed + external) / 2 ** 20)} MiB: something grows`;
      failure ??= { input: shared.current, message };
    }
  }
  return failure;
}

run(workerData as WorkerTask);
