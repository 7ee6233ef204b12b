import { SeededRandom } from "../clock/random.ts";
import { VirtualClock } from "../clock/virtual.ts";
import type { InferenceRequest } from "../inference/request.ts";
import { tokenize } from "../simulator/tokenizer.ts";
import type { WorkloadRequest } from "./demo/workload.ts";
import { SCRAPE_INTERVAL, SimCluster, type SimClusterOptions, simRequest } from "./sim-cluster.ts";

export interface Simulation extends Omit<SimClusterOptions, "clock" | "random"> {
  readonly workload: readonly WorkloadRequest[];
}

/** What became of a workload; times in milliseconds of virtual time. */
export interface SimulationResult {
  /** Time to first token of every request, in the order of arrival of the first tokens. */
  readonly ttfts: readonly number[];
  readonly rejected: number;
  /** Cached prompt tokens by all prompt tokens, 0..1. */
  readonly cacheHitRate: number;
  /** Requests at the busiest server by those at the mean one, each added up over time; 1 = even. */
  readonly maxToMeanLoad: number;
}

/**
 * Plays a workload in virtual time: the real scheduler in front of the simulator's engines, without sockets. The same
 * input gives the same result, however busy the machine is.
 */
export function simulate({ workload, ...options }: Simulation): SimulationResult {
  const clock = new VirtualClock();
  const cluster = new SimCluster({ ...options, clock, random: new SeededRandom(options.seed) });
  const ttfts: number[] = [];
  let rejected = 0;
  let open = workload.length;
  const arrive = (request: WorkloadRequest): void => {
    const prompt = tokenize(`${request.system} ${request.question}`);
    const spec = { prompt, maxTokens: request.maxTokens, ignoreEos: true };
    cluster.submit(inferenceRequest(request), spec, {
      started: () => ttfts.push(clock.now() - request.at),
      finished: () => open--,
      rejected() {
        rejected++;
        open--;
      },
    });
  };

  cluster.scrape(() => open > 0);
  const load = { max: 0, total: 0 };
  const look = (): void => {
    let max = 0;
    for (const { running, waiting } of cluster.engines) {
      max = Math.max(max, running + waiting);
      load.total += running + waiting;
    }
    load.max += max;
    if (open > 0) clock.after(SCRAPE_INTERVAL, look);
  };
  look();
  for (const request of workload) clock.after(request.at, () => arrive(request));
  clock.run();
  let hits = 0;
  let queries = 0;
  for (const { counters } of cluster.engines) {
    hits += counters.prefixHits;
    queries += counters.prefixQueries;
  }
  return {
    ttfts,
    rejected,
    cacheHitRate: queries === 0 ? 0 : hits / queries,
    maxToMeanLoad: load.total === 0 ? 1 : (load.max * options.servers) / load.total,
  };
}

/** The request as its parser would see it. */
function inferenceRequest({ number, system, question, maxTokens }: WorkloadRequest): InferenceRequest {
  const head = '{"model":"sim","messages":';
  const messages = JSON.stringify([
    { role: "system", content: system },
    { role: "user", content: question },
  ]);
  const body = new TextEncoder().encode(`${head}${messages}}`);
  return {
    ...simRequest(`request-${number}`),
    body,
    prompts: [[{ start: head.length, end: body.length - 1 }]],
    maxTokens,
  };
}
