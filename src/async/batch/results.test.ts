import { expect, it } from "vitest";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { errorResult } from "../brokers/messages/result.ts";
import type { Producer } from "../brokers/queue-client.ts";
import { nextResult } from "./results.ts";

/** A queue with one result, which comes out so many milliseconds after the first who asked for it. */
function queueThatTakes(
  ms: number,
  clock: VirtualClock,
): Pick<Producer, "getResult" | "resultQueueDepth"> & { depth: number } {
  let from: number | undefined;
  const queue = {
    depth: 1,
    resultQueueDepth: async () => queue.depth,
    getResult(signal?: AbortSignal) {
      from ??= clock.now();
      const left = from + ms - clock.now();
      return new Promise<ReturnType<typeof errorResult>>((resolve, reject) => {
        const timer = clock.after(left, () => resolve(errorResult("a", "INFERENCE_ERROR", "")));
        signal?.addEventListener("abort", () => {
          timer.cancel();
          reject(signal.reason);
        });
      });
    },
  };
  return queue;
}

const { signal } = new AbortController();
const NOW = { follow: false, timeout: 0 };

it("takes a result that is there, however long the connection takes that fetches it", async () => {
  const clock = new VirtualClock();
  const taken = nextResult(queueThatTakes(3500, clock), NOW, signal, clock);
  await clock.advanceAsync(3500);
  expect(await taken).toMatchObject({ id: "a" });
});

it("waits for none when there is none, or somebody else was faster", async () => {
  const clock = new VirtualClock();
  const queue = queueThatTakes(Number.MAX_SAFE_INTEGER, clock);
  const taken = nextResult(queue, NOW, signal, clock);
  await clock.advanceAsync(500);
  queue.depth = 0;
  await clock.advanceAsync(500);
  expect(await taken).toBeUndefined();
  expect(await nextResult(queue, NOW, signal, clock)).toBeUndefined();
  expect(clock.now()).toBe(1000);
});

it("gives up after ten seconds when a result that is there cannot be taken, and after the timeout when there is one", async () => {
  const clock = new VirtualClock();
  const queue = queueThatTakes(Number.MAX_SAFE_INTEGER, clock);
  for (const [timeout, ms] of [
    [0, 10_000],
    [300, 300],
  ] as const) {
    const begun = clock.now();
    let ended = Number.NaN;
    const taken = nextResult(queue, { follow: false, timeout }, signal, clock).then((result) => {
      ended = clock.now();
      return result;
    });
    await clock.advanceAsync(20_000);
    expect(await taken).toBeUndefined();
    expect(ended - begun).toBe(ms);
  }
});
