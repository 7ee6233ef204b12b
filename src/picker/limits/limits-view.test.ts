import { describe, expect, it } from "vitest";
import { callerOf, granted, requestOf, used } from "../../../test/support/limits/requests.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import type { LimitRule } from "./limits-settings.ts";
import { limitsPicture } from "./limits-view.ts";
import { QuotaTable } from "./quotas.ts";

function setUp(rules: readonly LimitRule[], hears?: boolean) {
  const clock = new VirtualClock();
  const table = new QuotaTable(clock, rules);
  /** Requests of a key that have ended. */
  const ask = (key: string, count = 1) => {
    for (let i = 0; i < count; i++)
      granted(table.admit(requestOf(10), callerOf(key), () => "10.0.0.1")).settle(used(10, 5));
  };
  return { clock, table, ask, picture: () => limitsPicture(table.rules, table.counters, hears, clock.now()) };
}

describe("the limits on the page", () => {
  it("are the figures of each counter in use, fullest first", () => {
    const { table, ask, picture } = setUp([{ key: "*", requestsPerMinute: 10, tokensPerMinute: 1000, inFlight: 4 }]);
    ask("a");
    ask("b", 3);
    table.admit(requestOf(10), callerOf("b"), () => "");
    expect(picture()).toEqual({
      shared: undefined,
      inUse: 2,
      counters: [
        {
          counter: "key=b",
          requests: { used: 4, limit: 10 },
          tokens: { used: 56, limit: 1000 },
          inFlight: { used: 1, limit: 4 },
          share: 0.4,
          gateways: 1,
        },
        {
          counter: "key=a",
          requests: { used: 1, limit: 10 },
          tokens: { used: 15, limit: 1000 },
          inFlight: { used: 0, limit: 4 },
          share: 0.1,
          gateways: 1,
        },
      ],
    });
  });

  it("are at most 20, the fullest of all, with the number of all", () => {
    const { ask, picture } = setUp([{ key: "*", requestsPerMinute: 100 }]);
    const order = Array.from({ length: 30 }, (_, i) => ((i * 7) % 30) + 1);
    for (const count of order) ask(`k${count}`, count);
    const { inUse, counters } = picture()!;
    expect(inUse).toBe(30);
    expect(counters.map(({ counter }) => counter)).toEqual(Array.from({ length: 20 }, (_, i) => `key=k${30 - i}`));
  });

  it("are empty where nothing is used, or only by rules of before, and absent without rules", () => {
    const { clock, table, ask, picture } = setUp([{ key: "*", requestsPerMinute: 10 }]);
    ask("a");
    table.useRules([{ model: "m", requestsPerMinute: 1 }]);
    expect(picture()).toMatchObject({ inUse: 0, counters: [] });
    table.useRules([{ key: "*", requestsPerMinute: 10 }]);
    expect(picture()).toMatchObject({ inUse: 1 });
    clock.advance(60_000);
    expect(picture()).toMatchObject({ inUse: 0, counters: [] });
    table.useRules([]);
    expect(picture()).toBeUndefined();
  });

  it.each([
    [undefined, undefined],
    [true, "shared"],
    [false, "last known"],
  ])("say whether other gateways count: hears %j is %j", (hears, shared) => {
    expect(setUp([{ inFlight: 1 }], hears).picture()?.shared).toBe(shared);
  });
});
