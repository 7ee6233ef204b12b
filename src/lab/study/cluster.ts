import type { Clock } from "../../base/clock/clock.ts";
import type { SeededRandom } from "../../base/clock/random.ts";
import { BytesPerToken } from "../../base/inference/bytes-per-token.ts";
import type { Endpoint } from "../../base/inference/endpoint.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import { ROLE_LABEL } from "../../base/inference/roles.ts";
import { silentLogger } from "../../base/telemetry/logger.ts";
import type { EffectiveConfig } from "../../picker/config/effective.ts";
import { flowControlSettings } from "../../picker/core/in-force.ts";
import { instancesOf, planOf } from "../../picker/core/plan.ts";
import { NO_EVENTS } from "../../picker/flowcontrol/events.ts";
import { FlowControl, type Ticket } from "../../picker/flowcontrol/flow-control.ts";
import { LegacyAdmission } from "../../picker/flowcontrol/legacy-admission.ts";
import { type Allowance, type SparePlace, SpareRoom } from "../../picker/flowcontrol/spare-room.ts";
import { Scheduler } from "../../picker/scheduling/scheduler.ts";
import { textToLearnFrom } from "../../picker/scheduling/tokens/learnable-text.ts";
import type { PoolEndpoint } from "../../pool/endpoints/pool-endpoint.ts";
import { EndpointRegistry } from "../../pool/endpoints/registry.ts";
import { Peers } from "../../pool/peers/peers.ts";
import type { PeerTransport } from "../../pool/peers/transport.ts";
import type { ModelEngine } from "../simulator/model-engine.ts";
import type { Sequence, SequenceSpec } from "../simulator/sequence.ts";
import { ExactKnowledge } from "./exact-knowledge.ts";
import type { LateTwins, Twin } from "./late-twins.ts";
import { type SimListener, sequenceListener, tellCache, withWork } from "./sim-listener.ts";

/** Default interval at which the simulated collector scrapes an engine, milliseconds. */
export const SCRAPE_INTERVAL = 50;

export interface SimClusterOptions {
  /** One per server. */
  readonly engines: readonly ModelEngine[];
  readonly config: EffectiveConfig;
  /** Whether the servers have metrics to read; default true. */
  readonly metrics?: boolean | undefined;
  /** Milliseconds between two scrapes of a server, > 0; default `SCRAPE_INTERVAL`. */
  readonly scrapeIntervalMs?: number | undefined;
  /** Difference between the real and the stated age of figures, in milliseconds; default 0. */
  readonly metricsLagMs?: number | undefined;
  /** The role of each server (scheduling 3.7.1); absent = none has one. */
  readonly roles?: readonly string[] | undefined;
  /** Milliseconds from now until the pool has its servers; default 0. */
  readonly serversAfterMs?: number | undefined;
  /** The way to the other pickers of the same servers; absent = it shares nothing. */
  readonly peers?: PeerTransport | undefined;
  /** In place of `peers`: the pickers know all of each other, late. */
  readonly twins?: LateTwins | undefined;
  /** The share of each server that background requests leave free, 0 to below 1; absent = there are none. */
  readonly baseline?: number | undefined;
  readonly clock: Clock;
  readonly random: SeededRandom;
}

/** One server: the scheduler's endpoint, and the engine. */
interface Place {
  readonly endpoint: PoolEndpoint;
  readonly engine: ModelEngine;
}

/** The real admission and scheduler in front of simulated engines, without sockets, in the time of its clock. */
export class SimCluster {
  readonly #options: SimClusterOptions;
  readonly #endpoints: EndpointRegistry;
  /** Empty until the pool has its servers. */
  #places: readonly Place[] = [];
  readonly #serverOf = new Map<Endpoint, number>();
  readonly #admission: LegacyAdmission;
  /** Undefined: requests do not queue. */
  readonly #flowControl: FlowControl | undefined;
  /** Undefined: there are no background requests. */
  readonly #spare: SpareRoom | undefined;
  readonly #instances: ReturnType<typeof instancesOf>;
  readonly #scheduler: Scheduler;
  /** Undefined: the configuration does not hear of caches. */
  readonly #exact: ExactKnowledge | undefined;
  readonly #bytesPerToken = new BytesPerToken();
  readonly #peers: Peers | undefined;
  readonly #twin: Twin | undefined;
  /** The priorities that requests have had. */
  readonly #priorities = new Set<number>();

