import { describe, expect, it } from "vitest";
import {
  callerOf,
  granted,
  NEVER_SENT,
  refusedBy,
  requestOf,
  UNKNOWN,
  used,
} from "../../../test/support/limits/requests.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import type { LimitRule } from "./limits-settings.ts";
import { type QuotaEvents, QuotaTable } from "./quotas.ts";

function setUp(rules: readonly LimitRule[], events: QuotaEvents = {}, most?: number) {
  const clock = new VirtualClock();
  const table = new QuotaTable(clock, rules, events, most);
  const ask = (tokens = 1, key: string | undefined = "a", more: Parameters<typeof requestOf>[1] = {}) =>
    table.admit(requestOf(tokens, more), key === "" ? undefined : callerOf(`id-${key}`, key), () => "10.0.0.1");
  /** How many of `count` requests fit now. */
  const fits = (count: number, ...args: Parameters<typeof ask>) =>
    Array.from({ length: count }, () => ask(...args)).filter((found) => found === undefined || "settle" in found)
      .length;
  return { clock, table, ask, fits };
}

describe("which rules are for a request", () => {
  it("none: it is not limited, and has no headers", () => {
    const { ask } = setUp([
      { key: "b", requestsPerMinute: 1 },
      { model: "x", requestsPerMinute: 1 },
    ]);
    expect(ask()).toBeUndefined();
    expect(ask(1, "")).toBeUndefined();
  });

  it("* has a counter for each key or model, no name has one for all", () => {
    const each = setUp([{ key: "*", requestsPerMinute: 2 }]);
    expect([each.fits(5, 1, "a"), each.fits(5, 1, "b")]).toEqual([2, 2]);
    const models = setUp([{ model: "*", requestsPerMinute: 2 }]);
    expect([models.fits(5, 1, "a"), models.fits(5, 1, "b"), models.fits(5, 1, "a", { model: "other" })]).toEqual([
      2, 0, 2,
    ]);
    const both = setUp([{ key: "*", model: "*", requestsPerMinute: 1 }]);
    const pairs = ["a", "b"].flatMap((key) => ["m", "n"].map((model) => both.fits(3, 1, key, { model })));
    expect(pairs).toEqual([1, 1, 1, 1]);
    const all = setUp([{ requestsPerMinute: 3 }]);
    expect([all.fits(2, 1, "a"), all.fits(2, 1, "b"), all.fits(2, 1, "")]).toEqual([2, 1, 0]);
  });

  it("a key by its name or id, a model by the name that the client sends or that the server gets", () => {
    const key = setUp([{ key: "a", requestsPerMinute: 1 }]);
    expect([key.fits(3, 1, "a"), key.fits(3, 1, "b")]).toEqual([1, 3]);
    expect(setUp([{ key: "id-a", requestsPerMinute: 1 }]).fits(3, 1, "a")).toBe(1);
    const alias = { model: "alias", targetModel: "base" };
    for (const model of ["alias", "base"]) {
      const { fits } = setUp([{ model, requestsPerMinute: 1 }]);
      expect(fits(3, 1, "a", alias), model).toBe(1);
    }
  });

  it("a client without a key counts by its address in a rule for each key, and a rule for one key is not for it", () => {
    const { table, fits } = setUp([{ key: "*", requestsPerMinute: 1 }]);
    const from = (address: string) => table.admit(requestOf(), undefined, () => address);
    granted(from("10.0.0.1"));
    refusedBy(from("10.0.0.1"));
    granted(from("10.0.0.2"));
    // A key that is named as an address has its own counter.
    granted(table.admit(requestOf(), callerOf("10.0.0.1"), () => ""));
    expect(fits(1, 1, "a")).toBe(1);
  });

  it("all apply; an exceeded one refuses, and the request consumes nothing", () => {
    const refusals: string[] = [];
    const events = { refused: (rule: string, kind: string) => void refusals.push(`${rule}: ${kind}`) };
    const { fits, ask } = setUp(
      [
        { key: "*", requestsPerMinute: 5, inFlight: 100 },
        { model: "m", requestsPerMinute: 2 },
      ],
      events,
    );
    expect(fits(4)).toBe(2);
    expect(refusals).toEqual(["model=m: requests", "model=m: requests"]);
    // Three of five are left for other models.
    expect(fits(5, 1, "a", { model: "n" })).toBe(3);
    expect(refusedBy(ask()).rejection.reason).toBe("rate_limited_requests");
  });
});

