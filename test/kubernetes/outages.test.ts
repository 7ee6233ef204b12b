import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { apiServerBinaries } from "../../scripts/test-parts.ts";
import { SeededRandom } from "../../src/base/clock/random.ts";
import { startApiServer, startStandIn, type TestApiServer } from "../support/apiserver/index.ts";
import {
  type ClusterEpp,
  CRDS,
  endpointsOnServer,
  expectServersEndpoints,
  kubeconfigFile,
  NAMESPACE,
  podNamed,
  poolOn,
  startClusterEpp,
} from "../support/cluster.ts";
import { type RunningEnvoy, startEnvoy } from "../support/envoy.ts";
import { health } from "../support/epp-process.ts";
import { ExtProcClient } from "../support/extproc-client.ts";
import { freePort, onFreePorts } from "../support/free-port.ts";
import { Load } from "../support/load.ts";
import { poll } from "../support/poll.ts";
import { sluice, type TestProcess } from "../support/process.ts";
import { portOf } from "../support/stack.ts";
import { type TcpProxy, tcpProxy } from "../support/tcp-proxy.ts";

const [SERVING, NOT_SERVING] = [1, 2];
const HEARD_AGE = 'sluice_kubernetes_heard_age_seconds{kind="pods"}';
const FAILURES = 'sluice_kubernetes_failures_total{kind="pods"}';
const LISTS = 'sluice_kubernetes_lists_total{kind="pods"}';
/** Milliseconds: refusals that ask for patience, and pauses of up to 5 s after failures. */
const RECOVERY = 60_000;
/** Addresses of pods that come and go. */
const ADDRESSES = 25;
const STAND_IN = apiServerBinaries() === undefined;

describe("what is between a picker and its API server fails (R-30)", () => {
  const random = new SeededRandom(7);
  let api: TestApiServer;
  let proxy: TcpProxy;
  /** Answers at whatever address of this machine, as long as the port is its. */
  let sim: { readonly process: TestProcess; readonly port: number };
  let epp: ClusterEpp;
  let envoy: RunningEnvoy;
  let load: Load;
  let made = 0;

  beforeAll(async () => {
    [api, sim] = await Promise.all([startApiServer(), onFreePorts(startSim)]);
    proxy = await tcpProxy(portOf(api.url));
    await api.installCrds(CRDS);
    await api.put(poolOn([port()]));
    for (const n of [2, 3]) await api.put(podNamed(`stable-${n}`, { address: `127.0.0.${n}` }));
    epp = await startClusterEpp({
      kubeconfig: kubeconfigFile(api, api.token, proxy.port),
      args: ["--health-checking"],
    });
    envoy = await startEnvoy({ variant: "standalone", eppPort: epp.port, serverPorts: [] });
    await agree();
    load = new Load(`http://127.0.0.1:${envoy.port}`, { strands: 1, pause: 20 });
    await answered(3);
  });
  afterAll(async () => {
    api?.resume();
    await load?.stop();
    for (const started of [envoy, epp, sim]) await started?.process.stop();
    await proxy?.close();
    await api?.close();
  });

  // After a watch that lasted for a second the next failure counts as the first one: no long pauses for what was before.
  beforeEach(async () => void (await poll("a good watch", async () => (await metric(HEARD_AGE)) > 1)));

  async function startSim(): Promise<typeof sim> {
    const port = await freePort();
    const process = sluice("sim", "--host", "0.0.0.0", "--port", `${port}`);
    try {
      await process.listening("sim");
    } catch (error) {
      await process.stop();
      throw error;
    }
    return { process, port };
  }

  const port = () => sim.port;

  /** The picker's endpoints become those that the server's pods amount to, and every request was answered all the time. */
  async function agree(): Promise<void> {
    await expectServersEndpoints(epp, api, [port()]);
    expect(load?.failed ?? []).toEqual([]);
  }

  /** So many more requests are answered. */
  async function answered(count: number): Promise<void> {
    const wanted = load.mark + count;
    await poll(`${count} more answers`, () => load.mark >= wanted);
    expect(load.failed).toEqual([]);
  }

  /**
   * Makes, changes and deletes pods. At all their addresses is the server, so that whatever a picker knows is a good choice; an
   * address is given out again after so many others, whether its pod is gone or not.
   */
  async function churn(changes = 20): Promise<void> {
    for (let i = 0; i < changes; i++) {
      const chance = random.next();
      // Of the last few only: older ones stay as they are.
      const chosen = chance < 0.5 ? ++made : made - random.below(Math.min(made, 8) + 1);
      const [name, address] = [`pod-${chosen}`, `127.1.0.${chosen % ADDRESSES}`];
      if (chance < 0.5) await api.put(podNamed(name, { address }));
      else if (chance < 0.65) await api.put(podNamed(name, { address, ready: false }));
      else if (chance < 0.8) await api.put(podNamed(name, { address, labels: { app: "other" } }));
      else await api.delete(`/api/v1/namespaces/${NAMESPACE}/pods/${name}`);
    }
  }

  const metric = async (name: string): Promise<number> => (await epp.metric(name)) ?? Number.NaN;
  /** Waits until there were more failures than so many. */
  const failed = (before: number) => poll("a failure", async () => (await metric(FAILURES)) > before);

  it("its connections are cut", async () => {
    await churn();
    await agree();
    const failures = await metric(FAILURES);
    proxy.cut();
    await churn();
    await agree();
    await failed(failures);
  });

  it("its answers end in the middle of a line", async () => {
    for (let round = 0; round < 3; round++) {
      const failures = await metric(FAILURES);
      // An event of a pod has about 1 KB.
      proxy.truncateAfter(1 + random.below(1500));
      await churn();
      await agree();
      await failed(failures);
    }
  });

  it("its answers are late, also those to new connections", async () => {
    proxy.delay(300);
    proxy.cut();
    await churn();
    await agree();
    proxy.delay(0);
  });

  it("its answers stall, and come after all", async () => {
    const before = await epp.endpoints();
    proxy.hold(true);
    await churn();
    expect(await endpointsOnServer(api, [port()])).not.toEqual(before);
    await answered(10);
    expect(await epp.endpoints()).toEqual(before);
    proxy.hold(false);
    await agree();
  });

  it("the API server does not answer any more, neither open watches nor new connections", async () => {
    const before = await epp.endpoints();
    api.pause();
    proxy.cut();
    await poll("an old picture", async () => (await metric(HEARD_AGE)) > 1);
    await answered(10);
    expect(await epp.endpoints()).toEqual(before);
    expect((await health(epp.healthPort, "readiness")).serving).toBe(SERVING);
    api.resume();
    await churn();
    await agree();
  });

  it("the API server is away for a while: the age of what is known grows, the picker stays ready; then it restarts", async () => {
    const failures = await metric(FAILURES);
    const before = await epp.endpoints();
    await api.down();
    // The stand-in takes changes also while nobody can connect.
    if (STAND_IN) await churn();
    await poll("an old picture", async () => (await metric(HEARD_AGE)) > 2);
    await answered(10);
    const age = await metric(HEARD_AGE);
    expect(await epp.endpoints()).toEqual(before);
    expect((await health(epp.healthPort, "readiness")).serving).toBe(SERVING);
    await failed(failures);
    await api.up();
    await churn();
    await agree();
    await poll("news", async () => {
      await churn(1);
      return (await metric(HEARD_AGE)) < age;
    });
    await agree();
  });

  if (STAND_IN)
    it.each([
      ["by an ERROR event", "event"],
      ["by the status", "http"],
    ] as const)("the versions it knows are forgotten, told %s (410): it lists anew", async (_, told) => {
      const lists = await metric(LISTS);
      await api.down();
      await churn();
      api.expire(told);
      await api.up();
      await agree();
      expect(await metric(LISTS)).toBeGreaterThan(lists);
    });

  if (STAND_IN)
    it("watches end, in order and not: it goes on where they ended, without a new list", async () => {
      const watches = api.log.filter(({ query }) => query["watch"] === "true").length;
      const lists = await metric(LISTS);
      for (const orderly of [true, false]) {
        api.dropWatches(orderly);
        await churn();
        await agree();
      }
      expect(api.log.filter(({ query }) => query["watch"] === "true").length).toBeGreaterThan(watches);
      expect(await metric(LISTS)).toBe(lists);
    });
});

