import type { Clock } from "../../base/clock/clock.ts";
import { quantile } from "../../base/telemetry/quantile.ts";
import type { ModelEngine } from "../simulator/model-engine.ts";
import type { WorkloadRequest } from "../simulator/workloads/workload.ts";
import { jainIndex } from "./jain.ts";
import type { KindResult, LoadSample, Quantiles } from "./result.ts";

/** The most groups of one sort (kinds, tenants, priorities) with their own figures; further ones count in the sums alone. */
const MAX_GROUPS = 64;

/** Times and counts of a group of requests during a run. */
class Tally {
  readonly ttfts: number[] = [];
  readonly tpots: number[] = [];
  readonly e2es: number[] = [];
  readonly waits: number[] = [];
  requests = 0;
  rejected = 0;
  promptTokens = 0;
  outputTokens = 0;
  /** Tokens that appeared in the time of the arrivals, of requests that were not ended before their last token. */
  served = 0;
}

/** Tallies by the name of a group. */
class Groups {
  readonly #tallies = new Map<string, Tally>();

  /** @returns no tally for a request without a name, and for a further group */
  of(name: string | undefined): readonly Tally[] {
    if (name === undefined) return [];
    let tally = this.#tallies.get(name);
    if (tally === undefined) {
      if (this.#tallies.size === MAX_GROUPS) return [];
      tally = new Tally();
      this.#tallies.set(name, tally);
    }
    return [tally];
  }

  /** @param ms of the arrivals */
  results(ms: number): readonly KindResult[] {
    return [...this.#tallies].map(([kind, tally]) => kindResult(kind, tally, ms));
  }
}

/** One request in progress. */
interface Measured {
  /** Whether it arrived after the warm-up. */
  readonly counted: boolean;
  /** It goes to a server. @param waited milliseconds in flow control; absent = it passed none */
  placed(waited: number | undefined): void;
  /** Its first token appeared. */
  started(): void;
  /** So many tokens of its answer appeared; with the first ones its prompt is served, too. */
  produced(count: number): void;
  /** @param work tokens that servers computed for it */
  finished(work: number): void;
  /** It was refused or ended. @param reason such as `evicted` @param work see `finished` */
  rejected(reason: string, work: number): void;
}

const UNCOUNTED: Measured = {
  counted: false,
  placed() {},
  started() {},
  produced() {},
  finished() {},
  rejected() {},
};

/** The part of a request that decides which groups it counts in. */
export type MeasuredRequest = Pick<WorkloadRequest, "kind" | "tenant" | "priority" | "outputTokens">;

/** Gathers the results of the requests of a run. Memory: four numbers per request and sort of group. */
export class Measure {
  readonly #now: () => number;
  readonly #from: number;
  readonly #until: number;
  readonly #all = new Tally();
  readonly #kinds = new Groups();
  readonly #tenants = new Groups();
  readonly #priorities = new Groups();
  readonly #refusals = new Map<string, number>();
  #work = 0;
  #wasted = 0;
  #first = Number.NaN;
  #last = 0;

  /**
   * @param now milliseconds
   * @param from requests that arrive before this time do not count
   * @param until end of the arrivals: tokens that appear later are not served in time
   */
  constructor(now: () => number, from: number, until: number) {
    this.#now = now;
    this.#from = from;
    this.#until = until;
  }

  /** Registers a request that arrives now. */
  begin({ kind, tenant, priority = 0, outputTokens }: MeasuredRequest, promptTokens: number): Measured {
    const at = this.#now();
    if (at < this.#from) return UNCOUNTED;
    if (Number.isNaN(this.#first)) this.#first = at;
    const tallies = [
      this.#all,
      ...this.#kinds.of(kind),
      ...this.#tenants.of(tenant),
      ...this.#priorities.of(String(priority)),
    ];
    for (const tally of tallies) tally.requests++;
    let first = Number.NaN;
    let served = 0;
    return {
      counted: true,
      placed: (waited) => {
        if (waited !== undefined) for (const tally of tallies) tally.waits.push(waited);
      },
      started: () => {
        first = this.#now();
        for (const tally of tallies) tally.ttfts.push(first - at);
      },
      produced: (count) => {
        const now = this.#now();
        if (now >= this.#until) return;
        const tokens = first === now ? promptTokens + count : count;
        served += tokens;
        for (const tally of tallies) tally.served += tokens;
      },
      finished: (work) => {
        const now = this.#now();
        this.#last = now;
        this.#work += work;
        for (const tally of tallies) {
          tally.e2es.push(now - at);
          if (outputTokens > 1) tally.tpots.push((now - first) / (outputTokens - 1));
          tally.promptTokens += promptTokens;
          tally.outputTokens += outputTokens;
        }
      },
      rejected: (reason, work) => {
        this.#work += work;
        this.#wasted += work;
        this.#refusals.set(reason, (this.#refusals.get(reason) ?? 0) + 1);
        for (const tally of tallies) {
          tally.rejected++;
          tally.served -= served;
        }
      },
    };
  }

  /** The results; call it when the run is over. */
  result() {
    const all = this.#all;
    const finished = all.e2es.length;
    const span = this.#until - this.#from;
    const tenants = this.#tenants.results(span).toSorted((a, b) => (a.kind < b.kind ? -1 : 1));
    const makespan = finished === 0 ? Number.NaN : (this.#last - this.#first) / 1000;
    return {
      ...{ requests: all.requests, finished, rejected: all.rejected, makespan },
      ...{ ttft: quantiles(all.ttfts), tpot: quantiles(all.tpots), e2e: quantiles(all.e2es) },
      outputTokensPerSecond: all.outputTokens / makespan,
      requestsPerSecond: finished / makespan,
      promptTokens: all.promptTokens / finished,
      outputTokens: all.outputTokens / finished,
      kinds: this.#kinds.results(span),
      tenants,
      priorities: this.#priorities.results(span).toSorted((a, b) => Number(b.kind) - Number(a.kind)),
      wait: quantiles(all.waits),
      jain: jainIndex(tenants.map(({ servedPerSecond }) => servedPerSecond)),
      wasted: this.#work === 0 ? Number.NaN : this.#wasted / this.#work,
      refusals: Object.fromEntries([...this.#refusals].sort(([a], [b]) => (a < b ? -1 : 1))),
    };
  }
}

/** @param ms of the arrivals */
function kindResult(kind: string, tally: Tally, ms: number): KindResult {
  const { requests, rejected, ttfts, e2es, waits, outputTokens, served } = tally;
  const times = { ttft: quantiles(ttfts), e2e: quantiles(e2es), wait: quantiles(waits) };
  const servedPerSecond = (served / ms) * 1000;
  return { kind, requests, finished: e2es.length, rejected, ...times, outputTokens, servedPerSecond };
}

function quantiles(values: number[]): Quantiles {
  if (values.length === 0)
    return { p50: Number.NaN, p90: Number.NaN, p99: Number.NaN, mean: Number.NaN, max: Number.NaN };
  const sorted = Float64Array.from(values).sort();
  const at = (q: number): number => quantile(sorted, q);
  return { p50: at(0.5), p90: at(0.9), p99: at(0.99), mean: sumOf(sorted) / sorted.length, max: sorted.at(-1)! };
}

/**
 * A separate function, so that its loop does not make `quantiles` hot. While `quantiles` held the loop, Node 26.10 sometimes
 * gave the three objects that a run makes with it the same figures. It happened in 6 of 39 runs of one script, and in none of
 * 39 of another. Since the loop moved, it has not been seen in 24 runs of the first script. The cause is not established; a
 * fault of the optimising compiler is a guess.
 */
function sumOf(values: Float64Array): number {
  let sum = 0;
  for (const value of values) sum += value;
  return sum;
}

const INTERVAL = 50;
const SAMPLE_EVERY = 1000;
const MAX_SAMPLES = 600;

/** Samples the engines' loads, 20 times a second of virtual time. */
export class Loads {
  readonly #engines: readonly ModelEngine[];
  readonly #clock: Clock;
  readonly #sums: number[];
  readonly #keep: boolean;
  #samples: LoadSample[] = [];
  #sampleEvery = SAMPLE_EVERY;
  #looks = 0;
  #max = 0;
  #total = 0;

  /** @param keep whether to keep samples for plots */
  constructor(engines: readonly ModelEngine[], clock: Clock, keep: boolean) {
    this.#engines = engines;
    this.#clock = clock;
    this.#sums = engines.map(() => 0);
    this.#keep = keep;
  }

  /** Samples while `open` returns true. Samples count for the spread while `counted` returns true. */
  watch(open: () => boolean, counted: () => boolean): void {
    this.#look(counted());
    if (open()) this.#clock.after(INTERVAL, () => this.watch(open, counted));
  }

  /**
   * Requests at the busiest server divided by those at the mean one, each summed over time; 1 = even, also without requests.
   */
  get maxToMean(): number {
    return this.#total === 0 ? 1 : (this.#max * this.#engines.length) / this.#total;
  }

  /** Mean number of requests at each server at a time. */
  get means(): readonly number[] {
    return this.#sums.map((sum) => (this.#looks === 0 ? 0 : sum / this.#looks));
  }

  get samples(): readonly LoadSample[] {
    return this.#samples;
  }

  #look(counted: boolean): void {
    const loads = this.#engines.map(({ running, waiting }) => running + waiting);
    if (this.#keep && this.#clock.now() >= this.#samples.length * this.#sampleEvery) this.#sample(loads);
    if (!counted) return;
    this.#looks++;
    loads.forEach((load, i) => {
      this.#sums[i]! += load;
      this.#total += load;
    });
    this.#max += Math.max(...loads);
  }

  /** When there are too many samples, drops half of them and halves the rate of further ones. */
  #sample(loads: readonly number[]): void {
    this.#samples.push({ at: this.#clock.now() / 1000, loads });
    if (this.#samples.length <= MAX_SAMPLES) return;
    this.#samples = this.#samples.filter((_, i) => i % 2 === 0);
    this.#sampleEvery *= 2;
  }
}
