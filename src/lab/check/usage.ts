import { at, isCount } from "./json-value.ts";
import type { ObligationName } from "./obligations.ts";
import { Finding, type Verdict } from "./verdict.ts";

/** @param where a usage stands, for the sentence, @param remedy where none does */
export function checkUsage(obligation: ObligationName, usage: unknown, where: string, remedy: string): Verdict {
  const finding = new Finding(obligation);
  if (usage === undefined || usage === null) {
    finding.broken(`no usage in ${where}`, remedy);
    return finding.verdict("");
  }
  const [prompt, completion, total] = ["prompt_tokens", "completion_tokens", "total_tokens"].map((name) => {
    const value = at(usage, name);
    if (isCount(value)) return value;
    finding.broken(`usage.${name} is ${JSON.stringify(value) ?? "missing"}`, "report token counts as whole numbers");
    return Number.NaN;
  }) as [number, number, number];
  if (finding.flawless && prompt + completion !== total)
    finding.doubtful(
      `${prompt} prompt and ${completion} completion tokens make no total of ${total}`,
      "report the sum as total_tokens",
    );
  return finding.verdict(`${prompt} prompt and ${completion} completion tokens`);
}

/** Prompt tokens that were found in the prefix cache; undefined where the answer does not say. */
export function cachedTokens(usage: unknown): number | undefined {
  const cached =
    at(usage, "prompt_tokens_details", "cached_tokens") ?? at(usage, "prompt_token_details", "cached_tokens");
  return isCount(cached) ? cached : undefined;
}
