import { isObject } from "../../base/document/json-object.ts";

/** The tokens of one answer. */
export interface AnswerUsage {
  readonly inputTokens: number;
  readonly cachedTokens: number;
  readonly outputTokens: number;
  readonly reasoningTokens: number;
}

/**
 * The usage that the body of an answer states, by the names of chat completions (`prompt_tokens`) or of responses
 * (`input_tokens`).
 * @returns undefined when it states none
 */
export function usageOf(body: unknown): AnswerUsage | undefined {
  const usage = member(body, "usage");
  if (!isObject(usage)) return undefined;
  return {
    inputTokens: count(usage["prompt_tokens"] ?? usage["input_tokens"]),
    cachedTokens: count(member(usage["prompt_tokens_details"] ?? usage["input_tokens_details"], "cached_tokens")),
    outputTokens: count(usage["completion_tokens"] ?? usage["output_tokens"]),
    reasoningTokens: count(
      member(usage["completion_tokens_details"] ?? usage["output_tokens_details"], "reasoning_tokens"),
    ),
  };
}

function member(value: unknown, name: string): unknown {
  return isObject(value) ? value[name] : undefined;
}

function count(value: unknown): number {
  return Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : 0;
}
