import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { render } from "../../base/telemetry/exposition.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import { createMetrics } from "../../base/telemetry/names.ts";
import { MetricsRegistry } from "../../base/telemetry/registry.ts";
import type { FollowedKind } from "./cluster-state.ts";
import { KubernetesPool, showCluster } from "./kubernetes-pool.ts";

let folder = "";
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-access-"));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

async function fileFor(host: string): Promise<string> {
  const path = join(folder, host);
  const cluster = { name: "c", cluster: { server: `https://${host}:6443` } };
  const context = { name: "x", context: { cluster: "c", user: "" } };
  await writeFile(path, JSON.stringify({ "current-context": "x", clusters: [cluster], contexts: [context] }));
  return path;
}

/** The API server that a picker finds. */
async function found(env: Readonly<Record<string, string>>, kubeconfig?: string): Promise<unknown> {
  let server: unknown;
  const log: Logger = {
    debug() {},
    info: (fields) => {
      server = (fields as { server?: unknown }).server;
    },
    warn() {},
    error() {},
    child: () => log,
  };
  const settings = {
    namespace: "ns",
    members: { kind: "pool", name: "pool", group: undefined },
    ...{ kubeconfig, leaderElection: false, metricsAuth: false, writeModelStatus: false },
  } as const;
  const clock = new VirtualClock();
  const pool = await KubernetesPool.connect({
    ...{ settings, objectives: [], env, clock, random: new SeededRandom(1), log },
  });
  await pool.close();
  return server;
}

describe("where a picker finds the API server", () => {
  const POD = { KUBERNETES_SERVICE_HOST: "10.96.0.1", KUBERNETES_SERVICE_PORT: "443" };

  it("is what the flag says, else KUBECONFIG, also in a pod", async () => {
    const [flag, variable] = [await fileFor("flag"), await fileFor("variable")];
    expect(await found({ ...POD, KUBECONFIG: variable }, flag)).toBe("https://flag:6443");
    expect(await found({ ...POD, KUBECONFIG: variable })).toBe("https://variable:6443");
  });

  it("is that of the pod's cluster otherwise, and a pod without a service account is told what to set", async () => {
    for (const env of [POD, { ...POD, KUBECONFIG: "" }])
      await expect(found(env)).rejects.toMatchObject({
        code: "IN_CLUSTER_ACCOUNT",
        message: expect.stringContaining("set automountServiceAccountToken: true"),
      });
  });

  it("is nowhere outside of a cluster without a file", async () => {
    await expect(found({})).rejects.toMatchObject({
      code: "KUBERNETES_ACCESS",
      message: expect.stringContaining("name a kubeconfig file with --kubeconfig or KUBECONFIG"),
    });
  });
});

const followed = (name: string, state: Partial<FollowedKind["state"]> = {}): FollowedKind => ({
  name,
  state: {
    ...{ synced: true, absent: false, kept: false, heardAt: Number.NEGATIVE_INFINITY, objects: 0 },
    ...{ lists: 0, watches: 0, failures: 0, problem: "" },
    ...state,
  },
});

/** A page that shows what `kinds` returns at the moment. */
function page(kinds: () => FollowedKind[], clock: VirtualClock, election?: { leading: boolean }) {
  const registry = new MetricsRegistry();
  const stop = showCluster({ registry, metrics: createMetrics(registry) }, { kinds }, clock, election);
  return { stop, lines: () => [...render(registry).matchAll(/^(sluice_kubernetes_.*)$/gm)].map(([, line]) => line) };
}

describe("how up to date the picture of the cluster is", () => {
  it("is the age of the API server's last word, with what is known and how often it went wrong", () => {
    const clock = new VirtualClock();
    let pods = followed("pods", { heardAt: 500, objects: 7, lists: 1 });
    const { lines, stop } = page(() => [pods], clock);
    clock.advance(2000);
    expect(lines()).toEqual([
      'sluice_kubernetes_heard_age_seconds{kind="pods"} 1.5',
      'sluice_kubernetes_objects{kind="pods"} 7',
      'sluice_kubernetes_lists_total{kind="pods"} 1',
      'sluice_kubernetes_failures_total{kind="pods"} 0',
    ]);
    pods = followed("pods", { heardAt: 500, objects: 7, lists: 3, failures: 2 });
    clock.advance(60_000);
    const later = lines();
    expect(later).toContain('sluice_kubernetes_heard_age_seconds{kind="pods"} 61.5');
    expect(later).toContain('sluice_kubernetes_lists_total{kind="pods"} 3');
    expect(later).toContain('sluice_kubernetes_failures_total{kind="pods"} 2');
    stop();
    clock.advance(1000);
    expect(lines()).toEqual(later);
  });

  it("rises from the start while the API server was never heard of", () => {
    const clock = new VirtualClock();
    clock.advance(90_000);
    const { lines } = page(() => [followed("pods", { synced: false })], clock);
    clock.advance(5000);
    expect(lines()).toContain('sluice_kubernetes_heard_age_seconds{kind="pods"} 5');
  });

  it("is none of a kind that is not there, until it is", () => {
    const clock = new VirtualClock();
    let absent = true;
    const { lines } = page(() => [followed("inferencemodels.x", { absent, heardAt: 0 })], clock);
    const age = 'sluice_kubernetes_heard_age_seconds{kind="inferencemodels.x"} 0';
    expect(lines()).not.toContain(age);
    absent = false;
    expect(lines()).toContain(age);
    absent = true;
    expect(lines()).not.toContain(age);
  });

  it.each([1, 0])("rises while a kind may not be read any more of which %d objects still count", (objects) => {
    const clock = new VirtualClock();
    const state = { absent: true, kept: true, heardAt: 0, objects };
    const { lines } = page(() => [followed("inferencepools.x", state)], clock);
    clock.advance(300_000);
    expect(lines()).toContain('sluice_kubernetes_heard_age_seconds{kind="inferencepools.x"} 300');
  });
});

describe("who leads", () => {
  it("is shown where there is an election, and not at all otherwise", () => {
    const clock = new VirtualClock();
    expect(page(() => [], clock).lines()).toEqual([]);
    const election = { leading: false };
    const { lines } = page(() => [], clock, election);
    expect(lines()).toEqual(["sluice_kubernetes_leader 0"]);
    election.leading = true;
    expect(lines()).toEqual(["sluice_kubernetes_leader 1"]);
  });
});
