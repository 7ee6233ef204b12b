import type { Endpoint } from "../../../src/base/inference/endpoint.ts";
import type { SlowParameters } from "./slow-config.cases.ts";
import type { SlowMatch } from "./slow-memory.cases.ts";

/** A candidate and what is believed of its metrics. */
export interface SlowCandidate {
  readonly endpoint: Endpoint;
  readonly fresh: boolean;
  /** Missing or stale: the worst known value among all candidates; NaN where nobody's is known. */
  readonly waiting: number;
  readonly running: number;
  readonly kvUsage: number;
}

/** What one plugin may know besides the candidates it is given. */
export interface SlowView {
  readonly targetModel: string;
  readonly header: (name: string) => string | undefined;
  readonly now: number;
  readonly inputTokens: number;
  /** Of the prefix producer that the plugin reads; undefined where there is none. */
  readonly match: SlowMatch | undefined;
  /** By endpoint, of the load producer that the plugin reads. */
  readonly uncachedTokens: ReadonlyMap<string, number>;
  /** The id of the endpoint that the request's session is bound to. */
  readonly session: string | undefined;
  /** Rank of each candidate among those that cold prompts go to. */
  readonly coldRanks: ReadonlyMap<string, number>;
}

/** Design 5: no scheduled scrape was missed. */
export function isFreshFor({ metrics, scrapeInterval }: Endpoint, now: number, threshold: number): boolean {
  return now - metrics.scrapedAt <= Math.max(threshold, 2.5 * scrapeInterval);
}

export function viewOf(pool: readonly Endpoint[], now: number): SlowCandidate[] {
  const column = (name: "waiting" | "running" | "kvUsage"): number[] => {
    const values = pool.map((endpoint) => (isFreshFor(endpoint, now, 200) ? endpoint.metrics[name] : Number.NaN));
    const known = values.filter((value) => !Number.isNaN(value));
    return values.map((value) => (Number.isNaN(value) && known.length > 0 ? Math.max(...known) : value));
  };
  const [waiting, running, kvUsage] = [column("waiting"), column("running"), column("kvUsage")];
  return pool.map((endpoint, at) => ({
    endpoint,
    fresh: isFreshFor(endpoint, now, 200),
    waiting: waiting[at]!,
    running: running[at]!,
    kvUsage: kvUsage[at]!,
  }));
}

/** A duration as files have it, of the units that are used here. */
export function millisecondsOf(text: string): number {
  return text.endsWith("ms") ? Number(text.slice(0, -2)) : Number(text.slice(0, -1)) * 1000;
}

/** scheduling 3.9.4: undefined without the label, null where it is no range. */
export function lengthRangeOf(
  { labels }: Endpoint,
  { label = "llm-d.ai/context-length-range" }: SlowParameters,
): { min: number; max: number } | null | undefined {
  const text = labels[label];
  if (text === undefined) return undefined;
  const parts = text.split("-").map(Number);
  const [min, max] = parts as [number, number];
  return parts.length === 2 && min <= max ? { min, max } : null;
}
