import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type PolicyRule, startApiServer, type TestApiServer } from "../support/apiserver/index.ts";
import { ask } from "../support/client.ts";
import {
  type ClusterEpp,
  CRDS,
  kubeconfigFile,
  NAMESPACE,
  podNamed,
  poolOn,
  startClusterEpp,
} from "../support/cluster.ts";
import { health } from "../support/epp-process.ts";
import { poll } from "../support/poll.ts";

const SERVING = 1;
const READS: readonly PolicyRule[] = ["", "inference.networking.k8s.io"].map((group) => ({
  apiGroups: [group],
  resources: ["pods", "inferencepools"],
  verbs: ["get", "list", "watch"],
  namespace: NAMESPACE,
}));
const may = (...nonResourceURLs: string[]): readonly PolicyRule[] => [{ nonResourceURLs, verbs: ["get"] }];
const USERS = {
  ours: {
    name: "system:serviceaccount:inference:pool-epp",
    rules: [
      ...READS,
      { apiGroups: ["authentication.k8s.io"], resources: ["tokenreviews"], verbs: ["create"] },
      { apiGroups: ["authorization.k8s.io"], resources: ["subjectaccessreviews"], verbs: ["create"] },
    ],
  },
  prometheus: { name: "prometheus", rules: may("/metrics") },
  grafana: { name: "grafana", rules: may("/metrics") },
  operator: { name: "operator", rules: may("/metrics", "/debug/*") },
  nobody: { name: "nobody" },
};

describe("the metrics port of a picker in a cluster (E-127, R-60)", () => {
  let api: TestApiServer;
  let epp: ClusterEpp;
  let open: ClusterEpp;
  beforeAll(async () => {
    api = await startApiServer({ users: USERS });
    await api.installCrds(CRDS);
    await api.put(poolOn([8000]));
    await api.put(podNamed("a"));
    const kubeconfig = kubeconfigFile(api, "ours");
    [epp, open] = await Promise.all([
      startClusterEpp({ kubeconfig, args: ["--metrics-endpoint-auth=true"] }),
      startClusterEpp({ kubeconfig }),
    ]);
    for (const { healthPort } of [epp, open])
      await poll("SERVING", async () => (await health(healthPort, "")).serving === SERVING);
  });
  afterAll(async () => {
    await epp?.process.stop();
    await open?.process.stop();
    await api?.close();
  });

  const get = async ({ adminUrl }: ClusterEpp, path: string, token?: string) => {
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
    return ask(`${adminUrl}${path}`, { headers });
  };

  it.each([
    ["/metrics", undefined, 401, "Unauthorized"],
    ["/metrics", "forged", 401, "Unauthorized"],
    ["/metrics", "nobody", 403, "Authorization denied for user nobody"],
    ["/metrics", "prometheus", 200, 'llm_d_epp_ready_endpoints{name="pool"}'],
    ["/metrics", "operator", 200, 'llm_d_epp_ready_endpoints{name="pool"}'],
    ["/debug/endpoints", undefined, 401, "Unauthorized"],
    ["/debug/endpoints", "prometheus", 403, "Authorization denied for user prometheus"],
    ["/debug/endpoints", "operator", 200, `"id":"${NAMESPACE}/a-rank-0"`],
    ["/healthz", undefined, 200, "ok"],
    ["/ready", undefined, 200, "ready"],
  ])("%s with the token %s: %i %s", async (path, token, status, text) => {
    const answer = await get(epp, path, token);
    expect([answer.status, answer.text]).toEqual([status, expect.stringContaining(text)]);
  });

  it("may be opened to all", async () => {
    expect((await get(open, "/metrics")).status).toBe(200);
    expect((await get(open, "/debug/endpoints")).status).toBe(200);
  });

  it("goes on answering for a while whom it knows when the API server is gone, and nobody else", async () => {
    // Whom it has not asked about before: an answer counts for a minute.
    expect((await get(epp, "/metrics", "grafana")).status).toBe(200);
    await api.down();
    expect((await get(epp, "/metrics", "grafana")).status).toBe(200);
    const other = await get(epp, "/metrics", "somebody");
    expect([other.status, other.text]).toEqual([500, expect.stringContaining("Authentication failed")]);
    expect((await get(open, "/metrics")).status).toBe(200);
    await api.up();
    expect((await get(epp, "/metrics", "somebody")).status).toBe(401);
  });
});
