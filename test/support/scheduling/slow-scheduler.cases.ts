import type { Endpoint } from "../../../src/base/inference/endpoint.ts";
import type { InferenceRequest } from "../../../src/base/inference/request.ts";
import type { SlowConfig, SlowParameters } from "./slow-config.cases.ts";
import { SLOW_FILTERS } from "./slow-filters.cases.ts";
import { inputTokensOf, SlowColdUses, type SlowMatch, SlowPrefixes, SlowSessions } from "./slow-memory.cases.ts";
import { SLOW_SCORERS } from "./slow-scorers.cases.ts";
import { type SlowCandidate, type SlowView, viewOf } from "./slow-view.cases.ts";

// The scheduler as scheduling 3.3 to 3.16 tells it, slow and obvious, by people who read the specification and not the code: the
// yardstick of the fast one. It imports nothing that decides.

/** What one profile comes to. */
export interface SlowRun {
  readonly kept: readonly Endpoint[];
  /** By name of the scorer, in the order of the file; clamped; per endpoint kept. */
  readonly scores: readonly (readonly [string, readonly number[]])[];
  readonly totals: readonly number[];
  /** Who may be picked: by chance it is one of them. */
  readonly winners: readonly Endpoint[];
  readonly picker: string;
}

export interface SlowDecision {
  /** HTTP status of each way in which the request may be refused. Several, or some and a primary profile: chance decides. */
  readonly refusals: readonly number[];
  /** The profile that answers, unless the request is refused for certain. */
  readonly primary: string | undefined;
  /** Of every profile that ran and kept somebody. */
  readonly runs: ReadonlyMap<string, SlowRun>;
  /** Prompt tokens that each candidate would have to compute. */
  readonly uncachedTokens: ReadonlyMap<string, number>;
}

interface SlowPlugin {
  readonly type: string;
  readonly name: string;
  readonly parameters: SlowParameters;
  readonly weight: number;
}

interface SlowProfile {
  readonly name: string;
  readonly plugins: readonly SlowPlugin[];
}

const PICKERS = ["max-score-picker", "random-picker", "weighted-random-picker"];
const PREFIX = "approx-prefix-cache-producer";
const LOAD = "inflight-load-producer";

export class SlowScheduler {
  readonly #plugins: readonly SlowPlugin[];
  readonly #profiles: readonly SlowProfile[];
  /** What is remembered, by name of the plugin that it belongs to. */
  readonly #prefixes = new Map<string, SlowPrefixes>();
  readonly #sessions = new Map<string, SlowSessions>();
  readonly #coldUses = new Map<string, SlowColdUses>();

