import { expect, it } from "vitest";
import { granted, refusedBy, requestOf, used } from "../../../test/support/limits/requests.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import type { HeaderList } from "../../base/inference/headers.ts";
import { QuotaTable } from "./quotas.ts";
import { durationText } from "./rate-limit-headers.ts";

it.each([
  [0, "0s"],
  [0.2, "1ms"],
  [120, "120ms"],
  [999.2, "1s"],
  [1000, "1s"],
  [59_001, "1m0s"],
  [360_000, "6m0s"],
  [3_723_000, "1h2m3s"],
])("%d ms is %s", (ms, text) => {
  expect(durationText(ms)).toBe(text);
});

const shown = (headers: HeaderList) => Object.fromEntries(headers.keys.map((key, i) => [key, headers.values[i]]));

it("an answer has limit, rest and time until the limit is whole; of several limits the one with the smallest rest", () => {
  const clock = new VirtualClock();
  const rules = [
    { requestsPerMinute: 60, tokensPerMinute: 150_000 },
    { key: "*", requestsPerMinute: 1000 },
    { model: "m", tokensPerMinute: 600 },
  ];
  const table = new QuotaTable(clock, rules);
  const grant = granted(table.admit(requestOf(200, { maxTokens: 100 }), undefined, () => ""));
  expect(shown(grant.headers())).toEqual({
    "x-ratelimit-limit-requests": "60",
    "x-ratelimit-remaining-requests": "59",
    "x-ratelimit-reset-requests": "1s",
    "x-ratelimit-limit-tokens": "600",
    "x-ratelimit-remaining-tokens": "300",
    "x-ratelimit-reset-tokens": "30s",
  });
  clock.advance(500);
  expect(shown(grant.headers())).toMatchObject({
    "x-ratelimit-remaining-requests": "59",
    "x-ratelimit-reset-requests": "500ms",
    "x-ratelimit-remaining-tokens": "305",
  });
  grant.settle(used(200, 500));
  expect(shown(grant.headers())).toMatchObject({
    "x-ratelimit-remaining-tokens": "0",
    "x-ratelimit-reset-tokens": "1m10s",
  });
  const { headers, rejection } = refusedBy(table.admit(requestOf(9, { maxTokens: 1 }), undefined, () => ""));
  expect(shown(headers)).toMatchObject({ "x-ratelimit-remaining-tokens": "0", "retry-after-ms": "10500" });
  expect(rejection.retryAfter).toBe(11);
});

it("a limit of requests in flight alone has no such headers", () => {
  const table = new QuotaTable(new VirtualClock(), [{ inFlight: 1 }]);
  expect(granted(table.admit(requestOf(), undefined, () => "")).headers().length).toBe(0);
});
