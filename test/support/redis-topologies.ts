import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { redisServer } from "../../scripts/test-parts.ts";
import { freePort, onFreePorts } from "./free-port.ts";
import { poll } from "./poll.ts";
import { TestProcess } from "./process.ts";
import type { RedisOptions, RunningRedis } from "./redis.ts";

/** What a test gives. Each server ends with the test from its start on, also where a later one does not start. */
interface TestParts {
  /** Starts a server of this test. */
  serve(options: RedisOptions): Promise<RunningRedis>;
  /** Ends a part after the test; the part that began last ends first. */
  ending<T>(part: T, end: (part: T) => unknown): T;
  /** A command for one of the servers. */
  ask(url: string, ...command: string[]): Promise<unknown>;
}

/** A primary and a replica that a Sentinel watches. */
export interface Watched {
  /** For clients: names the Sentinel. */
  readonly url: string;
  readonly primary: RunningRedis;
  readonly replica: RunningRedis;
  /** The replica takes the place of the primary, which then is its replica. */
  failOver(): Promise<void>;
}

/** The Sentinel finds no server dead by itself: a machine that pauses must not change who is the primary. */
const PATIENCE = 600_000;

export async function startWatched({ serve, ending, ask }: TestParts): Promise<Watched> {
  const primary = await serve({});
  const replica = await serve({ args: ["--replicaof", "127.0.0.1", String(primary.port)] });
  const linked = async (): Promise<boolean> =>
    String(await ask(replica.url, "INFO", "replication")).includes("master_link_status:up");
  await poll("the replica to follow", linked);
  const folder = ending(mkdtempSync(join(tmpdir(), "sluice-sentinel-")), (path) => rmSync(path, { recursive: true }));
  const port = await onFreePorts(async () => {
    const chosen = await freePort();
    const lines = [
      `port ${chosen}`,
      "bind 127.0.0.1",
      `dir ${folder}`,
      `sentinel monitor mine 127.0.0.1 ${primary.port} 1`,
      `sentinel down-after-milliseconds mine ${PATIENCE}`,
    ];
    const file = join(folder, "sentinel.conf");
    writeFileSync(file, `${lines.join("\n")}\n`);
    const sentinel = ending(new TestProcess(redisServer(), [file, "--sentinel"], { cwd: folder }), (one) => one.stop());
    await sentinel.until("the Sentinel to watch", () => sentinel.stdout.includes("+monitor master mine"));
    return chosen;
  });
  const direct = `redis://127.0.0.1:${port}`;
  return {
    url: `${direct}/?master_name=mine`,
    primary,
    replica,
    async failOver() {
      // It knows its replicas only once the primary has told it, and refuses until then.
      await poll("the Sentinel to take the order", () =>
        ask(direct, "SENTINEL", "FAILOVER", "mine").then(() => true as const),
      );
      await poll("the other server to be the primary", async () => {
        const place = (await ask(direct, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mine")) as string[];
        return Number(place[1]) === replica.port;
      });
    },
  };
}

/** A Redis Cluster of two nodes, each with half of the slots. */
export interface Clustered {
  readonly nodes: readonly RunningRedis[];
  /** Gives the slot of a key to a node, without its keys. */
  give(key: string, node: number): Promise<void>;
}

export async function startCluster({ serve, ask }: Omit<TestParts, "ending">): Promise<Clustered> {
  const nodes: RunningRedis[] = [];
  const buses: number[] = [];
  for (let n = 0; n < 2; n++) {
    const bus = await freePort();
    buses.push(bus);
    const args = [
      "--cluster-enabled",
      "yes",
      "--cluster-port",
      String(bus),
      "--cluster-node-timeout",
      String(PATIENCE),
    ];
    nodes.push(await serve({ args }));
  }
  const [one, two] = nodes as [RunningRedis, RunningRedis];
  await ask(one.url, "CLUSTER", "ADDSLOTSRANGE", "0", "8191");
  await ask(two.url, "CLUSTER", "ADDSLOTSRANGE", "8192", "16383");
  await ask(two.url, "CLUSTER", "SET-CONFIG-EPOCH", "2");
  await ask(one.url, "CLUSTER", "MEET", "127.0.0.1", String(two.port), String(buses[1]));
  for (const { url } of nodes)
    await poll("the cluster to be whole", async () =>
      String(await ask(url, "CLUSTER", "INFO")).includes("cluster_state:ok"),
    );
  return {
    nodes,
    async give(key, node) {
      const slot = String(await ask(one.url, "CLUSTER", "KEYSLOT", key));
      const id = String(await ask(nodes[node]!.url, "CLUSTER", "MYID"));
      for (const { url } of nodes)
        for (const left of (await ask(url, "CLUSTER", "GETKEYSINSLOT", slot, "1000")) as string[])
          await ask(url, "DEL", left).catch(() => undefined);
      // The new owner first, so that the old one does not win it back.
      for (const { url } of [nodes[node]!, nodes[1 - node]!]) await ask(url, "CLUSTER", "SETSLOT", slot, "NODE", id);
    },
  };
}