describe("several exceeded limits", () => {
  it("the longest wait refuses, in one rule and among several", () => {
    const refusals: string[] = [];
    const events = { refused: (rule: string, kind: string) => void refusals.push(`${rule}: ${kind}`) };
    const { clock, ask } = setUp(
      [
        { key: "*", requestsPerMinute: 30, tokensPerMinute: 60, inFlight: 1 },
        { model: "m", requestsPerMinute: 1 },
        { requestsPerMinute: 1000, tokensPerMinute: 1000, inFlight: 1 },
      ],
      events,
    );
    const first = granted(ask(60));
    const wait = (tokens: number, model = "m") => refusedBy(ask(tokens, "a", { model })).headers.get("retry-after-ms");
    expect(wait(10)).toBe("60000");
    // The answer reserves one token more.
    expect(wait(10, "n")).toBe("11000");
    clock.advance(59_500);
    expect(wait(1)).toBe("1000");
    expect(wait(60)).toBe("1000");
    first.settle(used(60, 0));
    expect(wait(60)).toBe("500");
    expect(refusals).toEqual([
      "model=m: requests",
      "key=*: tokens",
      "key=*: in-flight",
      "key=*: in-flight",
      "key=*: tokens",
    ]);
    clock.advance(500);
    granted(ask(60));
    expect(refusedBy(ask(61)).rejection.reason).toBe("over_token_limit");
  });

  it("a request that never fits one of them is not told to wait for another", () => {
    const { ask } = setUp([{ key: "*", requestsPerMinute: 1 }, { tokensPerMinute: 50 }]);
    granted(ask(1));
    expect(refusedBy(ask(51)).rejection.reason).toBe("over_token_limit");
  });
});

