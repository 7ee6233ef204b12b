import type { BudgetUnit } from "../../../base/plugin/gate.ts";

/** What a request costs in a unit, > 0. @param body the bytes that are sent */
export type CostOf = (body: Uint8Array | undefined, unit: BudgetUnit) => number;

/** Bytes of prompt text that count as one token. */
const BYTES_PER_TOKEN = 4;
/** The most that one request counts as: sums stay exact, whatever number a message names (JSON has 1e400). */
const MOST_TOKENS = 2 ** 40;

/**
 * The usual estimate (async-processor 2.3, rule 6): bytes are those of the body, tokens a quarter of the bytes of the prompt's
 * text and the longest answer that the request allows.
 */
export const usualCost: CostOf = (body, unit) => {
  if (unit === "requests" || body === undefined) return 1;
  if (unit === "bytes") return Math.max(1, body.byteLength);
  return Math.min(MOST_TOKENS, Math.max(1, tokensOf(body)));
};

function tokensOf(body: Uint8Array): number {
  try {
    const text = Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString();
    const request = JSON.parse(text) as Readonly<Record<string, unknown>>;
    const prompt = ["prompt", "messages", "input", "text"].reduce((sum, name) => sum + textBytes(request[name]), 0);
    const answer = Math.max(numberOf(request["max_tokens"]), numberOf(request["max_completion_tokens"]));
    return prompt / BYTES_PER_TOKEN + answer;
  } catch {
    // No JSON object, as a transform may have it, or nested too deep to walk: all of it counts as text.
    return body.byteLength / BYTES_PER_TOKEN;
  }
}

function numberOf(value: unknown): number {
  return typeof value === "number" && value > 0 ? value : 0;
}

/** Bytes of all texts in a prompt, however it is nested. */
function textBytes(value: unknown): number {
  if (typeof value === "string") return Buffer.byteLength(value);
  if (typeof value !== "object" || value === null) return 0;
  return Object.values(value).reduce<number>((sum, part) => sum + textBytes(part), 0);
}