  constructor(options: SimClusterOptions) {
    const { config: given, clock, random, serversAfterMs = 0 } = options;
    this.#options = options;
    this.#exact = ExactKnowledge.isNeeded(given) ? new ExactKnowledge(clock, random) : undefined;
    const config = this.#exact?.within(given) ?? given;
    this.#endpoints = new EndpointRegistry({ clock, random });
    if (serversAfterMs === 0) this.#addServers();
    this.#peers = this.#peersOf(options);
    this.#twin = options.twins?.join(this.#endpoints);
    const sharedPrefixes = (this.#twin ?? this.#peers)?.prefixes;
    this.#instances = instancesOf(config, { clock, random, log: silentLogger, sharedPrefixes });
    try {
      this.#scheduler = new Scheduler({ plan: planOf(config, this.#instances), clock, random });
      const detector = this.#instances.make(config.detector);
      this.#admission = new LegacyAdmission(detector);
      const pool = (): readonly Endpoint[] => this.#endpoints.candidates().endpoints;
      const { baseline } = options;
      if (baseline !== undefined) this.#spare = new SpareRoom({ clock, baseline, pool, detector: () => detector });
      if (config.flowControl !== undefined) {
        const settings = flowControlSettings(config.flowControl, this.#instances, detector);
        this.#flowControl = new FlowControl({ clock, settings, pool, events: NO_EVENTS });
      }
    } catch (error) {
      this.close();
      throw error;
    }
  }

  #peersOf({ peers: transport, clock, random }: SimClusterOptions): Peers | undefined {
    if (transport === undefined) return undefined;
    const peers = new Peers({
      ...{ clock, random, log: silentLogger, registry: this.#endpoints, bytesPerToken: this.#bytesPerToken },
      ...{ transport, identity: { cluster: "simulation", secret: "" } },
      onLoad: () => this.#flowControl?.changed(),
    });
    peers.start();
    return peers;
  }

  #addServers(): void {
    const { engines, roles, scrapeIntervalMs = SCRAPE_INTERVAL } = this.#options;
    this.#places = engines.map((engine, i) => {
      const address = `10.0.${Math.floor(i / 250)}.${(i % 250) + 1}`;
      const labels = roles === undefined ? {} : { [ROLE_LABEL]: roles[i]! };
      const endpoint = this.#endpoints.upsert({
        namespace: "sim",
        name: `s${i}`,
        address,
        port: 8000,
        rank: 0,
        labels,
      })!;
      // Staleness depends on the interval, so the cluster sets it as the collector does.
      endpoint.scrapeInterval = scrapeIntervalMs;
      this.#serverOf.set(endpoint, i);
      this.#exact?.hear(endpoint, engine);
      return { endpoint, engine };
    });
  }

  /** Closes the plugins. */
  close(): void {
    this.#flowControl?.close();
    this.#instances.close();
    void this.#peers?.close();
  }

  /**
   * Scrapes the engines at intervals, as the collector does, while `open` returns true; the servers come first where they come
   * later. Reads nothing if the engines have no metrics.
   */
  scrape(open: () => boolean): void {
    const { serversAfterMs = 0, clock } = this.#options;
    if (serversAfterMs === 0) this.#scrapeAll(open);
    else
      clock.after(serversAfterMs, () => {
        this.#addServers();
        this.#scrapeAll(open);
        this.#flowControl?.changed();
      });
  }

  #scrapeAll(open: () => boolean): void {
    const { metrics = true, scrapeIntervalMs = SCRAPE_INTERVAL, clock } = this.#options;
    if (!metrics) return;
    // All engines are scraped before the first request. Later each has its own phase, as with the collector.
    this.#places.forEach((place, i) => {
      this.#read(place);
      const again = (): void => {
        if (!open()) return;
        this.#read(place);
        clock.after(scrapeIntervalMs, again);
      };
      clock.after((scrapeIntervalMs * (i + 1)) / this.#places.length, again);
    });
  }

  /** Admits and schedules a request and hands it to the chosen engine; with flow control once the pool has room. */
  submit(understood: InferenceRequest, spec: SequenceSpec, listener: SimListener): void {
    this.#submit(understood, spec, listener);
  }

  /** @returns a function that ends the request, wherever it is */
  #submit(understood: InferenceRequest, spec: SequenceSpec, listener: SimListener, background?: SparePlace) {
    const { clock } = this.#options;
    const flowControl = this.#flowControl;
    if (flowControl === undefined) return this.#place(understood, spec, listener, undefined, background);
    // Plugins and metrics of flow control see every priority that a workload has.
    this.#usePriority(understood.priority);
    let abort: (() => void) | undefined;
    const ticket = flowControl.enter(understood, understood.body.length, clock.now(), {
      dispatched: () => {
        abort = this.#place(understood, spec, listener, ticket as Ticket, background);
      },
      evicted: ({ reason }) => listener.rejected(reason, 0),
      revoke: () => abort?.(),
    });
    if (ticket instanceof Rejection) listener.rejected(ticket.reason, 0);
    else if (!ticket.waiting) abort = this.#place(understood, spec, listener, ticket, background);
    return () => abort?.();
  }

  /** What background requests may do now; undefined = there are none. */
  allowance(): Allowance | undefined {
    return this.#spare?.allowance();
  }

  /** As `submit`, for a request that uses only the room that others leave. Needs a `baseline`. */
  submitBackground(understood: InferenceRequest, spec: SequenceSpec, listener: SimListener): void {
    const spare = this.#spare!;
    let abort: (() => void) | undefined;
    const ended: SimListener = {
      ...listener,
      finished(work) {
        spare.ended(place);
        listener.finished(work);
      },
      rejected(reason, work) {
        spare.ended(place);
        listener.rejected(reason, work);
      },
    };
    const go = (): void => {
      abort = this.#submit(understood, spec, ended, place);
    };
    const place = spare.enter({
      candidates: () => this.#endpoints.candidates().endpoints,
      candidatesKey: understood.targetModel,
      left: (admitted) => (admitted ? go() : listener.rejected("evicted_priority", 0)),
      revoke: () => abort?.(),
    });
    if (!place.waiting) go();
  }

  /** As objectives of the pool would: each priority has a band. */
  #usePriority(priority: number): void {
    if (this.#priorities.has(priority)) return;
    this.#priorities.add(priority);
    this.#flowControl!.usePriorities(this.#priorities);
  }

  /** @returns a function that ends the request; undefined when it was refused */
  #place(
    understood: InferenceRequest,
    spec: SequenceSpec,
    listener: SimListener,
    queued: Ticket | undefined,
    background?: SparePlace,
  ): (() => void) | undefined {
    const candidates = this.#endpoints.candidates().endpoints;
    const endpoints = background === undefined ? candidates : this.#spare!.withRoom(candidates);
    const { targetModel } = understood;
    const request = { ...understood, bytesPerToken: this.#bytesPerToken.of(targetModel) };
    this.#exact?.asked(request, spec);
    const refused =
      queued === undefined ? this.#admission.admit(request, endpoints, this.#options.clock.now()) : undefined;
    const result = refused ?? this.#scheduler.schedule(request, endpoints, 0);
    if (result instanceof Rejection) {
      if (queued !== undefined) this.#flowControl!.ended(queued);
      listener.rejected(result.reason, 0);
      return undefined;
    }
    const target = result.endpoints[0]!;
    const own = this.#endpoints.inFlight.open(target, result.uncachedTokens);
    const ticket = this.#twin?.opened(own, target, result.uncachedTokens) ?? own;
    const sides = (result.sideLoads ?? []).map((side) =>
      this.#endpoints.inFlight.open(side.endpoint, side.uncachedTokens),
    );
    if (queued !== undefined) this.#flowControl!.decided(queued);
    if (background !== undefined) this.#spare!.placed(background, target);
    else this.#spare?.taken(target);
    const server = this.#serverOf.get(target)!;
    listener.placed?.(server, queued?.wait.waitedMs);
    const first = (): void => {
      if (!result.keepsTokens) ticket.firstResponseByte();
      result.listener?.answered();
      for (const side of sides) side.release();
      this.#flowControl?.changed();
    };
    const text = textToLearnFrom(this.#bytesPerToken, request);
    // The engine's count, which it reports at the end of its answer.
    const tokens = typeof spec.prompt === "number" ? spec.prompt : spec.prompt.length;
    const learning: SimListener = {
      ...listener,
      finished: (work) => {
        this.#bytesPerToken.learn(targetModel, text, tokens, this.#options.clock.now());
        listener.finished(work);
      },
    };
    const ended = (sequence?: Sequence): void => {
      if (sequence !== undefined) tellCache(listener, result.record.cache, sequence);
      ticket.release();
      for (const side of sides) side.release();
      result.listener?.ended(sequence && { promptTokens: tokens, cachedTokens: sequence.cachedTokens });
      const served = { promptTokens: tokens, completionTokens: spec.outputTokens ?? Number.NaN };
      if (queued !== undefined) this.#flowControl!.ended(queued, served);
      this.#spare?.changed();
    };
    const prefill = result.sideLoads?.[0];
    const stages = prefill === undefined ? [server] : [this.#serverOf.get(prefill.endpoint)!, server];
    return this.#compute(stages, spec, learning, { first, ended });
  }

  /**
   * Hands the request to the server, or to one that computes its prompt and then to the one that generates.
   * @param stages one or two servers by number
   * @returns a function that ends the request
   */
  #compute(
    stages: readonly number[],
    spec: SequenceSpec,
    listener: SimListener,
    { first, ended }: { readonly first: () => void; readonly ended: (sequence?: Sequence) => void },
  ): () => void {
    const { engines } = this.#options;
    const last = engines[stages.at(-1)!]!;
    const generate = (remotePrefill: boolean, before: number): void => {
      const sequence = last.submit(
        { ...spec, remotePrefill },
        sequenceListener({ ...listener, ...withWork(listener, before) }, first, ended),
      );
      abort = () => last.abort(sequence);
    };
    let abort = (): void => {};
    if (stages.length === 1) generate(false, 0);
    else {
      const engine = engines[stages[0]!]!;
      const handedOver = { finished: (work: number) => generate(true, work), rejected: listener.rejected };
      const prompt = { ...spec, answer: undefined, outputTokens: 1 };
      const sequence = engine.submit(
        prompt,
        sequenceListener(
          handedOver,
          () => {},
          () => {},
          () => ended(),
        ),
      );
      if (sequence.state === "waiting" || sequence.state === "running") abort = () => engine.abort(sequence);
    }
    return () => abort();
  }

  #read({ endpoint, engine }: Place): void {
    const { clock, metricsLagMs = 0 } = this.#options;
    const figures = engine.snapshotMetrics();
    const { requests, tokens } = endpoint.unscraped;
    const arrived = (): void => {
      endpoint.metrics = metricsLagMs === 0 ? figures : { ...figures, scrapedAt: clock.now() };
      endpoint.unscraped.scraped({ requests, tokens }, figures);
      this.#spare?.scraped(endpoint);
      this.#flowControl?.changed();
      this.#endpoints.states.readable(endpoint);
    };
    if (metricsLagMs === 0) arrived();
    else clock.after(metricsLagMs, arrived);
  }
}
