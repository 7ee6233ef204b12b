import { memory, requests, resultsOf, withRig } from "./rig.ts";

export interface WorkerFigures {
  /** Achieved rate over workers / latency. */
  readonly efficiency: number;
  readonly connections: number;
  /** Requests in flight at most. */
  readonly inFlight: number;
  /** MiB: after the start, and at most. */
  readonly idle: number;
  readonly peak: number;
  /** Results other than 200. */
  readonly errors: number;
}

/** All workers busy all the time, with a gateway that takes `latency` milliseconds: each gets `rounds` requests. */
export function measureWorkers(workers: number, latency: number, rounds: number): Promise<WorkerFigures> {
  return withRig("Redis", async ({ store, gateway, start }) => {
    const { pid } = (await start({ workers })).process;
    const idle = memory(pid).now;
    // Opens the connections and compiles the code.
    await store.submit(requests(workers * 2, 256, "warm"));
    await resultsOf(store, workers * 2);
    const warm = (await gateway.stats()).connections;
    await gateway.reset();
    await gateway.manner({ delay: latency });
    const count = workers * rounds;
    await store.submit(requests(count, 256));
    await gateway.reaches(count);
    await resultsOf(store, workers * 2 + count);
    const { first, last, connections, peak: inFlight } = await gateway.stats();
    const errors = (await store.results()).filter((text) => !text.includes('"status_code":200')).length;
    return {
      efficiency: (rounds * latency * 1000) / (last - first),
      connections: warm + connections,
      ...{ inFlight, idle, errors, peak: memory(pid).peak },
    };
  });
}
