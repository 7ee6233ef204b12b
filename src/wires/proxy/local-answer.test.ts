import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { OUTCOMES, type OutcomeReason, Rejection } from "../../base/inference/outcomes.ts";
import { UPGRADE_REFUSED } from "./bad-request.ts";
import { badRequestAnswer, type LocalAnswer, lastEvent, rejectionAnswer } from "./local-answer.ts";

const root = join(import.meta.dirname, "..", "..", "..");

/** Whether the page that the answer names has the heading that it names. */
function leadsToHeading(json: string): boolean {
  const { help } = (JSON.parse(json) as { error: { help: string } }).error;
  const [page, anchor] = help.split("#") as [string, string];
  const headings = [...readFileSync(join(root, page), "utf8").matchAll(/^#+ (.*)$/gm)].map((match) => match[1]!);
  return headings.some((heading) => heading.toLowerCase().replaceAll(" ", "-") === anchor);
}
const text = ({ body }: LocalAnswer): string => body.toString();

describe("the help of an answer leads to a heading of the errors page", () => {
  it.each(Object.keys(OUTCOMES) as OutcomeReason[])("for a refusal: %s", (reason) => {
    expect(leadsToHeading(text(rejectionAnswer(new Rejection(reason, "no"), "id")))).toBe(true);
  });

  it("for a request that breaks HTTP, and for a stream that broke", () => {
    expect(leadsToHeading(text(badRequestAnswer(UPGRADE_REFUSED, "id")))).toBe(true);
    expect(leadsToHeading(lastEvent(Buffer.alloc(0), "gone").toString().slice("data: ".length))).toBe(true);
  });
});

it("a refusal that knows when another try makes sense says so in retry-after", () => {
  const headers = (retryAfter?: number): readonly string[] =>
    rejectionAnswer(new Rejection("saturated", "full", "full", retryAfter), "id").headers;
  expect(headers(7).slice(-2)).toEqual(["retry-after", "7"]);
  expect(headers()).not.toContain("retry-after");
});

it("a refusal because nobody accepts connections names the longest back-off in retry-after", () => {
  const { headers } = rejectionAnswer(new Rejection("upstream_connect", "down"), "id");
  expect(headers.slice(-2)).toEqual(["retry-after", "5"]);
});

it("a missing model, a key that does not count and limits have the codes that OpenAI clients expect; all other refusals have the status", () => {
  const codes: Partial<Record<OutcomeReason, string>> = {
    model_not_found: "model_not_found",
    model_not_allowed: "model_not_found",
    key_missing: "invalid_api_key",
    key_invalid: "invalid_api_key",
    key_expired: "invalid_api_key",
    key_revoked: "invalid_api_key",
    rate_limited_requests: "rate_limit_exceeded",
    rate_limited_tokens: "rate_limit_exceeded",
    rate_limited_in_flight: "rate_limit_exceeded",
    over_token_limit: "request_over_token_limit",
  };
  for (const reason of Object.keys(OUTCOMES) as OutcomeReason[]) {
    const { error } = JSON.parse(text(rejectionAnswer(new Rejection(reason, "no"), "id")));
    expect(error.code).toBe(codes[reason] ?? OUTCOMES[reason].status);
  }
});

it("a 401 names the scheme in which a key is sent, and no other refusal does", () => {
  for (const reason of Object.keys(OUTCOMES) as OutcomeReason[]) {
    const { status, headers } = rejectionAnswer(new Rejection(reason, "no"), "id");
    expect([reason, headers.includes("www-authenticate")]).toEqual([reason, status === 401]);
  }
  expect(rejectionAnswer(new Rejection("key_missing", "no"), "id").headers.slice(-2)).toEqual([
    "www-authenticate",
    "Bearer",
  ]);
});