  constructor({ plugins, schedulingProfiles }: SlowConfig) {
    this.#plugins = plugins.map(({ type, name = type, parameters = {} }) => ({ type, name, parameters, weight: 1 }));
    const named = schedulingProfiles?.map(({ name, plugins }) => ({
      name,
      plugins: plugins.map(({ pluginRef, weight = 1 }) => ({ ...this.#named(pluginRef), weight })),
    }));
    const isMember = ({ type }: SlowPlugin) => type in SLOW_FILTERS || type in SLOW_SCORERS || PICKERS.includes(type);
    this.#profiles = named ?? [{ name: "default", plugins: this.#plugins.filter(isMember) }];
    for (const { type, name, parameters } of this.#plugins) {
      if (type === PREFIX) this.#prefixes.set(name, new SlowPrefixes(parameters));
      if (type.startsWith("session-affinity-")) this.#sessions.set(name, new SlowSessions(parameters));
      if (type === "no-hit-lru-scorer") this.#coldUses.set(name, new SlowColdUses(parameters));
    }
    const readsPrefixes = this.#profiles
      .flatMap(({ plugins }) => plugins)
      .some(({ type }) => /^prefix-cache-|^no-hit-lru-/.test(type));
    if (this.#prefixes.size === 0 && readsPrefixes) this.#prefixes.set(PREFIX, new SlowPrefixes({}));
  }

  /** @param now monotonic milliseconds */
  decide(request: InferenceRequest, pool: readonly Endpoint[], now: number): SlowDecision {
    const runs = new Map<string, SlowRun>();
    const refused = (...refusals: number[]) => ({ refusals, primary: undefined, runs, uncachedTokens: new Map() });
    const candidates = viewOf(this.#screened(pool), now);
    if (candidates.length === 0) return refused(503);
    const matches = this.#matches(request, candidates);
    const denied = this.#denied(request, candidates);
    if (denied === "for certain") return refused(429);
    const refusals = denied === "perhaps" ? [429] : [];
    const uncachedTokens = this.#uncached(request, candidates, matches, "");
    // The loop of 3.6.
    let primary: string | undefined;
    for (const stage of this.#stages(request)) {
      for (const name of stage.run) {
        const profile = this.#profiles.find((one) => one.name === name);
        const run = profile && this.#run(profile, request, candidates, matches, now);
        if (run !== undefined) runs.set(name, run);
      }
      if (runs.has(stage.primary)) primary = stage.primary;
    }
    if (primary === undefined) return { ...refused(...refusals, 429), runs };
    const matched = this.#matchFor({ name: "", type: "", parameters: {}, weight: 1 }, matches)?.matched;
    const holds = ({ id }: Endpoint) => (matched?.get(id) ?? 0) > 0;
    const { winners } = runs.get(primary)!;
    if (!prefersAvailable(request)) return { refusals, primary, runs, uncachedTokens };
    const left = winners.filter(holds);
    if (left.length < winners.length) refusals.push(412);
    if (left.length === 0) return { ...refused(...refusals), runs };
    runs.set(primary, { ...runs.get(primary)!, winners: left });
    return { refusals, primary, runs, uncachedTokens };
  }

  /**
   * The request was routed.
   * @param chosen the first endpoint of each profile that ran
   */
  routed(
    request: InferenceRequest,
    pool: readonly Endpoint[],
    now: number,
    primary: string,
    runs: ReadonlyMap<string, SlowRun>,
    chosen: ReadonlyMap<string, Endpoint>,
  ): void {
    const candidates = viewOf(this.#screened(pool), now);
    const matches = this.#matches(request, candidates);
    const told = new Set([chosen.get(primary)!, chosen.get("prefill") ?? chosen.get(primary)!]);
    // House rule: where several profiles may run, a prompt is cold when nobody at all holds it.
    const looked = this.#profiles.length === 1 ? runs.get(primary)!.kept : candidates.map(({ endpoint }) => endpoint);
    for (const [name, uses] of this.#coldUses) {
      const { matched } = this.#matchFor(this.#named(name), matches)!;
      if (!looked.some(({ id }) => matched.get(id)! > 0)) for (const { id } of told) uses.use(id);
    }
    for (const [name, match] of matches) for (const endpoint of told) this.#prefixes.get(name)!.add(match, endpoint);
    const seen = candidates.map(({ endpoint }) => endpoint);
    for (const sessions of this.#sessions.values()) sessions.routed(request, chosen, primary, seen);
  }

  /** The endpoint has left the pool. Sessions wait for it to come back. */
  forget({ id }: Endpoint): void {
    for (const memory of [...this.#prefixes.values(), ...this.#coldUses.values()]) memory.forget(id);
  }

  #named(name: string): SlowPlugin {
    return this.#plugins.find((plugin) => plugin.name === name)!;
  }

  #ofType(type: string): SlowPlugin[] {
    return this.#plugins.filter((plugin) => plugin.type === type);
  }

  /** Each screener gets the original list; results are intersected. */
  #screened(pool: readonly Endpoint[]): Endpoint[] {
    return this.#ofType("label-screener").reduce(
      (left, { parameters: { label, value } }) =>
        left.filter((endpoint) => pool.some((one) => one.id === endpoint.id && one.labels[label ?? ""] !== value)),
      [...pool],
    );
  }

  /** scheduling 3.16: `probabilistic-admitter`. House rule as for the detector: one metric that is missing leaves it to the other. */
  #denied({ priority }: InferenceRequest, candidates: readonly SlowCandidate[]): "no" | "perhaps" | "for certain" {
    const chances = this.#ofType("probabilistic-admitter").map(({ parameters }) => {
      const { queueDepthThreshold = 5, kvCacheUtilThreshold = 0.8, power = 5, k = 300 } = parameters;
      const loads = candidates.map(({ endpoint: { metrics }, fresh }) => {
        const known = [metrics.waiting / queueDepthThreshold, metrics.kvUsage / kvCacheUtilThreshold];
        const load = Math.max(...known.filter((value) => !Number.isNaN(value)));
        return fresh && load >= 0 ? load : 1;
      });
      return priority >= 0 ? 0 : Math.min(k * (loads.reduce((a, b) => a + b) / loads.length) ** power, 1);
    });
    if (chances.some((chance) => chance >= 1)) return "for certain";
    return chances.some((chance) => chance > 0) ? "perhaps" : "no";
  }

  #matches(request: InferenceRequest, candidates: readonly SlowCandidate[]): Map<string, SlowMatch> {
    const pool = candidates.map(({ endpoint }) => endpoint);
    return new Map([...this.#prefixes].map(([name, prefixes]) => [name, prefixes.match(request, pool)]));
  }

  /** scheduling 3.4: a parameter selects an instance by name, empty is the default one. */
  #matchFor({ parameters }: SlowPlugin, matches: ReadonlyMap<string, SlowMatch>): SlowMatch | undefined {
    return matches.get(parameters.prefixMatchInfoProducerName || PREFIX) ?? [...matches.values()][0];
  }

  /**
   * 3.12. House rule: with `addEstimatedOutputTokens` the estimate belongs to it before the request is sent, too.
   * @param producer instance name of the load producer; "" = the default one
   */
  #uncached(
    request: InferenceRequest,
    candidates: readonly SlowCandidate[],
    matches: ReadonlyMap<string, SlowMatch>,
    producer: string,
  ): Map<string, number> {
    const load = this.#ofType(LOAD).find(({ name }) => name === (producer || LOAD));
    const match = this.#matchFor({ name: LOAD, type: LOAD, parameters: {}, weight: 1, ...load }, matches);
    const input = inputTokensOf(request);
    const { addEstimatedOutputTokens, outputRatio = 1.5, maxEstimatedOutputTokens } = load?.parameters ?? {};
    const limits = [request.maxTokens, maxEstimatedOutputTokens ?? Number.NaN].filter((limit) => limit >= 0);
    const output = addEstimatedOutputTokens ? Math.min(Math.round(input * outputRatio), ...limits) : 0;
    return new Map(
      candidates.map(({ endpoint: { id } }) => {
        if (match === undefined) return [id, input + output];
        const { matched, total, blockTokens } = match;
        const missing = Math.max(0, total - matched.get(id)!) * blockTokens;
        return [id, missing + Math.max(0, input - total * blockTokens) + output];
      }),
    );
  }

  /** What the profile handler asks for, stage by stage (scheduling 3.7), and the profile that answers. */
  #stages({ headers }: InferenceRequest): { run: readonly string[]; primary: string }[] {
    const [first, ...more] = this.#profiles;
    const [script] = this.#ofType("script-handler");
    if (script !== undefined)
      return script.parameters.stages!.map((run) => ({ run, primary: script.parameters.primary! }));
    if (more.length === 0) return [{ run: [first!.name], primary: first!.name }];
    const { headerName = "EPP-Profile", defaultProfile = "decode" } =
      this.#ofType("header-profile-handler")[0]!.parameters;
    const name = headers.get(headerName.toLowerCase())?.trim() || defaultProfile;
    return [{ run: [name], primary: name }];
  }

