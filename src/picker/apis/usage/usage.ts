import type { TokenUsage } from "../../../base/plugin/kinds.ts";

/** The token counts of a request as the model server reports them; NaN where it reports none. */
export type Usage = TokenUsage;

/** A usage without any count. */
export const NO_USAGE: Usage = {
  promptTokens: Number.NaN,
  completionTokens: Number.NaN,
  totalTokens: Number.NaN,
  cachedTokens: Number.NaN,
};

/** Returns each count of `later`, or of `earlier` where `later` has none: streams deliver usage in parts (epp-protocol 12). */
export function mergeUsage(earlier: Usage | undefined, later: Usage): Usage {
  if (earlier === undefined) return later;
  return {
    promptTokens: known(later.promptTokens, earlier.promptTokens),
    completionTokens: known(later.completionTokens, earlier.completionTokens),
    totalTokens: known(later.totalTokens, earlier.totalTokens),
    cachedTokens: known(later.cachedTokens, earlier.cachedTokens),
  };
}

/** Adds the total where an answer gives only its parts, as Anthropic, SGLang and gRPC answers do. */
export function withTotal(usage: Usage): Usage {
  const total = usage.promptTokens + usage.completionTokens;
  return Number.isNaN(usage.totalTokens) && !Number.isNaN(total) ? { ...usage, totalTokens: total } : usage;
}

function known(first: number, second: number): number {
  return Number.isNaN(first) ? second : first;
}

/**
 * Reads a decoded `usage` member. It accepts the names of OpenAI (old and Responses API) and Anthropic for each field, and
 * numbers given as strings. It also accepts a misspelt name that some servers send for the details (epp-protocol 12).
 *
 * @returns undefined when the value is no object or has no count
 */
export function usageFromValue(value: unknown): Usage | undefined {
  const usage = fields(value);
  const result: Usage = {
    promptTokens: known(count(usage.prompt_tokens), count(usage.input_tokens)),
    completionTokens: known(count(usage.completion_tokens), count(usage.output_tokens)),
    totalTokens: count(usage.total_tokens),
    cachedTokens: cached(usage),
  };
  return Object.values(result).every(Number.isNaN) ? undefined : result;
}

function cached(usage: Fields): number {
  for (const name of ["prompt_tokens_details", "input_tokens_details", "prompt_token_details"]) {
    const tokens = count(fields(usage[name]).cached_tokens);
    if (!Number.isNaN(tokens)) return tokens;
  }
  return count(usage.cache_read_input_tokens);
}

type Fields = Readonly<Record<string, unknown>>;
const NO_FIELDS: Fields = {};

function fields(value: unknown): Fields {
  return typeof value === "object" && value !== null ? (value as Fields) : NO_FIELDS;
}

/** Returns NaN for anything but a finite count. */
function count(value: unknown): number {
  const number = typeof value === "string" && /^\d{1,15}$/.test(value) ? Number(value) : value;
  return typeof number === "number" && number >= 0 && Number.isFinite(number) ? number : Number.NaN;
}

/** Reads token counts from a passing answer; never throws, for any bytes. */
export interface UsageReader {
  /** The usage known so far; complete after `finish`. */
  readonly usage: Usage | undefined;
  /** Whether the reader keeps references to the chunks until the end: the byte budget must count them. */
  readonly holding: boolean;
  /** @param chunk in order, cut anywhere; unless `holding`, the reader reads it only during the call */
  feed(chunk: Uint8Array): void;
  /** Call this when the answer is complete. */
  finish(): void;
  /** Frees the kept chunks; the usage will stay unknown. */
  drop(): void;
}
