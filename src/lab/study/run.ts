import { setImmediate as turn } from "node:timers/promises";
import type { Clock } from "../../base/clock/clock.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { realClock } from "../../base/clock/real.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import type { RecordedCache } from "../../base/inference/decision-record.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import type { EffectiveConfig } from "../../picker/config/effective.ts";
import type { EngineCounters, ModelEngine } from "../simulator/model-engine.ts";
import type { SequenceSpec } from "../simulator/sequence.ts";
import { stretched } from "../simulator/workloads/prompt-text.ts";
import { BYTES_PER_TOKEN, type Workload, type WorkloadRequest } from "../simulator/workloads/workload.ts";
import { BareCluster } from "./bare-cluster.ts";
import { Loads, Measure } from "./measure.ts";
import type { SimPickers } from "./picker-flags.ts";
import { PickerReplicas } from "./pickers.ts";
import type { Rule } from "./policies.ts";
import type { RunResult, ServerResult } from "./result.ts";
import type { SimListener } from "./sim-listener.ts";

/** The part that routes: a configuration for the scheduler, or a rule without one. */
export type Decides = { readonly config: EffectiveConfig } | { readonly rule: Rule };

/** Creates the engine with this number. */
type MakeEngine = (server: number, parts: { clock: VirtualClock; random: SeededRandom }) => ModelEngine;

export interface RunOptions {
  readonly workload: Workload;
  /** Milliseconds during which counted requests arrive. Later arrivals must be requests that wait for answers. */
  readonly durationMs: number;
  /** Milliseconds of warm-up before those; default 0. */
  readonly warmUpMs?: number | undefined;
  readonly servers: number;
  readonly engine: MakeEngine;
  readonly decides: Decides;
  readonly seed: number;
  /** Default: the engines have metrics, scraped every 50 ms, without a lag. */
  readonly metrics?: boolean | undefined;
  readonly scrapeIntervalMs?: number | undefined;
  readonly metricsLagMs?: number | undefined;
  /** Milliseconds after which the pool has its servers; default 0. */
  readonly serversAtMs?: number | undefined;
  /** Share of the servers that only compute prompts, above 0 and below 1; absent = no server has a role. */
  readonly prefillShare?: number | undefined;
  /** Bytes of a prompt token on the wire, 1 to 16; default 4. The engines compute the same tokens with any value. */
  readonly bytesPerToken?: number | undefined;
  /**
   * Milliseconds between two restarts, the first so long after the warm-up: one server after the other loses its cache. Absent =
   * there are none.
   */
  readonly restartEveryMs?: number | undefined;
  /** The pickers in front of the servers; absent = one. A rule has one. */
  readonly pickers?: SimPickers | undefined;
  /** Whether to keep loads for plots; default false. */
  readonly samples?: boolean | undefined;
  /** Called with the server of each admitted request, in the order of arrival. */
  readonly placed?: ((server: number) => void) | undefined;
  /** Called for each counted request that was answered: what the picker expected in the cache of its server, and what was there. */
  readonly cached?: ((cache: Readonly<RecordedCache>) => void) | undefined;
}

/** The measured figures of a run; the study adds the names around them. */
type RunFigures = Omit<RunResult, "workload" | "rate" | "policy" | "seconds">;

/** Arrivals, engines and decisions have separate chance: their seeds are this far apart. */
const SEED_STEP = 0x9e3779b9;
/** Milliseconds of virtual time between two turns of `Run.advance`. */
const SLICE = 1000;

/** One workload under one policy, in virtual time: the same input gives the same result on any machine. */
export class Run {
  readonly #options: RunOptions;
  readonly #clock = new VirtualClock();
  readonly #engines: readonly ModelEngine[];
  readonly #measure: Measure;
  readonly #loads: Loads;
  readonly #submit: (request: WorkloadRequest, spec: SequenceSpec, listener: SimListener) => void;
  readonly #end: number;
  /** For each server: counted requests that ended there. */
  readonly #finished: number[];
  #before: readonly EngineCounters[];
  #cluster: PickerReplicas | undefined;
  #open = 0;
  #number = 0;