describe("an API server that is not ready yet (R-24, R-30, E-130)", () => {
  const left: { close(): Promise<unknown> }[] = [];
  afterAll(async () => {
    for (const each of left.splice(0).reverse()) await each.close();
  });

  it("delays the start: the ports answer, health is NOT_SERVING and requests get 503, until the pool is known", async () => {
    const api = await startStandIn();
    left.push(api);
    await api.installCrds(CRDS);
    await api.put(poolOn([8000]));
    await api.put(podNamed("a"));
    await api.down();
    const epp = await startClusterEpp({ kubeconfig: kubeconfigFile(api) });
    left.push({ close: () => epp.process.stop() });
    const readiness = async () => (await health(epp.healthPort, "readiness")).serving;
    const client = await ExtProcClient.connect(epp.port);
    left.push({ close: async () => client.close() });
    const refused = async () => {
      const stream = client.open();
      stream.requestHeaders(
        [
          [":method", "GET"],
          [":path", "/v1/models"],
        ],
        true,
      );
      const reply = await stream.next();
      stream.reset();
      return reply?.immediateResponse?.status.code;
    };
    await poll("a failure", async () => (await epp.metric(FAILURES))! > 0);
    expect([await readiness(), await refused()]).toEqual([NOT_SERVING, 503]);
    expect((await health(epp.healthPort, "liveness")).serving).toBe(SERVING);

    // Then it has too much to do.
    const ofPods = ({ path }: { readonly path: string }) => path.endsWith("/pods");
    api.failNext(1, 503, 1, ofPods);
    // After the second one nothing is answered until we have looked.
    api.failNext(1, 429, 1, (request) => {
      const found = ofPods(request);
      if (found) api.pause();
      return found;
    });
    await api.up();
    const begun = performance.now();
    await poll("both refusals", () => api.log.filter(({ status }) => status === 503 || status === 429).length === 2);
    expect([await readiness(), await refused()]).toEqual([NOT_SERVING, 503]);
    api.resume();
    await poll("SERVING", async () => (await readiness()) === SERVING, RECOVERY);
    expect(await epp.endpoints()).toEqual([`${NAMESPACE}/a-rank-0 127.0.0.2:8000`]);
    expect(await refused()).toBeUndefined();
    // A second after each, as it was asked to wait.
    expect(performance.now() - begun).toBeGreaterThan(2000);
    expect(api.log.filter((request) => ofPods(request) && request.query["watch"] === undefined)).toHaveLength(3);
  });
});
