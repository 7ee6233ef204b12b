import { afterEach, describe, expect, it } from "vitest";
import { SeededRandom } from "../../src/base/clock/random.ts";
import { startStandIn, type TestApiServer } from "../support/apiserver/index.ts";
import {
  type ClusterEpp,
  CRDS,
  expectServersEndpoints,
  kubeconfigFile,
  NAMESPACE,
  podNamed,
  poolOn,
  startClusterEpp,
} from "../support/cluster.ts";
import { poll } from "../support/poll.ts";
import { residentMiB } from "../support/process.ts";
import { portOf } from "../support/stack.ts";
import { type TcpProxy, tcpProxy } from "../support/tcp-proxy.ts";

const PODS = 1000;
const UPDATES = 20_000;
/** Between two faults. */
const BETWEEN = 400;
const PORTS = [8000];
const PATH = `/api/v1/namespaces/${NAMESPACE}/pods`;
const LISTS = 'sluice_kubernetes_lists_total{kind="pods"}';
const HEARD_AGE = 'sluice_kubernetes_heard_age_seconds{kind="pods"}';
/** Milliseconds: a watch that is silent is given up 150 s after its last word. */
const [SILENCE, LONG] = [150_000, 1_200_000];

const left: { close(): Promise<unknown> }[] = [];
afterEach(async () => {
  for (const each of left.splice(0).reverse()) await each.close();
});

/** A picker of a pool that listens nowhere, with a proxy between it and its API server. */
async function setUp(
  pods: number,
  bookmarkInterval = 60_000,
): Promise<{ api: TestApiServer; proxy: TcpProxy; epp: ClusterEpp }> {
  const api = await startStandIn({ bookmarkInterval });
  const proxy = await tcpProxy(portOf(api.url));
  left.push(api, proxy);
  await api.installCrds(CRDS);
  await api.put(poolOn([8000]));
  for (let pod = 0; pod < pods; pod++) await api.put(podAt(pod, 0));
  const epp = await startClusterEpp({
    kubeconfig: kubeconfigFile(api, api.token, proxy.port),
    // Nobody is there to be read.
    args: ["--refresh-metrics-interval=1m"],
  });
  left.push({ close: () => epp.process.stop() });
  await expectServersEndpoints(epp, api, PORTS);
  return { api, proxy, epp };
}

const podAt = (pod: number, version: number) =>
  podNamed(`pod-${pod}`, { address: `127.${1 + (version % 100)}.${pod >> 8}.${pod & 255}` });

describe("1,000 pods, 20,000 changes", () => {
  it(
    "and every way in which an API server may fail on the way: the endpoints equal the server's in the end (R-30)",
    async () => {
      const random = new SeededRandom(11);
      const { api, proxy, epp } = await setUp(PODS);
      const before = await residentMiB(epp.process.pid);
      const began = performance.now();
      const change = async (version: number): Promise<void> => {
        const pod = random.below(PODS);
        const chance = random.next();
        if (chance < 0.05) await api.delete(`${PATH}/pod-${pod}`);
        else if (chance < 0.2) await api.put(podNamed(`pod-${pod}`, { ready: false }));
        else if (chance < 0.25) await api.put(podNamed(`pod-${pod}`, { labels: { app: "other" } }));
        else await api.put(podAt(pod, version));
      };
      /** What changes while nobody can connect, and is forgotten then, can only be listed. */
      const away = async (forget: () => void): Promise<void> => {
        await api.down();
        for (let i = 0; i < 20; i++) await change(i);
        forget();
        await api.up();
      };
      const faults: Record<string, () => unknown> = {
        cut: () => proxy.cut(),
        truncate: () => proxy.truncateAfter(1 + random.below(100_000)),
        drop: () => api.dropWatches(random.next() < 0.5),
        expire: () => away(() => api.expire(random.next() < 0.5 ? "event" : "http")),
        restart: () => away(() => {}),
        overload: () => api.failNext(5, 429, 1),
        goAway: () => api.goAway(),
        delay: () => proxy.delay(random.below(50)),
      };
      const names = Object.keys(faults);
      const seen: Record<string, number> = {};
      let slowest = 0;
      for (let update = 1; update <= UPDATES; update++) {
        await change(update);
        // The stand-in and the proxy are in this process: they need turns to carry anything.
        if (update % 10 === 0) await new Promise((resolve) => setImmediate(resolve));
        if (update % BETWEEN === BETWEEN / 2) {
          const fault = names[random.below(names.length)]!;
          seen[fault] = (seen[fault] ?? 0) + 1;
          await faults[fault]!();
        }
        if (update % BETWEEN !== 0) continue;
        const changed = performance.now();
        await expectServersEndpoints(epp, api, PORTS);
        slowest = Math.max(slowest, performance.now() - changed);
        proxy.delay(0);
        // After a watch that lasted for a second the next failure counts as the first one.
        await poll("a good watch", async () => (await epp.metric(HEARD_AGE))! > 1);
      }
      const took = (performance.now() - began) / 1000;
      const [after, lists] = [await residentMiB(epp.process.pid), await epp.metric(LISTS)];
      process.stdout.write(
        `${UPDATES} changes in ${took.toFixed(0)} s with ${JSON.stringify(seen)}: equal after at most ` +
          `${(slowest / 1000).toFixed(1)} s each time, by ${lists} lists; resident ${before.toFixed(0)} MiB before, ` +
          `${after.toFixed(0)} MiB after\n`,
      );
      expect(lists).toBeGreaterThan((seen["expire"] ?? 0) + (seen["restart"] ?? 0));
      // Pods are not kept: each version has about 1 KB, all together 20 MB.
      expect(after).toBeLessThan(2 * before);
    },
    LONG,
  );
});

describe("a connection that died without a word", () => {
  it(
    "is given up after a silence of 150 s, beyond the bookmarks of a minute; then the endpoints equal the server's (R-30)",
    async () => {
      const { api, proxy, epp } = await setUp(10, 1000);
      const resumed = (await epp.metric(LISTS))!;
      // Nothing changes, and yet it hears something: bookmarks.
      const age = async (): Promise<number> => (await epp.metric(HEARD_AGE))!;
      await poll("a silence", async () => (await age()) > 0.7);
      await poll("a bookmark", async () => (await age()) < 0.5);
      proxy.blackHole(true);
      for (let pod = 0; pod < 10; pod++) await api.put(podAt(pod, 1));
      const dead = performance.now();
      const before = await epp.endpoints();
      await poll("an old picture", async () => (await age()) > 60, 90_000);
      expect(await epp.endpoints()).toEqual(before);
      proxy.blackHole(false);
      await expectServersEndpoints(epp, api, PORTS, SILENCE + 60_000);
      const took = performance.now() - dead;
      process.stdout.write(`a dead connection was noticed and replaced after ${(took / 1000).toFixed(0)} s\n`);
      expect(took).toBeGreaterThan(SILENCE / 2);
      expect(await epp.metric(LISTS)).toBe(resumed);
    },
    LONG,
  );
});