describe("requests and tokens of a minute", () => {
  it("come back steadily: a request fits when its part of the minute has passed", () => {
    const { clock, ask, fits } = setUp([{ requestsPerMinute: 60 }]);
    expect(fits(100)).toBe(60);
    const { rejection, headers } = refusedBy(ask());
    expect([rejection.status, rejection.retryAfter, headers.get("retry-after-ms")]).toEqual([429, 1, "1000"]);
    clock.advance(999);
    expect(fits(1)).toBe(0);
    clock.advance(1);
    expect(fits(2)).toBe(1);
    clock.advance(10_000);
    expect(fits(20)).toBe(10);
    clock.advance(3_600_000);
    expect(fits(100)).toBe(60);
  });

  it("a request reserves its prompt and the usual answer, and its usage settles that in both directions", () => {
    const { ask, table } = setUp([{ tokensPerMinute: 1000 }]);
    const [counter] = [...table.counters.values()];
    expect(counter).toBeUndefined();
    const tokens = () => [...table.counters.values()][0]!.tokens.used;
    const first = granted(ask(100, "a", { maxTokens: Number.NaN }));
    expect(tokens()).toBe(100 + 256);
    first.settle(used(90, 10));
    expect(tokens()).toBe(100);
    const second = granted(ask(100, "a", { maxTokens: 50 }));
    expect(tokens()).toBe(100 + 150);
    second.settle(used(100, 700));
    expect(tokens()).toBe(900);
    // What is not known stays as it was reserved, and who was never sent gets all back.
    granted(ask(20, "a", { maxTokens: 5 })).settle(UNKNOWN);
    expect(tokens()).toBe(925);
    granted(ask(20, "a", { maxTokens: 5 })).settle(NEVER_SENT);
    expect(tokens()).toBe(925);
  });

  it("learns the usual answer, and never lets the guess alone refuse a request for good", () => {
    const { ask, table, clock } = setUp([{ tokensPerMinute: 100 }]);
    // 256 expected tokens do not fit beside the prompt: the rest of the limit is reserved instead.
    granted(ask(10, "a", { maxTokens: Number.NaN })).settle(used(10, 20));
    expect([...table.counters.values()][0]!.tokens.used).toBe(30);
    for (let i = 0; i < 500; i++) {
      clock.advance(60_000);
      granted(ask(10, "a", { maxTokens: Number.NaN })).settle(used(10, 20));
    }
    clock.advance(60_000);
    granted(ask(10, "a", { maxTokens: Number.NaN }));
    expect([...table.counters.values()][0]!.tokens.used).toBeCloseTo(30, 0);
  });

  it("a request for several answers reserves each, and the usual length is that of one", () => {
    const { ask, table, clock } = setUp([{ tokensPerMinute: 10_000 }]);
    const tokens = () => [...table.counters.values()][0]!.tokens.used;
    const several = granted(ask(100, "a", { maxTokens: 50, answers: 4 }));
    expect(tokens()).toBe(100 + 4 * 50);
    several.settle(used(100, 120));
    expect(tokens()).toBe(220);
    const unbounded = granted(ask(100, "a", { maxTokens: Number.NaN, answers: 2 }));
    // The answers before had 30 tokens each.
    expect(tokens()).toBeCloseTo(220 + 100 + 2 * (256 + (30 - 256) / 64), 6);
    unbounded.settle(NEVER_SENT);
    clock.advance(600_000);
    for (let i = 0; i < 500; i++) {
      clock.advance(60_000);
      granted(ask(10, "a", { maxTokens: Number.NaN, answers: 4 })).settle(used(10, 80));
    }
    clock.advance(60_000);
    granted(ask(10, "a", { maxTokens: Number.NaN }));
    expect(tokens()).toBeCloseTo(30, 0);
  });

  it("as many answers as a client likes make no request too large for the limit", () => {
    const { ask, table } = setUp([{ tokensPerMinute: 100 }]);
    granted(ask(10, "a", { maxTokens: 50, answers: 16 }));
    expect([...table.counters.values()][0]!.tokens.used).toBe(100);
  });

  it("an answer that was too long is debt, of at most ten minutes", () => {
    const { ask, clock } = setUp([{ tokensPerMinute: 1000 }]);
    granted(ask(100)).settle(used(100, 2900));
    const { rejection, headers } = refusedBy(ask(99));
    expect(rejection.detail).toContain(
      "1000 tokens per minute (all) is reached: 3000 are used, this request needs 100",
    );
    expect([rejection.retryAfter, headers.get("x-ratelimit-remaining-tokens")]).toEqual([126, "0"]);
    clock.advance(126_000);
    granted(ask(99)).settle(used(99, 1_000_000));
    expect(refusedBy(ask(99)).rejection.retryAfter).toBe(546);
  });

  it("a prompt above the whole limit gets 400, also while the limit is used up", () => {
    const { ask } = setUp([{ requestsPerMinute: 1, tokensPerMinute: 50, inFlight: 1 }]);
    const big = () => refusedBy(ask(51));
    expect([big().rejection.status, big().rejection.reason]).toEqual([400, "over_token_limit"]);
    expect(big().rejection.detail).toContain(
      "about 51 tokens, and the limit is 50 tokens per minute (all), so the request never fits",
    );
    expect(big().headers.get("retry-after-ms")).toBeUndefined();
    granted(ask(1));
    expect(big().rejection.status).toBe(400);
  });

  it("the data of an image is not a text", () => {
    const { table } = setUp([{ tokensPerMinute: 100_000 }]);
    const url = `data:image/png;base64,${"A".repeat(1_000_000)}`;
    const text = JSON.stringify([{ role: "user", content: [{ type: "image_url", image_url: { url } }] }]);
    const body = Buffer.from(text);
    const request = requestOf(1, { body, prompts: [[{ start: 0, end: body.length }]] });
    expect(granted(table.admit(request, undefined, () => "")).promptTokens).toBeLessThan(1100);
  });
});

