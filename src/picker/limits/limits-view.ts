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
