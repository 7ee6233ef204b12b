import { describe, expect, it } from "vitest";
import { TestCore } from "../../../test/support/core.ts";
import { NO_WIRE } from "../../../test/support/exchange/fakes.cases.ts";
import { callerOf } from "../../../test/support/limits/requests.ts";
import { chatBody } from "../../../test/support/session-harness.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import type { LimitRule } from "../limits/limits-settings.ts";
import { QuotaTable } from "../limits/quotas.ts";
import { outcomeOf } from "./exchange-quota.ts";
import type { Decision, Routed } from "./wire.ts";

const SSE = HeaderList.of([["content-type", "text/event-stream"]]);
const JSON_TYPE = HeaderList.of([["content-type", "application/json"]]);
const USAGE = '"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}';

function setUp(rules: readonly LimitRule[], endpoints = 2) {
  const core = new TestCore({ endpoints });
  const table = new QuotaTable(core.clock, rules);
  core.quotas = table;
  const ask = (more: object = {}) => {
    const exchange = core.openExchange({ ...NO_WIRE, caller: callerOf("k"), ...more });
    exchange.requestHeaders(
      HeaderList.of([
        [":method", "POST"],
        [":path", "/v1/chat/completions"],
      ]),
      false,
    );
    const decision = exchange.requestBody(Buffer.from(chatBody()), true) as Decision;
    return { exchange, decision };
  };
  return { core, table, ask, counter: () => [...table.counters.values()][0]! };
}

describe("the limits of an exchange", () => {
  it("a request over its limit is refused without a decision, and its answer has the headers", () => {
    const { core, ask, counter } = setUp([{ key: "*", requestsPerMinute: 1 }]);
    const first = ask();
    expect(first.decision).not.toBeInstanceOf(Rejection);
    const { sequence } = core.scheduler.records.newest!;
    const { exchange, decision } = ask();
    expect(decision).toMatchObject({ reason: "rate_limited_requests", status: 429, retryAfter: 60 });
    expect(exchange.ownHeaders?.get("retry-after-ms")).toBe("60000");
    exchange.end("rejected", decision as Rejection);
    expect(core.scheduler.records.newest!.sequence).toBe(sequence);
    expect(counter().inFlight).toBe(1);
    const headers = first.exchange.responseHeaders(200, SSE, false);
    expect(headers?.get("x-ratelimit-remaining-requests")).toBe("0");
  });

  it("counts as in flight until the end, whatever the end is, and once", () => {
    const { ask, counter } = setUp([{ key: "*", inFlight: 1, tokensPerMinute: 100_000 }]);
    const ends: ((one: ReturnType<typeof ask>) => void)[] = [
      ({ exchange }) => {
        exchange.responseHeaders(200, JSON_TYPE, false);
        exchange.responseBody(Buffer.from(`{${USAGE}}`), true);
      },
      ({ exchange }) => exchange.end("client-gone"),
      ({ exchange }) => exchange.end("error"),
      ({ exchange }) => {
        exchange.responseHeaders(200, SSE, false);
        exchange.end("interrupted");
      },
      ({ exchange, decision }) => {
        const { endpoints } = decision as Routed;
        for (const endpoint of endpoints) exchange.attemptFailed(endpoint, "connect", "refused");
        exchange.end("rejected");
      },
      ({ exchange }) => exchange.responseHeaders(503, JSON_TYPE, true),
      ({ exchange }) => {
        (exchange as { revoke?(): void }).revoke?.();
        exchange.end("rejected");
      },
    ];
    for (const end of ends) {
      const one = ask();
      expect(one.decision).not.toBeInstanceOf(Rejection);
      expect(counter().inFlight).toBe(1);
      expect(ask().decision).toMatchObject({ reason: "rate_limited_in_flight" });
      end(one);
      one.exchange.end("client-gone");
      expect(counter().inFlight).toBe(0);
    }
  });

  it("what sluice itself refuses later costs nothing", () => {
    const { ask, counter } = setUp([{ key: "*", requestsPerMinute: 5, tokensPerMinute: 1000 }], 0);
    const { exchange, decision } = ask();
    expect(decision).toMatchObject({ reason: "no_endpoints" });
    expect(counter().requests.used).toBe(1);
    exchange.end("rejected", decision as Rejection);
    expect([counter().requests.used, counter().tokens.used, counter().inFlight]).toEqual([0, 0, 0]);
  });

  it("the usage of the answer counts", () => {
    const { ask, counter } = setUp([{ key: "*", tokensPerMinute: 1000 }]);
    const { exchange } = ask();
    expect(counter().tokens.used).toBeGreaterThan(10);
    exchange.responseHeaders(200, JSON_TYPE, false);
    exchange.responseBody(Buffer.from(`{${USAGE}}`), true);
    expect(counter().tokens.used).toBe(10);
  });

  it("a client without a key counts by the address of its connection, an IPv6 one by its network", () => {
    const { ask, table } = setUp([{ key: "*", requestsPerMinute: 1 }]);
    const from = (peer: string | undefined) => ask({ caller: undefined, peer }).decision instanceof Rejection;
    expect([from("10.0.0.1"), from("::ffff:10.0.0.1"), from("10.0.0.2")]).toEqual([false, true, false]);
    expect([from("2001:db8::1"), from("2001:db8::2"), from("2001:db8:1::1")]).toEqual([false, true, false]);
    expect([from(undefined), from("")]).toEqual([false, true]);
    expect(table.counters.size).toBe(5);
  });
});

describe("what an end counts for", () => {
  const base = { status: 200, usage: undefined, isEventStream: false, isEncoded: false, chunks: 3, bytes: 2560 };
  const usage = { promptTokens: 7, completionTokens: 3, totalTokens: 10, cachedTokens: Number.NaN };
  const none = { sent: true, promptTokens: 0, completionTokens: 0, measured: false };
  const unknown = { ...none, promptTokens: Number.NaN, completionTokens: Number.NaN };

  it.each([
    ["usage", { usage }, "complete", { sent: true, promptTokens: 7, completionTokens: 3, measured: true }],
    ["an answer without usage", {}, "complete", { ...none, promptTokens: 50 }],
    ["an answer that broke off", {}, "interrupted", unknown],
    [
      "a stream without usage, by its length",
      { isEventStream: true },
      "complete",
      { ...none, promptTokens: 50, completionTokens: 10 },
    ],
    [
      "a stream of long events, by their number",
      { isEventStream: true, bytes: 0 },
      "client-gone",
      { ...none, promptTokens: 50, completionTokens: 3 },
    ],
    [
      "a stream that broke off after its first usage",
      { isEventStream: true, usage },
      "client-gone",
      { ...none, promptTokens: 7, completionTokens: 10 },
    ],
    ["a compressed answer", { isEncoded: true }, "complete", unknown],
    ["an error of the server", { status: 500 }, "complete", none],
    ["a client that left before the answer", { status: 0 }, "client-gone", unknown],
    ["a failure of all attempts", { status: 0 }, "rejected", { ...none, sent: false }],
  ] as const)("%s", (_, response, cause, outcome) => {
    expect(outcomeOf({ ...base, ...response }, cause, true, 50)).toEqual(outcome);
  });

  it("a request that had no endpoint counts as never sent", () => {
    expect(outcomeOf({ ...base, status: 0 }, "client-gone", false, 50)).toEqual({ ...none, sent: false });
  });
});