describe("what comes back late", () => {
  it("has drained already, and makes no room beyond the limit", () => {
    const { ask, clock, table } = setUp([{ requestsPerMinute: 2, tokensPerMinute: 100 }]);
    const grant = granted(ask(50));
    clock.advance(60_000);
    grant.settle(NEVER_SENT);
    const [counter] = [...table.counters.values()];
    expect([counter!.requests.used, counter!.tokens.used]).toEqual([0, 0]);
    expect(Array.from({ length: 3 }, () => "settle" in ask(1)!)).toEqual([true, true, false]);
  });
});

describe("requests in flight", () => {
  it("are limited until they end, each once", () => {
    const { ask, fits } = setUp([{ inFlight: 2 }]);
    const first = granted(ask());
    granted(ask());
    const { rejection } = refusedBy(ask());
    expect([rejection.reason, rejection.retryAfter]).toEqual(["rate_limited_in_flight", 1]);
    for (let i = 0; i < 3; i++) first.settle(used(1, 1));
    expect(fits(3)).toBe(1);
  });
});

describe("changed rules", () => {
  it("count at once, and counters keep what is used", () => {
    const { table, fits, ask } = setUp([{ key: "*", requestsPerMinute: 10, inFlight: 50 }]);
    expect(fits(4)).toBe(4);
    const running = granted(ask());
    table.useRules([{ key: "*", requestsPerMinute: 6, inFlight: 50 }]);
    expect(fits(5)).toBe(1);
    table.useRules([{ key: "b", requestsPerMinute: 1 }]);
    expect(fits(5)).toBe(5);
    running.settle(used(1, 1));
    table.useRules([{ key: "*", inFlight: 6 }]);
    // Five of the first run are still in flight.
    expect(fits(5)).toBe(1);
  });
});

describe("the table of counters", () => {
  it("is bounded: of those in use the least full one leaves, and those with requests in flight stay", () => {
    const left: string[] = [];
    const { table, ask, clock } = setUp(
      [{ key: "*", requestsPerMinute: 10 }],
      { left: ({ name }, lost) => void left.push(`${name} ${lost}`) },
      16,
    );
    granted(ask(1, "runs"));
    for (let i = 0; i < 9; i++) granted(ask(1, "full")).settle(used(1, 1));
    for (let i = 0; i < 200; i++) {
      granted(ask(1, `invented${i}`)).settle(used(1, 1));
      expect(table.counters.size).toBeLessThanOrEqual(16);
      clock.advance(1);
    }
    expect(left).toHaveLength(200 - 14);
    expect(left.every((line) => /^key=invented\d+ true$/.test(line))).toBe(true);
    expect([...table.counters.values()].map(({ name }) => name)).toContain("key=full");
    expect([...table.counters.values()].map(({ name }) => name)).toContain("key=runs");
  });

  it("forgets idle counters as others come, not those of the same request", () => {
    const left: boolean[] = [];
    const rules = [
      { key: "*", requestsPerMinute: 10 },
      { model: "*", requestsPerMinute: 10 },
    ];
    const { table, ask, clock } = setUp(rules, { left: (_, lost) => void left.push(lost) });
    for (let i = 0; i < 100; i++) {
      granted(ask(1, `k${i}`, { model: `m${i}` })).settle(used(1, 1));
      expect([...table.counters.values()].slice(-2).map(({ requests }) => requests.used)).toEqual([1, 1]);
      clock.advance(6_000);
    }
    expect(table.counters.size).toBeLessThan(10);
    expect(new Set(left)).toEqual(new Set([false]));
  });

  it("long and odd names make ids of their own, or share one", () => {
    const { table } = setUp([{ key: "*", model: "*", requestsPerMinute: 1 }]);
    const fits = (key: string, model: string) => {
      const found = table.admit(requestOf(1, { model }), callerOf(key), () => "");
      return found !== undefined && "settle" in found;
    };
    expect(fits("a:b", "c")).toBe(true);
    expect(fits("a", "b:c")).toBe(true);
    expect(fits("a\n", "\ud800")).toBe(true);
    expect(fits("k", "x".repeat(600))).toBe(true);
    expect(fits("k", "y".repeat(600))).toBe(false);
  });
});
