import type { HeaderList } from "./headers.ts";

/** Half-open byte range [start, end) of a body. */
export interface ByteRange {
  readonly start: number;
  readonly end: number;
}

/**
 * How the model server's answer is read. The content type decides between JSON and server-sent events; SGLang's own API has its
 * counts elsewhere. Other answers are messages of vLLM's gRPC API, gRPC messages that wrap an HTTP body, or not read at all.
 */
export type AnswerFormat = "http" | "sglang" | "vllm-generate" | "vllm-embed" | "http-body" | "opaque";

/**
 * The fields of a request body that routing needs, as ranges of the received bytes. Nothing is copied, and only fields that are
 * read are decoded.
 */
export interface ParsedBody {
  /** The `model` member; "" where the API has none. */
  readonly model: string;
  /** Range of the effective `model` value with its quotes, for splicing; undefined when the body has none. */
  readonly modelRange: ByteRange | undefined;
  /** Offset just behind the `{` where a missing `model` member can be inserted; -1 where the API names no model. */
  readonly modelInsertAt: number;
  readonly answerFormat: AnswerFormat;
  readonly streaming: boolean;
  /** `cache_salt`: keeps tenants' prefixes apart. */
  readonly cacheSalt: string;
  /**
   * The ranges for prefix hashing: one entry per prompt, each the ranges hashed as one sequence. Completions: the inside of
   * each string of `prompt`. Chat: the bytes of `tools`, then of `messages`.
   */
  readonly prompts: readonly (readonly ByteRange[])[];
  /**
   * How many bytes of the prompts only JSON's escapes add. `\u0441` has six bytes as received and means a letter of two bytes,
   * so it adds four. Absent = none.
   */
  readonly escapeBytes?: number | undefined;
  /** `max_completion_tokens`, else `max_tokens`; NaN when absent. */
  readonly maxTokens: number;
  /** The answers that the model server generates: `n` or `best_of` for each prompt, 1 to 16,384 for each; absent = 1. */
  readonly answers?: number | undefined;
}

/** One complete inference request, as scheduling and its plugins see it. */
export interface InferenceRequest extends ParsedBody {
  /** `x-request-id`, or a generated UUID. Chosen by clients: never a key of shared state. */
  readonly id: string;
  readonly headers: HeaderList;
  readonly body: Uint8Array;
  /** The model in the request to the model server, after rewrites. */
  readonly targetModel: string;
  /** Name of the InferenceObjective, or "". */
  readonly objective: string;
  /** Below 0 = sheddable. */
  readonly priority: number;
  /** Saturation from which the request may be refused without flow control: 1 = sheddable, Infinity = never. */
  readonly shedAt: number;
  readonly fairnessId: string;
  /**
   * The share of tokens that its InferenceObjective or InferenceModel states, from 0.001 to 1,000; absent = 1. Weights in the
   * parameters of a fairness policy win over it.
   */
  readonly fairnessWeight?: number | undefined;
  /** Bytes of text that make one token of the target model, 1 to 16, as learned from its answers; absent = 4. */
  readonly bytesPerToken?: number | undefined;
}

/** Bytes per token for a model without a learned figure (scheduling 3.11, backend `estimate`). */
export const USUAL_BYTES_PER_TOKEN = 4;

/** Bytes of all prompts together, as received. */
export function promptBytes(request: ParsedBody): number {
  let total = 0;
  for (const ranges of request.prompts) for (const range of ranges) total += range.end - range.start;
  return total;
}

/** UTF-8 bytes of the text of all prompts: the received bytes less those that escapes add. At least 0. */
export function textBytes(request: ParsedBody): number {
  return Math.max(0, promptBytes(request) - (request.escapeBytes ?? 0));
}

/** Tokens of all prompts together, estimated from their text. */
export function promptTokens(request: InferenceRequest): number {
  return Math.ceil(textBytes(request) / (request.bytesPerToken ?? USUAL_BYTES_PER_TOKEN));
}

/** Received bytes of the prompts per estimated token. With escapes it exceeds the bytes of the text per token. Above 0. */
export function receivedBytesPerToken(request: InferenceRequest): number {
  const { bytesPerToken = USUAL_BYTES_PER_TOKEN, escapeBytes = 0 } = request;
  if (escapeBytes <= 0) return bytesPerToken;
  const text = textBytes(request);
  return text === 0 ? bytesPerToken : (bytesPerToken * promptBytes(request)) / text;
}
