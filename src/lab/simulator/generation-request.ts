import { ApiError } from "./api-error.ts";
import { chooseModel, type ModelChoice, type SimContext } from "./context.ts";
import type { JsonObject } from "./json-body.ts";
import { chatPrompt, completionPrompts, type Prompt } from "./prompts.ts";

/** Answers to one prompt in one request. */
const MAX_N = 128;

/** What a client wants generated. */
export interface GenerationRequest {
  readonly chat: boolean;
  readonly model: ModelChoice;
  readonly prompts: readonly Prompt[];
  /** Answers to each prompt. */
  readonly n: number;
  readonly maxTokens: number | undefined;
  readonly ignoreEos: boolean;
  readonly stream: boolean;
  readonly includeUsage: boolean;
  readonly seed: number | undefined;
  readonly cacheSalt: string;
  readonly remotePrefill: boolean;
}

/**
 * Reads the body of a chat or text completion; members that change nothing here (temperature, stop, ...) are ignored.
 * @throws ApiError 400 or 404
 */
export function readGenerationRequest(context: SimContext, chat: boolean, body: JsonObject): GenerationRequest {
  const model = chooseModel(context, body.model);
  const prompts = chat ? [chatPrompt(body)] : completionPrompts(body);
  const maxTokens =
    wholeNumber(body, "max_completion_tokens", 1, Number.MAX_SAFE_INTEGER) ??
    wholeNumber(body, "max_tokens", 1, Number.MAX_SAFE_INTEGER);
  const ignoreEos = flag(body, "ignore_eos");
  if (ignoreEos && maxTokens === undefined) {
    throw new ApiError(400, "ignore_eos needs max_tokens", "ignore_eos");
  }
  const transfer = member(body, "kv_transfer_params");
  if (transfer.do_remote_decode === true) {
    throw new ApiError(400, "do_remote_decode is not supported by this simulator", "kv_transfer_params");
  }
  const salt = body.cache_salt;
  if (salt !== undefined && salt !== null && typeof salt !== "string") {
    throw new ApiError(400, "cache_salt must be a string", "cache_salt");
  }
  return {
    chat,
    model,
    prompts,
    n: wholeNumber(body, "n", 1, MAX_N) ?? 1,
    maxTokens,
    ignoreEos,
    stream: flag(body, "stream"),
    includeUsage: flag(member(body, "stream_options"), "include_usage"),
    seed: wholeNumber(body, "seed", Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER),
    cacheSalt: salt ?? "",
    remotePrefill: transfer.do_remote_prefill === true,
  };
}

function wholeNumber(body: JsonObject, name: string, min: number, max: number): number | undefined {
  const value = body[name];
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "number" || !Number.isInteger(value) || value < min || value > max) {
    throw new ApiError(400, `${name} must be a whole number from ${min} to ${max}`, name);
  }
  return value;
}

function flag(body: JsonObject, name: string): boolean {
  const value = body[name];
  if (value === undefined || value === null) return false;
  if (typeof value !== "boolean") throw new ApiError(400, `${name} must be true or false`, name);
  return value;
}

function member(body: JsonObject, name: string): JsonObject {
  const value = body[name];
  if (value === undefined || value === null) return {};
  if (typeof value !== "object" || Array.isArray(value)) throw new ApiError(400, `${name} must be an object`, name);
  return value as JsonObject;
}
