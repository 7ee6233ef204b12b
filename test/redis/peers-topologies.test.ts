import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../src/base/clock/random.ts";
import { realClock } from "../../src/base/clock/real.ts";
import { silentLogger } from "../../src/base/telemetry/logger.ts";
import { QuotaTable } from "../../src/picker/limits/quotas.ts";
import { SharedLimits } from "../../src/picker/limits/shared-limits.ts";
import { callerOf, requestOf } from "../support/limits/requests.ts";
import { poll } from "../support/poll.ts";
import type { RunningRedis } from "../support/redis.ts";
import { startCluster, startWatched } from "../support/redis-topologies.ts";
import { ask, ending, LOG, pair, serve } from "./peers-setup.ts";
import { at } from "./setup.ts";

describe("replicas whose store is of several servers", () => {
  it("follow a Sentinel to the new primary", async () => {
    const watched = await startWatched({ serve, ending, ask });
    const [a, b] = await pair(watched.url);
    await b.hears(a, "before");
    await watched.failOver();
    // The former primary takes no writes any more, and then is gone.
    await watched.primary.kill();
    await b.hears(a, "after");
    await a.hears(b, "both ways");
    expect(await ask(watched.replica.url, "XLEN", LOG)).toBeGreaterThan(0);
  });

  it("find the node of a cluster that has their keys, and follow the keys to another", async () => {
    const cluster = await startCluster({ serve, ask });
    const [one, two] = cluster.nodes as [RunningRedis, RunningRedis];
    const [a, b] = await pair(one.url, `${two.url}?addr=127.0.0.1:${one.port}`);
    await b.hears(a, "before");
    const slotOf = async (url: string): Promise<boolean> =>
      ask(url, "EXISTS", LOG).then(
        () => true,
        () => false,
      );
    const other = (await slotOf(one.url)) ? 1 : 0;
    await cluster.give(LOG, other);
    await b.hears(a, "after");
    await a.hears(b, "both ways");
    expect(await ask(cluster.nodes[other]!.url, "XLEN", LOG)).toBeGreaterThan(0);
    // The counters of limits of one name are on one node, too: the script has the keys of many at a time.
    for (const [n, { url }] of cluster.nodes.entries()) {
      const deps = { clock: realClock, random: new SeededRandom(Number(new URL(url).port)), log: silentLogger };
      const shared = ending(new SharedLimits({ connection: at(url), name: "llm/pool" }, deps), (it) => it.close());
      const table = new QuotaTable(realClock, [{ key: "*", requestsPerMinute: 100 }, { requestsPerMinute: 100 }], {
        touched: (counter) => shared.touched(counter),
        left: (counter) => shared.left(counter),
      });
      table.admit(requestOf(), callerOf("k"), () => "");
      const counters = [...table.counters.values()];
      expect(counters).toHaveLength(2);
      await poll("the limits to be counted", () => {
        for (const counter of counters) shared.touched(counter);
        return counters.every(({ others }) => others.gateways === n + 1);
      });
    }
  });
});
