import { describe, expect, it } from "vitest";
import type { RunningRedis } from "../support/redis.ts";
import { startCluster, startWatched } from "../support/redis-topologies.ts";
import { ask, ending, LOG, pair, serve } from "./peers-setup.ts";

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
  });
});
