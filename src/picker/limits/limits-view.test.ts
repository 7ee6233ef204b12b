import { describe, expect, it } from "vitest";
import { callerOf, granted, requestOf, used } from "../../../test/support/limits/requests.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import type { LimitRule } from "./limits-settings.ts";
import { limitsView } from "./limits-view.ts";
import { QuotaTable } from "./quotas.ts";

function setUp(rules: readonly LimitRule[], sharing?: { server: string; hears: boolean }) {
  const clock = new VirtualClock();
  const table = new QuotaTable(clock, rules);
  /** Requests of a key that have ended. */
  const ask = (key: string, count = 1) => {
    for (let i = 0; i < count; i++)
      granted(table.admit(requestOf(10), callerOf(key), () => "10.0.0.1")).settle(used(10, 5));
  };
  return { clock, table, ask, view: () => limitsView(table.rules, table.counters, sharing, clock.now()) };
}

describe("the limits as `/debug/limits` shows them", () => {
  it("are the figures of each counter in use, fullest first", () => {
    const { table, ask, view } = setUp([{ key: "*", requestsPerMinute: 10, tokensPerMinute: 1000, inFlight: 4 }]);
    ask("a");
    ask("b", 3);
    table.admit(requestOf(10), callerOf("b"), () => "");
    expect(view()).toMatchObject({
      shared: undefined,
      rules: [
        {
          inUse: 2,
          counters: [
            {
              counter: "key=b",
              requests: { used: 4, limit: 10 },
              tokens: { used: 56, limit: 1000 },
              inFlight: { here: 1, elsewhere: 0, limit: 4 },
              gateways: 1,
            },
            {
              counter: "key=a",
              requests: { used: 1, limit: 10 },
              tokens: { used: 15, limit: 1000 },
              inFlight: { here: 0, elsewhere: 0, limit: 4 },
              gateways: 1,
            },
          ],
        },
      ],
    });
  });

  it("are at most 50 of a rule, the fullest of all, with the number of all", () => {
    const { ask, view } = setUp([{ key: "*", requestsPerMinute: 1000 }]);
    const order = Array.from({ length: 60 }, (_, i) => ((i * 7) % 60) + 1);
    for (const count of order) ask(`k${count}`, count);
    const [{ inUse, counters }] = view().rules as [ReturnType<typeof view>["rules"][number]];
    expect(inUse).toBe(60);
    expect(counters.map((shown) => (shown as { counter: string }).counter)).toEqual(
      Array.from({ length: 50 }, (_, i) => `key=k${60 - i}`),
    );
  });

  it("are empty where nothing is used, or only by rules of before, and absent without rules", () => {
    const { clock, table, ask, view } = setUp([{ key: "*", requestsPerMinute: 10 }]);
    ask("a");
    table.useRules([{ model: "m", requestsPerMinute: 1 }]);
    expect(view().rules).toMatchObject([{ inUse: 0, counters: [] }]);
    table.useRules([{ key: "*", requestsPerMinute: 10 }]);
    expect(view().rules).toMatchObject([{ inUse: 1 }]);
    clock.advance(60_000);
    expect(view().rules).toMatchObject([{ inUse: 0, counters: [] }]);
    table.useRules([]);
    expect(view().rules).toEqual([]);
  });

  it.each([
    [undefined, undefined],
    [true, "shared"],
    [false, "last known"],
  ])("say whether other gateways count: hears %j is %j", (hears, state) => {
    const sharing = hears === undefined ? undefined : { server: "redis:6379", hears };
    expect(setUp([{ inFlight: 1 }], sharing).view().shared?.state).toBe(state);
  });
});
