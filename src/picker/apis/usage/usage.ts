import type { TokenUsage } from "../../../base/plugin/kinds.ts";

/** Tokens a model server says a request took; NaN where it does not say. */
export type Usage = TokenUsage;

/** A usage that says nothing. */
export const NO_USAGE: Usage = {
  promptTokens: Number.NaN,
  completionTokens: Number.NaN,
  totalTokens: Number.NaN,
  cachedTokens: Number.NaN,
};

/** `later` where it says something, else `earlier`: streams deliver usage in parts (epp-protocol 12). */
export function mergeUsage(earlier: Usage | undefined, later: Usage): Usage {
  if (earlier === undefined) return later;
  return {
    promptTokens: known(later.promptTokens, earlier.promptTokens),
    completionTokens: known(later.completionTokens, earlier.completionTokens),
    totalTokens: known(later.totalTokens, earlier.totalTokens),
    cachedTokens: known(later.cachedTokens, earlier.cachedTokens),
  };
}

/** With the sum as the total, where only its parts are given: as Anthropic, SGLang and gRPC answers do. */
export function withTotal(usage: Usage): Usage {
  const total = usage.promptTokens + usage.completionTokens;
  return Number.isNaN(usage.totalTokens) && !Number.isNaN(total) ? { ...usage, totalTokens: total } : usage;
}

function known(first: number, second: number): number {
  return Number.isNaN(first) ? second : first;
}

/**
 * Reads a decoded `usage` member: the names of OpenAI (old and Responses API) and Anthropic, either per field, numbers
 * given as strings included, and the misspelt details name some servers send (epp-protocol 12).
 *
 * @returns undefined when it is no object or says nothing
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

/** NaN for anything that is no finite count. */
function count(value: unknown): number {
  const number = typeof value === "string" && /^\d{1,15}$/.test(value) ? Number(value) : value;
  return typeof number === "number" && number >= 0 && Number.isFinite(number) ? number : Number.NaN;
}

/** Reads token counts out of an answer while it passes by; never throws, whatever the bytes. */
export interface UsageReader {
  /** As far as it is known now; complete after `finish`. */
  readonly usage: Usage | undefined;
  /** Whether chunks are kept by reference until the end: they are to be paid for. */
  readonly holding: boolean;
  /** @param chunk in order, cut anywhere; unless `holding` it is looked at only during the call */
  feed(chunk: Uint8Array): void;
  /** The answer is complete. */
  finish(): void;
  /** Forgets what is held: its usage will not be known. */
  drop(): void;
}
