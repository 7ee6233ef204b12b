import type { Counter } from "./counter.ts";
import type { Counters } from "./counters.ts";
import type { Rule } from "./rule.ts";

/** The most counters of one rule in the view: the fullest ones. */
const SHOWN = 50;

/** The limits as `/debug/limits` shows them. */
export interface LimitsView {
  /** Undefined = this gateway counts alone. */
  readonly shared: { readonly redis: string; readonly state: "shared" | "last known" } | undefined;
  readonly rules: readonly {
    readonly rule: string;
    /** Counters that are in use; of these the fullest are shown. */
    readonly inUse: number;
    readonly counters: readonly object[];
  }[];
}

/** The most counters on the page: the fullest ones. */
const PICTURED = 20;

/** The limits on the page. Figures are those of a minute. */
export interface LimitsPicture {
  /** Undefined = this gateway counts alone. */
  readonly shared: "shared" | "last known" | undefined;
  /** Counters that are in use. */
  readonly inUse: number;
  /** Fullest first. */
  readonly counters: readonly {
    readonly counter: string;
    readonly requests: Used | undefined;
    readonly tokens: Used | undefined;
    readonly inFlight: { readonly used: number; readonly limit: number | undefined };
    /** The largest used part of its limits, 0 to 1 and above. */
    readonly share: number;
    readonly gateways: number;
  }[];
}

interface Used {
  readonly used: number;
  readonly limit: number;
}

/** The fullest counters for the page; undefined = there are no rules. @param hears whether the other gateways are heard; undefined = alone */
export function limitsPicture(
  rules: readonly Rule[],
  counters: Counters,
  hears: boolean | undefined,
  now: number,
): LimitsPicture | undefined {
  if (rules.length === 0) return undefined;
  const names = new Set(rules.map(({ name }) => name));
  // A sort of all counters, twice a second for each reader of the page, would keep requests waiting.
  const fullest: Counter[] = [];
  let inUse = 0;
  for (const counter of counters.values()) {
    counter.drain(now);
    if (counter.idle || !names.has(counter.rule)) continue;
    inUse++;
    const { share } = counter;
    if (fullest.length === PICTURED && share <= fullest[PICTURED - 1]!.share) continue;
    const at = fullest.findIndex((other) => other.share < share);
    fullest.splice(at < 0 ? fullest.length : at, 0, counter);
    fullest.length = Math.min(fullest.length, PICTURED);
  }
  return {
    shared: hears === undefined ? undefined : hears ? "shared" : "last known",
    inUse,
    counters: fullest.map((counter) => {
      const { name, share, others, limits } = counter;
      const { requests, tokens, inFlight } = shown(counter);
      const sum = { used: inFlight.here + inFlight.elsewhere, limit: limits.inFlight };
      return { counter: name, requests, tokens, inFlight: sum, share, gateways: others.gateways };
    }),
  };
}

/** @param sharing the server, and whether the figures of the other gateways are fresh */
export function limitsView(
  rules: readonly Rule[],
  counters: Counters,
  sharing: { readonly server: string; readonly hears: boolean } | undefined,
  now: number,
): LimitsView {
  const byRule = new Map<string, Counter[]>(rules.map(({ name }) => [name, []]));
  for (const counter of counters.values()) {
    counter.drain(now);
    if (!counter.idle) byRule.get(counter.rule)?.push(counter);
  }
  return {
    shared: sharing && { redis: sharing.server, state: sharing.hears ? "shared" : "last known" },
    rules: [...byRule].map(([rule, all]) => ({
      rule,
      inUse: all.length,
      counters: all
        .sort((a, b) => b.share - a.share)
        .slice(0, SHOWN)
        .map(shown),
    })),
  };
}

function shown(counter: Counter) {
  const { name, limits, inFlight, others } = counter;
  const { requestsPerMinute, tokensPerMinute } = limits;
  return {
    counter: name,
    requests:
      requestsPerMinute === undefined
        ? undefined
        : { used: Math.ceil(counter.requests.used), limit: requestsPerMinute },
    tokens:
      tokensPerMinute === undefined ? undefined : { used: Math.ceil(counter.tokens.used), limit: tokensPerMinute },
    inFlight: { here: inFlight, elsewhere: others.inFlight, limit: limits.inFlight },
    gateways: others.gateways,
  };
}
