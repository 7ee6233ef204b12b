import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parseDocument } from "yaml";
import { startApiServer, type TestApiServer } from "../support/apiserver/index.ts";
import {
  type ClusterEpp,
  CRDS,
  endpointsOnServer,
  kubeconfigFile,
  NAMESPACE,
  POOL,
  podNamed,
  poolOn,
  startClusterEpp,
  startPodSims,
} from "../support/cluster.ts";
import { type EnvoyOptions, type RunningEnvoy, startEnvoy } from "../support/envoy.ts";
import { health } from "../support/epp-process.ts";
import { Load } from "../support/load.ts";
import { poll } from "../support/poll.ts";
import type { Sim } from "../support/stack.ts";

const [SERVING, NOT_SERVING] = [1, 2];
const LEASE = `/apis/coordination.k8s.io/v1/namespaces/${NAMESPACE}/leases/epp-${NAMESPACE}-${POOL}.llm-d.ai`;
/** Milliseconds: for so long a lease is left alone; longest time between two looks at it. */
const [LEASE_TIME, RETRY] = [15_000, 4400];
/** How much longer everything may take on a machine that is busy with other things. */
const NOISE = 1.5;

describe("two replicas that elect a leader, Envoy in front of both", () => {
  let api: TestApiServer;
  let kubeconfig: string;
  let sims: readonly (Sim & { readonly address: string })[] = [];
  const replicas: ClusterEpp[] = [];
  const envoys: RunningEnvoy[] = [];
  const loads: Load[] = [];

  beforeAll(async () => {
    [api, sims] = await Promise.all([startApiServer(), startPodSims(2)]);
    await api.installCrds(CRDS);
    kubeconfig = kubeconfigFile(api);
    await api.put(poolOn([sims[0]!.port]));
    for (const { address } of sims) await api.put(podNamed(`pod-${address.at(-1)}`, { address }));
    const first = await replica();
    await poll("a leader", async () => (await leading(first)) === 1);
    await replica();
  });
  afterAll(async () => {
    await Promise.all(loads.map((load) => load.stop()));
    for (const started of [...envoys, ...replicas, ...sims]) await started.process.stop();
    await api?.close();
  });

  async function replica(): Promise<ClusterEpp> {
    const epp = await startClusterEpp({
      kubeconfig,
      // Longer than any test: whoever drains can be looked at for as long as that takes.
      args: ["--ha-enable-leader-election", "--drain-timeout=1h"],
      env: { POD_NAME: `epp-${replicas.length}` },
    });
    replicas.push(epp);
    return epp;
  }

  /** Envoy with both replicas, of which it calls the one that is ready, as a Service would have it. */
  async function envoyBefore(options: Pick<EnvoyOptions, "variant" | "bootstrap">): Promise<RunningEnvoy> {
    const edit = (yaml: string): string => {
      const document = parseDocument(yaml);
      const hosts = replicas.map(({ port, healthPort }) => ({
        endpoint: {
          address: { socket_address: { address: "127.0.0.1", port_value: port } },
          health_check_config: { port_value: healthPort },
        },
      }));
      const path = ["static_resources", "clusters", 1, "load_assignment", "endpoints", 0, "lb_endpoints"];
      document.setIn(path, document.createNode(hosts));
      return document.toString();
    };
    const envoy = await startEnvoy({ eppPort: replicas[0]!.port, serverPorts: [], edit, ...options });
    envoys.push(envoy);
    return envoy;
  }

  const leading = async (epp: ClusterEpp): Promise<number> => (await epp.metric("sluice_kubernetes_leader"))!;
  const readiness = async ({ healthPort }: ClusterEpp) => (await health(healthPort, "readiness")).serving;
  const holder = async () => ((await api.get(LEASE))!["spec"] as { holderIdentity: string }).holderIdentity;
  const healthy = (envoy: RunningEnvoy) => envoy.stat("cluster.epp.membership_healthy");
  /** Milliseconds from `since` to the end of the last request that failed. */
  const trouble = ({ failed }: Load, since: number): number =>
    Math.max(0, ...failed.map(({ at, ms }) => at + ms - since));

  it("have one leader; the standby is populated and not ready (R-36, E-129)", async () => {
    const [first, second] = replicas as [ClusterEpp, ClusterEpp];
    expect(await holder()).toMatch(/^epp-0_/);
    const wanted = await endpointsOnServer(api, [sims[0]!.port]);
    expect(wanted).toHaveLength(2);
    for (const epp of replicas)
      await poll("the endpoints", async () => JSON.stringify(await epp.endpoints()) === JSON.stringify(wanted));
    await poll("the leader to be ready", async () => (await readiness(first)) === SERVING);
    expect([await leading(second), await readiness(second)]).toEqual([0, NOT_SERVING]);
    expect(await api.get(LEASE)).toMatchObject({
      spec: { leaseDurationSeconds: LEASE_TIME / 1000, leaseTransitions: 0 },
    });
  });

  it("survive the leader's SIGKILL with trouble only at the kill, fail-closed as well as fail-open, though the standby leads much later (R-36, V-6, D-37)", async () => {
    const [leader, standby] = replicas as [ClusterEpp, ClusterEpp];
    const closed = await envoyBefore({ variant: "standalone", bootstrap: {} });
    const endpoints = sims.map(({ address, port }) => ({ host: address, port }));
    const bootstrap = { endpoints, requestBodyMode: "full-duplex", failureMode: "FailOpen" } as const;
    const open = await envoyBefore({ variant: "override-host", bootstrap });
    for (const envoy of envoys) await poll("a healthy replica", async () => (await healthy(envoy)) === 1);
    for (const { port } of envoys) loads.push(new Load(`http://127.0.0.1:${port}`, { strands: 2, pause: 20 }));
    const [behindClosed, behindOpen] = loads as [Load, Load];
    await poll("traffic", () => loads.every((load) => load.mark > 30));
    expect([behindClosed.failed, behindOpen.failed]).toEqual([[], []]);

    const killed = performance.now();
    await leader.process.stop("SIGKILL");
    for (const envoy of [closed, open])
      await poll("the health check to notice", async () => (await healthy(envoy)) === 0);
    const noticed = performance.now() - killed;
    const left = Math.max(RETRY, NOISE * (LEASE_TIME + RETRY) - noticed);
    await poll("the standby to lead", async () => (await leading(standby)) === 1, left);
    const takenOver = performance.now() - killed;
    for (const envoy of [closed, open])
      await poll("the standby to be called", async () => (await healthy(envoy)) === 1);
    const called = performance.now();
    const back = () => loads.every((load) => load.seen.filter(({ at }) => at > called).length > 30);
    await poll("traffic by the standby", back);

    const [outage, lost] = [trouble(behindClosed, killed), trouble(behindOpen, killed)];
    const seconds = (ms: number): string => (ms / 1000).toFixed(1);
    process.stdout.write(
      `leader killed: Envoy noticed after ${seconds(noticed)} s, the standby led after ${seconds(takenOver)} s; ` +
        `fail-closed: outage of ${seconds(outage)} s, ${behindClosed.failed.length} of ${behindClosed.mark} requests failed; ` +
        `fail-open: failures for ${seconds(lost)} s, ${behindOpen.failed.length} of ${behindOpen.mark} requests failed\n`,
    );
    // Nobody is healthy until the standby leads: Envoy then asks every replica, and the standby answers.
    const over = Math.max(outage, lost);
    expect(over).toBeLessThan(takenOver / 2);
    // Whatever fails does so at once and with the configured status.
    expect(behindClosed.failed.filter(({ status }) => status !== 503)).toEqual([]);
    for (const { seen } of loads) {
      const served = seen.filter(({ at, status }) => status === 200 && at > killed + over && at < killed + takenOver);
      expect(served.length).toBeGreaterThan(3);
    }
    // Once it leads, all are answered again, the picker's choice included.
    expect([behindClosed, behindOpen].flatMap(({ failed }) => failed.filter(({ at }) => at > called))).toEqual([]);
    expect(await standby.metric('sluice_exchanges_total{outcome="complete"}')).toBeGreaterThan(30);
    expect(await holder()).toMatch(/^epp-1_/);
    expect(await api.get(LEASE)).toMatchObject({ spec: { leaseTransitions: 1 } });
  });

  it("change places when the leader is told to end: the other one leads from its next look at the lease on (R-36, R-37)", async () => {
    await Promise.all(loads.splice(0).map((load) => load.stop()));
    const leader = replicas[1]!;
    const standby = await replica();
    await poll("the endpoints of the new one", async () => (await standby.endpoints()).length === 2);
    expect([await leading(leader), await leading(standby)]).toEqual([1, 0]);
    leader.process.child.kill("SIGTERM");
    const told = performance.now();
    await poll("NOT_SERVING", async () => (await readiness(leader)) === NOT_SERVING);
    await poll("the new leader", async () => (await leading(standby)) === 1, LEASE_TIME);
    const took = (performance.now() - told) / 1000;
    process.stdout.write(`leader told to end: another one led after ${took.toFixed(1)} s\n`);
    expect(await readiness(standby)).toBe(SERVING);
    expect(await readiness(leader)).toBe(NOT_SERVING);
    expect(await holder()).toMatch(/^epp-2_/);
    leader.process.child.kill("SIGTERM");
    expect(await leader.process.ended(), "told twice").toEqual({ code: 1, signal: null });
  });
});
