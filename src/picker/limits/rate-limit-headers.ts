import { HeaderList } from "../../base/inference/headers.ts";
import type { Counter } from "./counter.ts";
import { MINUTE } from "./meter.ts";

/** A duration as OpenAI writes it: `120ms`, `1s`, `6m0s`. Rounded up. @param ms 0 or more */
export function durationText(ms: number): string {
  if (ms < 1000 && Math.ceil(ms) < 1000) return ms <= 0 ? "0s" : `${Math.ceil(ms)}ms`;
  const seconds = Math.ceil(ms / 1000);
  const hours = Math.floor(seconds / 3600);
  const minutes = Math.floor((seconds % 3600) / 60);
  const lead = hours > 0 ? `${hours}h${minutes}m` : minutes > 0 ? `${minutes}m` : "";
  return `${lead}${seconds % 60}s`;
}

/**
 * The headers by which OpenAI's clients learn about limits: limit, what remains, and the time until the limit is whole again. Of
 * several limits of one kind, the one counts of which least remains.
 * @param counters brought to the present
 */
export function rateLimitHeaders(counters: readonly Counter[]): HeaderList {
  const headers = new HeaderList();
  addKind(headers, counters, "requests", "requestsPerMinute");
  addKind(headers, counters, "tokens", "tokensPerMinute");
  return headers;
}

function addKind(
  headers: HeaderList,
  counters: readonly Counter[],
  kind: "requests" | "tokens",
  name: "requestsPerMinute" | "tokensPerMinute",
): void {
  let limit = 0;
  let used = 0;
  let remaining = Number.POSITIVE_INFINITY;
  for (const counter of counters) {
    const each = counter.limits[name];
    if (each === undefined || each - counter[kind].used >= remaining) continue;
    limit = each;
    used = counter[kind].used;
    remaining = each - used;
  }
  if (limit === 0) return;
  headers.add(`x-ratelimit-limit-${kind}`, String(limit));
  // A request of which a part has drained fits no sooner than the whole one: so rounded down, but for the noise of fractions.
  headers.add(`x-ratelimit-remaining-${kind}`, String(Math.max(0, Math.floor(remaining + limit * 1e-9))));
  headers.add(`x-ratelimit-reset-${kind}`, durationText((used / limit) * MINUTE));
}
