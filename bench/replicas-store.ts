/**
 * What replicas that share cost their store, and what the way to it costs each replica: a real Redis, and N replicas that each decide
 * 2,000 requests a second. Every 20 ms each replica publishes its load and appends a message with the 40 decisions of that time.
 *
 *   node bench/replicas-store.ts [--replicas 1,2,4,10] [--seconds 6] [--endpoints 16] [--blocks 5]
 *
 * The replicas are transports without pickers, all in this process, so its CPU is divided by their number. The CPU of the store and its
 * bytes come from the store itself (INFO).
 */
import { parseArgs } from "node:util";
import { SeededRandom } from "../src/base/clock/random.ts";
import { realClock } from "../src/base/clock/real.ts";
import { connectRedis, type Redis } from "../src/base/redis/connection.ts";
import { silentLogger } from "../src/base/telemetry/logger.ts";
import { clusterMark, encodeLoad, PlacedWriter } from "../src/pool/peers/codec.ts";
import { RedisPeerTransport } from "../src/pool/peers/redis-transport.ts";
import { startRedis } from "../test/support/redis.ts";

const { values } = parseArgs({
  options: {
    replicas: { type: "string", default: "1,2,4,10" },
    seconds: { type: "string", default: "6" },
    endpoints: { type: "string", default: "16" },
    blocks: { type: "string", default: "5" },
  },
});
const SECONDS = Number(values.seconds);
const ENDPOINTS = Number(values.endpoints);
const BLOCKS = Number(values.blocks);
const DECISIONS = 2000;
const INTERVAL = 20;
const TOGETHER = (DECISIONS * INTERVAL) / 1000;
const CLUSTER = clusterMark("bench", "");
const random = new SeededRandom(3);
const wait = (ms: number): Promise<void> => new Promise((resolve) => realClock.after(ms, resolve));

/** One replica: what it sends each interval, and what it was sent. */
class Replica {
  readonly transport: RedisPeerTransport;
  readonly #id: string;
  #sequence = 0;
  #caughtUp: (() => void) | undefined;
  readonly ready = new Promise<void>((resolve) => {
    this.#caughtUp = resolve;
  });

  constructor(url: string, n: number) {
    this.#id = n.toString(16).padStart(16, "0");
    this.transport = new RedisPeerTransport(
      { redis: { url, tls: {}, enableTracing: false }, name: "bench" },
      { clock: realClock, random: new SeededRandom(n), log: silentLogger },
    );
    this.transport.start({ load() {}, placed() {}, connection() {}, caughtUp: () => this.#caughtUp!() });
  }

  send(): void {
    const sender = { id: this.#id, epoch: 1, sequence: ++this.#sequence };
    const key = (n: number): string => `10.0.0.${n}:8000`;
    const loads = Array.from({ length: ENDPOINTS }, (_, n) => ({ key: key(n), requests: 20, tokens: 9000 }));
    this.transport.publishLoad(encodeLoad(CLUSTER, { ...sender, loads, facts: undefined }));
    const writer = new PlacedWriter(CLUSTER);
    for (let i = 0; i < TOGETHER; i++) {
      const hashes = (): Int32Array => Int32Array.from({ length: BLOCKS }, () => random.below(2 ** 32));
      const [low, high] = [hashes(), hashes()];
      writer.add(sender, {
        key: key(random.below(ENDPOINTS)),
        space: 1,
        blockTokens: 64,
        from: 0,
        count: BLOCKS,
        low,
        high,
      });
    }
    this.transport.appendPlaced(writer.take());
  }
}

interface Spent {
  readonly cpuSeconds: number;
  readonly bytesIn: number;
  readonly bytesOut: number;
}

async function spentOf(store: Redis): Promise<Spent> {
  const text = String(await store.send(["INFO", "everything"]));
  const figure = (name: string): number => Number(new RegExp(`^${name}:([\\d.]+)`, "m").exec(text)?.[1]);
  return {
    cpuSeconds: figure("used_cpu_user") + figure("used_cpu_sys"),
    bytesIn: figure("total_net_input_bytes"),
    bytesOut: figure("total_net_output_bytes"),
  };
}

const rows: Record<string, number>[] = [];
for (const count of values.replicas.split(",").map(Number)) {
  const server = await startRedis();
  const store = connectRedis(
    { url: server.url, tls: {}, enableTracing: false },
    { clock: realClock, random, log: silentLogger },
  );
  await store.whenReady(10_000);
  const replicas = Array.from({ length: count }, (_, n) => new Replica(server.url, n + 1));
  await Promise.all(replicas.map(({ ready }) => ready));
  const before = await spentOf(store);
  const own = process.cpuUsage();
  const begun = performance.now();
  let rounds = 0;
  for (; performance.now() - begun < 1000 * SECONDS; rounds++) {
    for (const replica of replicas) replica.send();
    await wait(begun + (rounds + 1) * INTERVAL - performance.now());
  }
  const seconds = (performance.now() - begun) / 1000;
  const { user, system } = process.cpuUsage(own);
  await wait(200);
  const after = await spentOf(store);
  const memory = Number(await store.send(["MEMORY", "USAGE", "sluice:peers:{bench}:placed", "SAMPLES", "0"]));
  const decisions = rounds * TOGETHER * count;
  const views = replicas.map(({ transport }) => transport.view);
  rows.push({
    replicas: count,
    "decisions/s": Math.round(decisions / seconds),
    "store CPU %": Number(((100 * (after.cpuSeconds - before.cpuSeconds)) / seconds).toFixed(1)),
    "replica CPU %": Number(((user + system) / 1e4 / seconds / count).toFixed(1)),
    "bytes in per decision": Math.round((after.bytesIn - before.bytesIn) / decisions),
    "bytes out per decision": Math.round((after.bytesOut - before.bytesOut) / decisions),
    "log MiB": Number((memory / 2 ** 20).toFixed(1)),
    "answer ms": Number(Math.max(...views.map(({ answerMs }) => answerMs ?? 0)).toFixed(1)),
    dropped: views.reduce((sum, { dropped }) => sum + dropped, 0),
  });
  await Promise.all(replicas.map(({ transport }) => transport.close()));
  store.close();
  await server.stop();
}
console.table(rows);
