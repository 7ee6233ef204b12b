import { describe, expect, it } from "vitest";
import { queueOf } from "../../../test/support/brokers/broker.cases.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { type LogFields, type Logger, silentLogger } from "../../base/telemetry/logger.ts";
import type { Broker, Settlement, SettleOutcome } from "../brokers/broker.ts";
import { BrokerHealth } from "./broker-health.ts";

const Q = queueOf("q");
const OOM = "Redis at here does not take HSET now: OOM command not allowed";

/** A broker whose calls the test lets fail, each by its name. */
function made() {
  const clock = new VirtualClock();
  const lines: { readonly level: string; readonly fields: LogFields }[] = [];
  const log: Logger = {
    ...silentLogger,
    info: (fields) => void lines.push({ level: "info", fields }),
    error: (fields) => void lines.push({ level: "error", fields }),
  };
  const failing = new Map<string, string>();
  let outcomes: readonly SettleOutcome[] = ["settled"];
  const call = async <T>(name: string, value: T): Promise<T> => {
    const problem = failing.get(name);
    if (problem !== undefined) throw new Error(problem);
    return value;
  };
  const broker: Broker = {
    start() {},
    claim: () => call("claim", { claims: [], waiting: 0, time: 0 }),
    settle: () => call("settle", outcomes),
    renew: () => call("renew", []),
    cancelled: () => call("cancelled", []),
    moveDue: () => call("moveDue", 0),
    reclaim: () => call("reclaim", undefined),
    check: () => call("check", undefined),
    backlog: () => Promise.reject(new Error("not asked")),
    close: async () => {},
  };
  const health = new BrokerHealth(broker, clock, log);
  const watched = health.watch();
  return {
    ...{ clock, lines, failing, health },
    claim: () => watched.claim(Q, { max: 1, expired: 0 }).catch(() => undefined),
    settle: (next: readonly SettleOutcome[]) => {
      outcomes = next;
      return watched.settle([] as Settlement[]).catch(() => undefined);
    },
    watched,
    reason: () =>
      health.check().then(
        () => "ready",
        (error: Error) => error.message,
      ),
  };
}

describe("BrokerHealth", () => {
  it("is ready while everything works, and says nothing", async () => {
    const { claim, settle, reason, lines } = made();
    await claim();
    await settle(["settled", { failed: "one key" }]);
    expect(await reason()).toBe("ready");
    expect(lines).toEqual([]);
  });

  it("says why the check fails: one line when it begins, one when it is over, however often it is asked", async () => {
    const { failing, reason, lines, health } = made();
    expect(await reason()).toBe("ready");
    expect(health.unusable).toBeUndefined();
    failing.set("check", OOM);
    for (let i = 0; i < 5; i++) expect(await reason()).toBe(OOM);
    expect(health.unusable).toBe(OOM);
    expect(lines).toEqual([{ level: "error", fields: { problem: OOM, failing: ["the broker"] } }]);
    failing.clear();
    for (let i = 0; i < 5; i++) expect(await reason()).toBe("ready");
    expect(lines.map(({ level }) => level)).toEqual(["error", "info"]);
    expect(health.unusable).toBeUndefined();
  });

  it.each(["claim", "settle", "renew", "moveDue", "reclaim"] as const)(
    "a %s that fails makes it not ready although the check works, until it works again",
    async (name) => {
      const { failing, reason, watched, lines } = made();
      const act = (): Promise<unknown> =>
        ({
          claim: () => watched.claim(Q, { max: 1, expired: 0 }),
          settle: () => watched.settle([]),
          renew: () => watched.renew([]),
          moveDue: () => watched.moveDue(),
          reclaim: () => watched.reclaim(new Set()),
        })
          [name]()
          .catch((error: Error) => error.message);
      failing.set(name, OOM);
      expect(await act()).toBe(OOM);
      await act();
      expect(await reason()).toBe(OOM);
      expect(lines).toHaveLength(1);
      failing.clear();
      await act();
      expect(await reason()).toBe("ready");
      expect(lines.map(({ level }) => level)).toEqual(["error", "info"]);
    },
  );

  it("a settlement of which nothing is taken is a failure; one of which some is taken is none", async () => {
    const { settle, reason } = made();
    await settle([{ failed: OOM }, { failed: OOM }]);
    expect(await reason()).toBe(OOM);
    await settle([{ failed: OOM }, "fenced"]);
    expect(await reason()).toBe("ready");
    await settle([]);
    expect(await reason()).toBe("ready");
  });

  it("what nobody has tried again for ten seconds counts no more", async () => {
    const { clock, failing, claim, reason } = made();
    failing.set("claim", OOM);
    await claim();
    clock.advance(9000);
    expect(await reason()).toBe(OOM);
    clock.advance(1001);
    expect(await reason()).toBe("ready");
  });

  it("another reason is another line, other words for the same reason are none", async () => {
    const { failing, claim, lines } = made();
    await claim();
    for (const problem of ["connect ECONNREFUSED", "no answer", "x: OOM command", "READONLY You", OOM]) {
      failing.set("claim", problem);
      await claim();
    }
    expect(lines.map(({ fields }) => fields["problem"])).toEqual([
      "connect ECONNREFUSED",
      "x: OOM command",
      "READONLY You",
      OOM,
    ]);
  });

  it("a broker that has not been reached yet is no news for three seconds, and not ready all the same", async () => {
    const { clock, failing, claim, reason, lines } = made();
    failing.set("claim", "not connected yet");
    failing.set("check", "not connected yet");
    await claim();
    expect(await reason()).toBe("not connected yet");
    clock.advance(2900);
    await claim();
    expect(lines).toEqual([]);
    clock.advance(200);
    await claim();
    expect(lines).toHaveLength(1);
    // What failed before the first call that works is over, and no news either.
    const late = made();
    late.failing.set("claim", "not connected yet");
    await late.claim();
    await late.settle(["settled"]);
    expect(late.lines).toEqual([]);
    expect(await late.reason()).toBe("ready");
    const refused = made();
    refused.failing.set("claim", OOM);
    await refused.claim();
    expect(refused.lines).toHaveLength(1);
  });
});
