import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type PolicyRule, startApiServer, type TestApiServer } from "../support/apiserver/index.ts";
import {
  type ClusterEpp,
  clusterEpp,
  kubeconfigFile,
  NAMESPACE,
  podNamed,
  startClusterEpp,
} from "../support/cluster.ts";
import { health, route } from "../support/epp-process.ts";
import { ExtProcClient } from "../support/extproc-client.ts";
import { poll } from "../support/poll.ts";

const SERVING = 1;
const TOKEN = "token-of-the-picker";
const READ = ["get", "list", "watch"];
/** Nothing of ours is installed, and nothing but this may be read. */
const RULES: readonly PolicyRule[] = [
  { apiGroups: [""], resources: ["pods"], verbs: READ, namespace: NAMESPACE },
  {
    apiGroups: ["coordination.k8s.io"],
    resources: ["leases"],
    verbs: [...READ, "create", "update", "patch", "delete"],
    namespace: NAMESPACE,
  },
];
const SOURCE = ["--endpoint-selector", "app in (vllm, sglang), !canary", "--endpoint-target-ports", "8000,8001,8000"];
const ENV = { POD_NAME: "pool-epp-6d5f7c9b8-x2x1z", NAMESPACE };

describe("a picker with a label selector in the place of a pool (R-39)", () => {
  let api: TestApiServer;
  let kubeconfig: string;
  let epp: ClusterEpp | undefined;
  beforeAll(async () => {
    api = await startApiServer({ users: { [TOKEN]: { name: "picker", rules: RULES } } });
    kubeconfig = kubeconfigFile(api, TOKEN);
  });
  afterAll(async () => {
    await epp?.process.stop();
    await api?.close();
  });

  it("takes the pods that match, one endpoint per port, and is ready without any (R-22, R-26, R-27, R-36)", async () => {
    await api.put({ apiVersion: "v1", kind: "Namespace", metadata: { name: NAMESPACE } });
    epp = await startClusterEpp({ kubeconfig, source: SOURCE, env: ENV, args: ["--ha-enable-leader-election"] });
    const { healthPort, port, endpoints } = epp;
    const readiness = async () => (await health(healthPort, "readiness")).serving;
    await poll("readiness", async () => (await readiness()) === SERVING);
    expect(await endpoints()).toEqual([]);
    // In the place of the pool's name there is the Deployment's.
    const lease = `/apis/coordination.k8s.io/v1/namespaces/${NAMESPACE}/leases/epp-${NAMESPACE}-pool-epp.llm-d.ai`;
    expect(await api.get(lease)).toMatchObject({
      spec: { holderIdentity: expect.stringMatching(/^pool-epp-6d5f7c9b8-x2x1z_/) },
    });

    await api.put(podNamed("a", { labels: { app: "vllm" } }));
    await api.put(
      podNamed("b", {
        labels: { app: "sglang" },
        annotations: { "llm-d.ai/active-ports": "8001" },
        address: "127.0.0.3",
      }),
    );
    await api.put(podNamed("c", { labels: { app: "vllm", canary: "" } }));
    await api.put(podNamed("d", { labels: { app: "other" } }));
    await api.put(podNamed("e", { labels: { app: "vllm" }, ready: false }));
    await api.put(podNamed("f", { labels: { app: "vllm" }, namespace: "elsewhere" }));
    const becomes = async (wanted: readonly string[]) => {
      const full = wanted.map((each) => `${NAMESPACE}/${each}`);
      await poll("the endpoints", async () => JSON.stringify(await endpoints()) === JSON.stringify(full)).catch(
        async () => expect(await endpoints()).toEqual(full),
      );
    };
    const [a0, a1] = ["a-rank-0 127.0.0.2:8000", "a-rank-1 127.0.0.2:8001"];
    await becomes([a0!, a1!, "b-rank-1 127.0.0.3:8001"]);
    await api.put(podNamed("b", { labels: { app: "sglang" }, address: "127.0.0.3" }));
    await api.put(podNamed("e", { labels: { app: "vllm" }, address: "127.0.0.4" }));
    await api.put(podNamed("a", { labels: { app: "vllm", canary: "yes" } }));
    await becomes([
      ...["b-rank-0 127.0.0.3:8000", "b-rank-1 127.0.0.3:8001"],
      ...["e-rank-0 127.0.0.4:8000", "e-rank-1 127.0.0.4:8001"],
    ]);
    const client = await ExtProcClient.connect(port);
    expect(await route(client.open())).toMatch(/^127\.0\.0\.[34]:800[01]$/);
    client.close();
    for (const name of ["b", "e"]) await api.delete(podNamed(name));
    await becomes([]);
    expect(await readiness()).toBe(SERVING);
    if (!api.real) {
      const kinds = new Set(
        api.log.filter(({ user }) => user === "picker").map(({ path }) => path.split("/").slice(0, 7).join("/")),
      );
      expect([...kinds].sort()).toEqual([
        `/api/v1/namespaces/${NAMESPACE}/pods`,
        `/apis/coordination.k8s.io/v1/namespaces/${NAMESPACE}/leases`,
      ]);
    }
  });

  it.each([
    ["is not set", {}],
    ['is "pool-epp" but must have the form NAME-HASH-HASH', { POD_NAME: "pool-epp" }],
  ])("does not start where POD_NAME %s", async (says, env) => {
    const process = clusterEpp({ kubeconfig, source: SOURCE, env });
    expect(await process.ended()).toMatchObject({ signal: null, code: expect.toSatisfy((code) => code > 0) });
    expect(process.stderr).toContain(`POD_NAME, which ${says}`);
  });
});
