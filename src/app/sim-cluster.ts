import type { Clock } from "../clock/clock.ts";
import { SeededRandom } from "../clock/random.ts";
import { loadConfig } from "../config/load.ts";
import { parseDocument } from "../document/parse.ts";
import { EndpointRegistry } from "../endpoints/registry.ts";
import { HeaderList } from "../inference/headers.ts";
import { Rejection } from "../inference/outcomes.ts";
import type { InferenceRequest } from "../inference/request.ts";
import { Scheduler } from "../scheduling/scheduler.ts";
import { type EngineConfig, SimEngine } from "../simulator/engine.ts";
import type { SequenceSpec } from "../simulator/sequence.ts";
import { silentLogger } from "../telemetry/logger.ts";
import { instancesOf, planOf } from "./plan.ts";
import { PLUGIN_REGISTRY } from "./plugins.ts";

/** How often the simulated collector reads an engine's figures, milliseconds. */
export const SCRAPE_INTERVAL = 50;

export interface SimClusterOptions {
  readonly servers: number;
  /** Of all servers, or by their number, from 0 up. */
  readonly engine: Partial<EngineConfig> | ((server: number) => Partial<EngineConfig>);
  /** An EndpointPickerConfig; undefined = the built-in one. */
  readonly configText?: string | undefined;
  /** Whether the servers have metrics to read; default true. */
  readonly metrics?: boolean | undefined;
  readonly seed: number;
  readonly clock: Clock;
  readonly random: SeededRandom;
}

/** What happens to one request. Exactly one of `finished` and `rejected` is called. */
export interface SimListener {
  /** Its first token is there. */
  started?(): void;
  finished(): void;
  rejected(): void;
}

/** The real scheduler in front of the simulator's engines, without sockets, in the time of its clock. */
export class SimCluster {
  readonly #clock: Clock;
  readonly #endpoints: EndpointRegistry;
  readonly #engines = new Map<string, SimEngine>();
  readonly #scheduler: Scheduler;
  readonly #metrics: boolean;

  constructor({ servers, engine, configText, metrics, seed, clock, random }: SimClusterOptions) {
    this.#clock = clock;
    this.#metrics = metrics ?? true;
    this.#endpoints = new EndpointRegistry({ clock, random });
    for (let i = 0; i < servers; i++) {
      const endpoint = this.#endpoints.upsert({
        namespace: "sim",
        name: `s${i}`,
        address: `127.0.0.${i + 1}`,
        port: 8000,
        rank: 0,
        labels: {},
      })!;
      const own = typeof engine === "function" ? engine(i) : engine;
      this.#engines.set(endpoint.id, new SimEngine({ config: own, clock, random: new SeededRandom(seed + i) }));
    }
    const config = loadConfig(
      configText === undefined ? undefined : parseDocument(configText, { file: "simulation" }),
      PLUGIN_REGISTRY,
    );
    const plan = planOf(config, instancesOf(config, { clock, random, log: silentLogger }));
    this.#scheduler = new Scheduler({ plan, clock, random });
  }

  get engines(): readonly SimEngine[] {
    return [...this.#engines.values()];
  }

  /** Reads the engines now and then, as the collector does, for as long as `open` says; not at all where they have no metrics. */
  scrape(open: () => boolean): void {
    if (!this.#metrics) return;
    for (const endpoint of this.#endpoints.list()) {
      endpoint.metrics = this.#engines.get(endpoint.id)!.snapshotMetrics();
      this.#endpoints.states.readable(endpoint);
    }
    if (open()) this.#clock.after(SCRAPE_INTERVAL, () => this.scrape(open));
  }

  /** Schedules a request and hands it to the engine that was picked. */
  submit(request: InferenceRequest, spec: SequenceSpec, listener: SimListener): void {
    const result = this.#scheduler.schedule(request, this.#endpoints.candidates().endpoints, 0);
    if (result instanceof Rejection) {
      listener.rejected();
      return;
    }
    const target = result.endpoints[0]!;
    const ticket = this.#endpoints.inFlight.open(target, result.uncachedTokens);
    let started = false;
    this.#engines.get(target.id)!.submit(spec, {
      onToken() {
        if (started) return;
        started = true;
        if (!result.keepsTokens) ticket.firstResponseByte();
        listener.started?.();
      },
      onFinish() {
        ticket.release();
        listener.finished();
      },
      onReject() {
        ticket.release();
        listener.rejected();
      },
    });
  }
}

/** A request as its parser would see it, without a body. */
export function simRequest(id: string): InferenceRequest {
  return {
    id,
    headers: new HeaderList(),
    body: new Uint8Array(0),
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
    prompts: [],
    maxTokens: 1,
  };
}
