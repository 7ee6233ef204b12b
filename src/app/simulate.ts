import { SeededRandom } from "../clock/random.ts";
import { VirtualClock } from "../clock/virtual.ts";
import { loadConfig } from "../config/load.ts";
import { parseDocument } from "../document/parse.ts";
import { EndpointRegistry } from "../endpoints/registry.ts";
import { HeaderList } from "../inference/headers.ts";
import { Rejection } from "../inference/outcomes.ts";
import type { InferenceRequest } from "../inference/request.ts";
import { buildProfile } from "../scheduling/build.ts";
import { Scheduler } from "../scheduling/scheduler.ts";
import { type EngineConfig, SimEngine } from "../simulator/engine.ts";
import { tokenize } from "../simulator/tokenizer.ts";
import type { WorkloadRequest } from "./demo/workload.ts";
import { PLUGIN_REGISTRY } from "./plugins.ts";

/** How often the simulated collector reads an engine's figures, milliseconds. */
const SCRAPE_INTERVAL = 50;

export interface Simulation {
  readonly servers: number;
  readonly engine: Partial<EngineConfig>;
  readonly workload: readonly WorkloadRequest[];
  /** An EndpointPickerConfig; undefined = the built-in one. */
  readonly configText?: string;
  readonly seed: number;
}

/** What became of a workload; times in milliseconds of virtual time. */
export interface SimulationResult {
  /** Time to first token of every request, in the order of arrival of the first tokens. */
  readonly ttfts: readonly number[];
  readonly rejected: number;
  /** Cached prompt tokens by all prompt tokens, 0..1. */
  readonly cacheHitRate: number;
}

/**
 * Plays a workload in virtual time: the real scheduler in front of the simulator's engines, without sockets. The same
 * input gives the same result, however busy the machine is.
 */
export function simulate({ servers, engine, workload, configText, seed }: Simulation): SimulationResult {
  const clock = new VirtualClock();
  const random = new SeededRandom(seed);
  const endpoints = new EndpointRegistry({ clock, random });
  const engines = new Map<string, SimEngine>();
  for (let i = 0; i < servers; i++) {
    const endpoint = endpoints.upsert({
      namespace: "sim",
      name: `s${i}`,
      address: `127.0.0.${i + 1}`,
      port: 8000,
      rank: 0,
      labels: {},
    })!;
    engines.set(endpoint.id, new SimEngine({ config: engine, clock, random: new SeededRandom(seed + i) }));
  }
  const config = loadConfig(
    configText === undefined ? undefined : parseDocument(configText, { file: "simulation" }),
    PLUGIN_REGISTRY,
  );
  const profile = buildProfile({
    name: config.profile.name,
    plugins: [...config.profile.plugins, ...config.producers],
    registry: PLUGIN_REGISTRY,
    clock,
    random,
  });
  const scheduler = new Scheduler({ profile, clock, random });
  const ttfts: number[] = [];
  let rejected = 0;
  let open = workload.length;

  const scrape = (): void => {
    for (const endpoint of endpoints.list()) {
      endpoint.metrics = engines.get(endpoint.id)!.snapshotMetrics();
      endpoints.states.readable(endpoint);
    }
    if (open > 0) clock.after(SCRAPE_INTERVAL, scrape);
  };
  const arrive = (request: WorkloadRequest): void => {
    const result = scheduler.schedule(inferenceRequest(request), endpoints.candidates().endpoints, 0);
    if (result instanceof Rejection) {
      rejected++;
      open--;
      return;
    }
    const target = result.endpoints[0]!;
    const ticket = endpoints.inFlight.open(target, result.uncachedTokens);
    let started = false;
    engines.get(target.id)!.submit(
      { prompt: tokenize(`${request.system} ${request.question}`), maxTokens: request.maxTokens, ignoreEos: true },
      {
        onToken() {
          if (started) return;
          started = true;
          ticket.firstResponseByte();
          ttfts.push(clock.now() - request.at);
        },
        onFinish() {
          ticket.release();
          open--;
        },
        onReject() {
          ticket.release();
          rejected++;
          open--;
        },
      },
    );
  };

  scrape();
  for (const request of workload) clock.after(request.at, () => arrive(request));
  clock.run();
  let hits = 0;
  let queries = 0;
  for (const { counters } of engines.values()) {
    hits += counters.prefixHits;
    queries += counters.prefixQueries;
  }
  return { ttfts, rejected, cacheHitRate: queries === 0 ? 0 : hits / queries };
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
    id: `request-${number}`,
    headers: new HeaderList(),
    body,
    model: "sim",
    modelRange: undefined,
    modelInsertAt: -1,
    answerFormat: "http",
    shedAt: Number.POSITIVE_INFINITY,
    targetModel: "sim",
    objective: "",
    priority: 0,
    fairnessId: "default-flow",
    streaming: true,
    cacheSalt: "",
    prompts: [[{ start: head.length, end: body.length - 1 }]],
    maxTokens,
  };
}