  #run(
    { plugins }: SlowProfile,
    request: InferenceRequest,
    all: readonly SlowCandidate[],
    matches: ReadonlyMap<string, SlowMatch>,
    now: number,
  ): SlowRun | undefined {
    const view = (plugin: SlowPlugin, candidates: readonly SlowCandidate[]): SlowView => ({
      targetModel: request.targetModel,
      header: (name) => request.headers.get(name)?.trim(),
      now,
      inputTokens: inputTokensOf(request),
      match: this.#matchFor(plugin, matches),
      uncachedTokens: this.#uncached(request, all, matches, plugin.parameters.inFlightLoadProducerName ?? ""),
      session: this.#sessions.get(plugin.name)?.boundTo(request),
      coldRanks: this.#coldUses.get(plugin.name)?.ranks(candidates.map(({ endpoint }) => endpoint)) ?? new Map(),
    });
    let list = [...all];
    for (const plugin of plugins)
      list = SLOW_FILTERS[plugin.type]?.(list, plugin.parameters, view(plugin, list)) ?? list;
    if (list.length === 0) return undefined;
    const totals = list.map(() => 0);
    const scores: [string, number[]][] = [];
    for (const plugin of plugins) {
      const given = SLOW_SCORERS[plugin.type]?.(list, plugin.parameters, view(plugin, list));
      if (given === undefined) continue;
      const clamped = given.map((score) => (Number.isNaN(score) ? 0 : Math.min(1, Math.max(0, score))));
      scores.push([plugin.name, clamped]);
      clamped.forEach((score, at) => {
        totals[at]! += score * plugin.weight;
      });
    }
    // scheduling 4.3: the first configured picker of any type, else max-score-picker.
    const pickers = [...plugins, ...this.#plugins].filter(({ type }) => PICKERS.includes(type));
    const picker = pickers[0]?.type ?? "max-score-picker";
    const kept = list.map(({ endpoint }) => endpoint);
    return { kept, scores, totals, winners: kept.filter((_, at) => mayWin(picker, totals, at)), picker };
  }
}

/** 3.8. Sums of another order may differ in the last digits. */
function mayWin(picker: string, totals: readonly number[], at: number): boolean {
  if (picker === "random-picker") return true;
  if (picker === "weighted-random-picker") return totals[at]! > 0 || totals.every((total) => total <= 0);
  return totals[at]! >= Math.max(...totals) - 1e-9;
}

/** 3.3 step 12. */
function prefersAvailable({ headers }: InferenceRequest): boolean {
  const tokens = (headers.get("prefer") ?? "").split(",").map((entry) => entry.split(";")[0]!.trim().toLowerCase());
  return tokens.includes("if-available");
}