  constructor(options: RunOptions) {
    this.#options = options;
    const { servers, engine, decides, seed, workload, durationMs, warmUpMs = 0, serversAtMs = 0 } = options;
    const clock = this.#clock;
    const chance = (which: number): SeededRandom => new SeededRandom(seed + which * SEED_STEP);
    this.#engines = Array.from({ length: servers }, (_, i) => engine(i, { clock, random: chance(3 + i) }));
    this.#finished = this.#engines.map(() => 0);
    this.#end = warmUpMs + durationMs;
    const counted = (): readonly EngineCounters[] => this.#engines.map(({ counters }) => ({ ...counters }));
    // Without a warm-up the counting starts here: requests of the very first moment count, too.
    this.#before = counted();
    if (warmUpMs > 0)
      clock.after(warmUpMs, () => {
        this.#before = counted();
      });
    const { restartEveryMs } = options;
    if (restartEveryMs !== undefined)
      for (const [i, server] of this.#engines.entries())
        clock.after(warmUpMs + restartEveryMs * (i + 1), () => server.loseCache?.());
    this.#measure = new Measure(() => clock.now(), warmUpMs, this.#end);
    this.#loads = new Loads(this.#engines, clock, options.samples ?? false);
    if ("rule" in decides) {
      const isUp = (): boolean => clock.now() >= serversAtMs;
      const cluster = new BareCluster(this.#engines, decides.rule, chance(2), isUp);
      this.#submit = (_, spec, listener) => cluster.submit(spec, listener);
    } else {
      const { metrics, scrapeIntervalMs, metricsLagMs, prefillShare, bytesPerToken = BYTES_PER_TOKEN } = options;
      const { config } = decides;
      const roles = prefillShare === undefined ? undefined : rolesOf(servers, prefillShare);
      const parts = { engines: this.#engines, clock, random: chance(2), metrics, scrapeIntervalMs, metricsLagMs };
      const pickers = options.pickers ?? { count: 1, sharing: undefined };
      const cluster = new PickerReplicas({ ...parts, config, roles, serversAfterMs: serversAtMs }, pickers);
      this.#cluster = cluster;
      cluster.scrape(() => this.#isOpen());
      this.#submit = (request, spec, listener) =>
        cluster.submit(inferenceRequest(this.#number, request, bytesPerToken), spec, listener);
    }
    this.#loads.watch(
      () => this.#isOpen(),
      () => clock.now() >= warmUpMs && clock.now() < this.#end,
    );
    workload.start({ clock, random: chance(1), send: (request, ended) => this.#send(request, ended) });
  }

  /** Requests so far, including those of the warm-up. */
  get requests(): number {
    return this.#number;
  }

  /** Timers of the virtual clock that fired. */
  get events(): number {
    return this.#clock.fired;
  }

  /** Elapsed share of the arrivals' time, 0..1. */
  get share(): number {
    return Math.min(1, this.#clock.now() / this.#end);
  }

  /** Simulates one more second of virtual time. @returns whether work remains; timers of plugins do not count */
  advance(): boolean {
    this.#clock.advance(SLICE);
    return this.#isOpen();
  }

  /** Closes the plugins; call it after the last `advance`. */
  close(): void {
    this.#cluster?.close();
  }

  /** The figures; call it after `advance` has returned false. */
  figures(): RunFigures {
    const counters = this.#engines.map(({ counters: after }, i) => since(this.#before[i]!, after));
    const sum = (of: (one: EngineCounters) => number): number => counters.reduce((total, one) => total + of(one), 0);
    return {
      seed: this.#options.seed,
      ...this.#measure.result(),
      hitRate: share(
        sum((c) => c.prefixHits),
        sum((c) => c.prefixQueries),
      ),
      maxToMeanLoad: this.#loads.maxToMean,
      preemptions: sum((c) => c.preemptions),
      adapterLoads: sum((c) => c.adapterLoads),
      servers: counters.map(
        (c, i): ServerResult => ({
          requests: this.#finished[i]!,
          meanLoad: this.#loads.means[i]!,
          hitRate: share(c.prefixHits, c.prefixQueries),
        }),
      ),
      samples: this.#loads.samples,
      events: this.events,
    };
  }

  #isOpen(): boolean {
    return this.#open > 0 || this.#clock.now() < this.#end;
  }

  #send(request: WorkloadRequest, ended: ((outcome: "finished" | "rejected") => void) | undefined): void {
    const { prompt, outputTokens, adapter, answer } = request;
    this.#number++;
    this.#open++;
    const tokens = tokensOf(prompt);
    const measured = this.#measure.begin(request, tokens.length);
    const spec = {
      ...{ prompt: tokens, outputTokens, adapter, seed: 0 },
      ...(answer === undefined ? {} : { answer: tokensOf(answer) }),
    };
    const end = (outcome: "finished" | "rejected"): void => {
      this.#open--;
      if (ended !== undefined) this.#clock.soon(() => ended(outcome));
    };
    let at = 0;
    this.#submit(request, spec, {
      placed: (server, waited) => {
        at = server;
        measured.placed(waited);
        this.#options.placed?.(server);
      },
      cached: (cache) => {
        if (measured.counted) this.#options.cached?.(cache);
      },
      started: measured.started,
      produced: measured.produced,
      finished: (work) => {
        measured.finished(work);
        if (measured.counted) this.#finished[at]!++;
        end("finished");
      },
      rejected: (reason, work) => {
        measured.rejected(reason, work);
        end("rejected");
      },
    });
  }
}

/** The difference of two counter readings. */
function since(before: EngineCounters, after: Readonly<EngineCounters>): EngineCounters {
  const names = Object.keys(before) as (keyof EngineCounters)[];
  return Object.fromEntries(names.map((name) => [name, after[name] - before[name]])) as unknown as EngineCounters;
}

/** Simulates a whole run. */
export function simulate(options: RunOptions): RunFigures {
  const run = new Run(options);
  try {
    while (run.advance());
    return run.figures();
  } finally {
    run.close();
  }
}

/** The roles of servers: at least one that computes prompts and one that generates; a single server does both. */
function rolesOf(servers: number, prefillShare: number): readonly string[] {
  if (servers === 1) return ["prefill-decode"];
  const prefill = Math.min(servers - 1, Math.max(1, Math.round(servers * prefillShare)));
  return Array.from({ length: servers }, (_, i) => (i < prefill ? "prefill" : "decode"));
}

/** The bytes as token ids. */
function tokensOf(text: Uint8Array): Uint32Array {
  return new Uint32Array(text.buffer, text.byteOffset, text.byteLength / BYTES_PER_TOKEN);
}

function share(part: number, of: number): number {
  return of === 0 ? Number.NaN : part / of;
}

/** The request as its parser and the model resolution would produce it. */
function inferenceRequest(number: number, request: WorkloadRequest, bytesPerToken: number): InferenceRequest {
  const { adapter = "base", priority = 0, tenant = "default-flow", session } = request;
  const prompt = stretched(request.prompt, bytesPerToken);
  return {
    ...simRequest(`request-${number}`),
    headers: session === undefined ? new HeaderList() : HeaderList.of([["x-session-id", session]]),
    body: prompt,
    prompts: [[{ start: 0, end: prompt.length }]],
    model: adapter,
    targetModel: adapter,
    priority,
    shedAt: priority < 0 ? 1 : Number.POSITIVE_INFINITY,
    fairnessId: tenant,
    // The length of an answer is unknown before its end.
    maxTokens: Number.NaN,
  };
}

/** A request without a body. */
export function simRequest(id: string): InferenceRequest {
  return {
    id,
    headers: new HeaderList(),
    body: new Uint8Array(0),
    model: "base",
    modelRange: undefined,
    modelInsertAt: -1,
    answerFormat: "http",
    shedAt: Number.POSITIVE_INFINITY,
    targetModel: "base",
    objective: "",
    priority: 0,
    fairnessId: "default-flow",
    streaming: true,
    cacheSalt: "",
    prompts: [],
    maxTokens: 1,
  };
}

/** Milliseconds of real time between two turns of the event loop, for progress and for Ctrl-C. */
const TURN_MS = 100;

interface PlayOptions {
  /** Ends the run. */
  readonly signal?: AbortSignal | undefined;
  /** Called at every turn, and at the end. @param seconds of real time that the run has taken so far */
  onTurn?(seconds: number): void;
  /** Real time; default `realClock`. */
  readonly clock?: Pick<Clock, "now"> | undefined;
}

/**
 * Simulates a whole run in slices: other work of the process runs between them. Closes the run.
 * @returns seconds of real time of the run alone; undefined when it was interrupted
 */
export async function play(
  run: Run,
  { signal, onTurn, clock = realClock }: PlayOptions = {},
): Promise<number | undefined> {
  try {
    let busy = 0;
    let turned = clock.now();
    for (let more = true; more; ) {
      more = run.advance();
      // In each slice, not only in each turn: a fast machine simulates a short run within one turn.
      if (signal?.aborted && more) return undefined;
      const now = clock.now();
      if (now - turned < TURN_MS && more) continue;
      busy += now - turned;
      onTurn?.(busy / 1000);
      // Also after the last slice: runs may be short and many.
      await turn();
      turned = clock.now();
    }
    return busy / 1000;
  } finally {
    run.close();
  }
}
