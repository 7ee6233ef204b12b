import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { PeersView } from "../../src/pool/peers/peers-view.ts";
import { startApiServer, type TestApiServer } from "../support/apiserver/index.ts";
import { getJson } from "../support/client.ts";
import { type ClusterEpp, CRDS, kubeconfigFile, podNamed, poolOn, startClusterEpp } from "../support/cluster.ts";
import { health } from "../support/epp-process.ts";
import { poll } from "../support/poll.ts";
import { type RunningRedis, startRedis } from "../support/redis.ts";

const SERVING = 1;
/** The port of pods that nothing listens on: endpoints are known all the same. */
const DEAD_PORT = 1;

describe("pickers of pools with one name, on one store", () => {
  let store: RunningRedis;
  let api: TestApiServer;
  const started: ClusterEpp[] = [];

  beforeAll(async () => {
    [store, api] = await Promise.all([startRedis(), startApiServer()]);
    await api.installCrds(CRDS);
    await api.put(poolOn([DEAD_PORT]));
    await api.put(podNamed("pod-2", { address: "127.0.0.2" }));
  });
  afterAll(async () => {
    for (const { process } of started) await process.stop("SIGKILL");
    await api?.close();
    await store?.stop();
  });

  async function picker(env: Readonly<Record<string, string>> = {}): Promise<ClusterEpp> {
    const epp = await startClusterEpp({
      kubeconfig: kubeconfigFile(api),
      args: ["--ha-enable-leader-election"],
      env: { SLUICE_PEERS: store.url, POD_NAME: `epp-${started.length}`, ...env },
    });
    started.push(epp);
    return epp;
  }

  const peersOf = ({ adminUrl }: ClusterEpp): Promise<PeersView> => getJson(`${adminUrl}/debug/peers`);
  const serves = async ({ healthPort }: ClusterEpp): Promise<boolean> =>
    (await health(healthPort, "readiness")).serving === SERVING;

  it("all serve, while one leads", async () => {
    const pickers = [await picker(), await picker()];
    for (const epp of pickers) {
      await poll("every picker to serve", () => serves(epp));
      await poll("the other one to be heard", async () => (await peersOf(epp)).replicas.length === 1);
      expect((await health(epp.healthPort, "liveness")).serving).toBe(SERVING);
    }
    const leading = async (): Promise<number> => {
      const leads = await Promise.all(pickers.map((epp) => epp.metric("sluice_kubernetes_leader")));
      return leads.reduce((sum: number, one) => sum + (one ?? 0), 0);
    };
    await poll("one to lead", async () => (await leading()) === 1);
    for (const epp of pickers) expect(await serves(epp)).toBe(true);
  });

  it("tell a picker of another identity, and stay apart from it", async () => {
    const [one] = started as [ClusterEpp];
    const stranger = await picker({ SLUICE_PEERS_SECRET: "another cluster's secret" });
    const refuses = async (epp: ClusterEpp): Promise<boolean> => (await peersOf(epp)).refused.cluster > 0;
    for (const epp of [one, stranger]) await poll("the others to be refused", () => refuses(epp));
    expect((await peersOf(stranger)).replicas).toEqual([]);
    expect((await peersOf(one)).replicas).toHaveLength(1);
    for (const epp of [one, stranger]) {
      await epp.process.until("a warning", () =>
        `${epp.process.stdout}${epp.process.stderr}`.includes("uses the same keys of the store"),
      );
      expect(await epp.metric('sluice_peers_refused_total{reason="cluster"}')).toBeGreaterThan(0);
      expect(await serves(epp)).toBe(true);
    }
  });

  it("forget at once the load of one that is told to end", async () => {
    const [one, two] = started as [ClusterEpp, ClusterEpp];
    await two.process.stop("SIGTERM");
    await poll("the other one to be gone", async () =>
      (await peersOf(one)).replicas.every(({ state, requests }) => state === "gone" && requests === 0),
    );
    expect(await serves(one)).toBe(true);
  });
});
