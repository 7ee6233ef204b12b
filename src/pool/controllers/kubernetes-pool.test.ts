import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import { KubernetesPool } from "./kubernetes-pool.ts";

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
      message: expect.stringContaining("name a file with --kubeconfig or KUBECONFIG"),
    });
  });
});
