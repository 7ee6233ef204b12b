import { setImmediate as turn } from "node:timers/promises";
import { SeededRandom } from "../../base/clock/random.ts";
import { realClock } from "../../base/clock/real.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import type { EffectiveConfig } from "../../picker/config/effective.ts";
import type { EngineCounters, ModelEngine } from "../simulator/model-engine.ts";
import type { SequenceSpec } from "../simulator/sequence.ts";
import { stretched } from "../simulator/workloads/prompt-text.ts";
import { BYTES_PER_TOKEN, type Workload, type WorkloadRequest } from "../simulator/workloads/workload.ts";
import { BareCluster, SimCluster, type SimListener } from "./cluster.ts";
import { Loads, Measure } from "./measure.ts";
import type { Rule } from "./policies.ts";
import type { RunResult, ServerResult } from "./result.ts";

/** What decides: a configuration for the scheduler, or a rule without one. */
export type Decides = { readonly config: EffectiveConfig } | { readonly rule: Rule };

/** How one engine is made, by its number. */
type MakeEngine = (server: number, parts: { clock: VirtualClock; random: SeededRandom }) => ModelEngine;

export interface RunOptions {
  readonly workload: Workload;
  /** Milliseconds during which requests arrive that count. Nothing may arrive later, but what waits for an answer. */
  readonly durationMs: number;
  /** Milliseconds before those; default 0. */
  readonly warmUpMs?: number | undefined;
  readonly servers: number;
  readonly engine: MakeEngine;
  readonly decides: Decides;
  readonly seed: number;
  /** Default: there are metrics, read every 50 ms and as new as they claim to be. */
  readonly metrics?: boolean | undefined;
  readonly scrapeIntervalMs?: number | undefined;
  readonly metricsLagMs?: number | undefined;
  /** Bytes that a token of the prompts has on the wire, 1 to 16; default 4. The engines compute the same tokens whatever it is. */
  readonly bytesPerToken?: number | undefined;
  /** Whether loads are kept for plots; default false. */
  readonly samples?: boolean | undefined;
  /** Told which server each request goes to that the scheduler lets in, in the order of their arrival. */
  readonly placed?: ((server: number) => void) | undefined;
}

/** What a run measures by itself; the names around it are the study's. */
type RunFigures = Omit<RunResult, "workload" | "rate" | "policy" | "seconds">;

/** Chance of arrivals, of engines and of decisions is kept apart: the seed of each is this far from the next. */
const SEED_STEP = 0x9e3779b9;
/** Milliseconds of virtual time between two turns of `Run.advance`. */
const SLICE = 1000;

/** One workload through one policy, in virtual time: the same input gives the same result, however busy the machine is. */
export class Run {
  readonly #options: RunOptions;
  readonly #clock = new VirtualClock();
  readonly #engines: readonly ModelEngine[];
  readonly #measure: Measure;
  readonly #loads: Loads;
  readonly #submit: (request: WorkloadRequest, spec: SequenceSpec, listener: SimListener) => void;
  readonly #end: number;
  /** Of each server: requests that count and have ended there. */
  readonly #finished: number[];
  #before: readonly EngineCounters[];
  #cluster: SimCluster | undefined;
  #open = 0;
  #number = 0;

  constructor(options: RunOptions) {
    this.#options = options;
    const { servers, engine, decides, seed, workload, durationMs, warmUpMs = 0 } = options;
    const clock = this.#clock;
    const chance = (which: number): SeededRandom => new SeededRandom(seed + which * SEED_STEP);
    this.#engines = Array.from({ length: servers }, (_, i) => engine(i, { clock, random: chance(3 + i) }));
    this.#finished = this.#engines.map(() => 0);
    this.#end = warmUpMs + durationMs;
    const counted = (): readonly EngineCounters[] => this.#engines.map(({ counters }) => ({ ...counters }));
    // At once where there is no warm-up: what a workload sends in the very first moment counts, too.
    this.#before = counted();
    if (warmUpMs > 0)
      clock.after(warmUpMs, () => {
        this.#before = counted();
      });
    this.#measure = new Measure(() => clock.now(), warmUpMs);
    this.#loads = new Loads(this.#engines, clock, options.samples ?? false);
    if ("rule" in decides) {
      const cluster = new BareCluster(this.#engines, decides.rule, chance(2));
      this.#submit = (_, spec, listener) => cluster.submit(spec, listener);
    } else {
      const { metrics, scrapeIntervalMs, metricsLagMs, bytesPerToken = BYTES_PER_TOKEN } = options;
      const { config } = decides;
      const parts = { engines: this.#engines, clock, random: chance(2), metrics, scrapeIntervalMs, metricsLagMs };
      const cluster = new SimCluster({ ...parts, config });
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

  /** Requests so far, those of the warm-up included. */
  get requests(): number {
    return this.#number;
  }

  /** Timers of the virtual clock that have fired. */
  get events(): number {
    return this.#clock.fired;
  }

  /** Share of the arrivals' time that has passed, 0..1. */
  get share(): number {
    return Math.min(1, this.#clock.now() / this.#end);
  }

  /** Plays a second more of virtual time. @returns whether there is more to come; timers that plugins keep armed are nothing to wait for */
  advance(): boolean {
    this.#clock.advance(SLICE);
    return this.#isOpen();
  }

  /** Closes the plugins; to be called once no more is played. */
  close(): void {
    this.#cluster?.close();
  }

  /** What came of it; to be asked for when `advance` has said that nothing is left. */
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
    const { prompt, outputTokens, adapter, answer, kind } = request;
    this.#number++;
    this.#open++;
    const tokens = tokensOf(prompt);
    const measured = this.#measure.begin(kind, tokens.length, outputTokens);
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
      placed: (server) => {
        at = server;
        this.#options.placed?.(server);
      },
      started: measured.started,
      finished: () => {
        measured.finished();
        if (measured.counted) this.#finished[at]!++;
        end("finished");
      },
      rejected: () => {
        measured.rejected();
        end("rejected");
      },
    });
  }
}

/** What has been counted since. */
function since(before: EngineCounters, after: Readonly<EngineCounters>): EngineCounters {
  const names = Object.keys(before) as (keyof EngineCounters)[];
  return Object.fromEntries(names.map((name) => [name, after[name] - before[name]])) as unknown as EngineCounters;
}

/** Plays a whole run. */
export function simulate(options: RunOptions): RunFigures {
  const run = new Run(options);
  try {
    while (run.advance());
    return run.figures();
  } finally {
    run.close();
  }
}

/** The bytes as token ids. */
function tokensOf(text: Uint8Array): Uint32Array {
  return new Uint32Array(text.buffer, text.byteOffset, text.byteLength / BYTES_PER_TOKEN);
}

function share(part: number, of: number): number {
  return of === 0 ? Number.NaN : part / of;
}

/** The request as its parser would see it, after the resolution of its model. */
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
    // How long the answer gets is known to nobody before it is there.
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
