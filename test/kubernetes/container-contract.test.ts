import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { stringify } from "yaml";
import { type PolicyRule, startApiServer } from "../support/apiserver/index.ts";
import { CHART_VECTORS } from "../support/chart-vectors.ts";
import { CRDS, kubeconfigFile } from "../support/cluster.ts";
import { health, route } from "../support/epp-process.ts";
import { ExtProcClient } from "../support/extproc-client.ts";
import { poll } from "../support/poll.ts";
import { compiledBefore, PROGRAM, TestProcess } from "../support/process.ts";
import { portOf } from "../support/stack.ts";

const [SERVING, NOT_SERVING] = [1, 2];
const [X, GA, LLM_D] = ["inference.networking.x-k8s.io", "inference.networking.k8s.io", "llm-d.ai"];

/** What the charts of a generation let their picker do, and how their pools and configurations look. */
interface Generation {
  /** Of {@link CHART_VECTORS}. */
  readonly from: string;
  /** In the pool's namespace, or everywhere. */
  readonly rules: (namespace: string) => readonly PolicyRule[];
  /** undefined = there is no pool, and no kind of ours is installed. */
  readonly pool: "x" | "ga" | undefined;
  /** apiVersion of the configuration, where its vector has none. */
  readonly config?: string;
}

const READ = ["get", "watch", "list"];
const may = (group: string, resources: readonly string[], namespace?: string): PolicyRule => ({
  apiGroups: [group],
  resources,
  verbs: READ,
  ...(namespace !== undefined && { namespace }),
});
const REVIEWS: readonly PolicyRule[] = [
  { apiGroups: ["authentication.k8s.io"], resources: ["tokenreviews"], verbs: ["create"] },
  { apiGroups: ["authorization.k8s.io"], resources: ["subjectaccessreviews"], verbs: ["create"] },
];
const ELECTION = (namespace: string): readonly PolicyRule[] => [
  {
    apiGroups: ["coordination.k8s.io"],
    resources: ["leases"],
    verbs: ["get", "list", "watch", "create", "update", "patch", "delete"],
    namespace,
  },
  { apiGroups: [""], resources: ["events"], verbs: ["create", "patch"], namespace },
];
const V1_0 = (at: string): readonly PolicyRule[] => [
  may(X, ["inferenceobjectives", "inferencepools"], at),
  may(GA, ["inferencepools"], at),
  may("", ["pods"], at),
  ...REVIEWS,
];
const V1_5 = (at: string): readonly PolicyRule[] => [
  may(X, ["inferenceobjectives", "inferencemodelrewrites"], at),
  may(GA, ["inferencepools"], at),
  may("", ["pods"], at),
];
const ROUTER = (at: string): readonly PolicyRule[] => [
  ...V1_5(at),
  may(LLM_D, ["inferenceobjectives", "inferencemodelrewrites"], at),
];
const OLD_CONFIG = "inference.networking.x-k8s.io/v1alpha1";
const NEW_CONFIG = "llm-d.ai/v1alpha1";

const GENERATIONS: readonly Generation[] = [
  {
    from: "v0.3.0 inferencepool",
    // A ClusterRole then; the newer pool is not among what it allows.
    rules: () => [may(X, ["inferencemodels", "inferencepools"]), may("", ["pods"]), ...REVIEWS],
    pool: "x",
  },
  { from: "v1.0.0 inferencepool", rules: V1_0, pool: "ga", config: OLD_CONFIG },
  { from: "v1.0.0 inferencepool, triton-tensorrt-llm", rules: V1_0, pool: "x", config: OLD_CONFIG },
  { from: "v1.5.0 inferencepool", rules: V1_5, pool: "ga", config: OLD_CONFIG },
  { from: "v1.5.0 inferencepool, sglang", rules: V1_5, pool: "ga", config: OLD_CONFIG },
  { from: "v1.5.0 inferencepool, triton-tensorrt-llm", rules: V1_5, pool: "ga", config: OLD_CONFIG },
  { from: "v1.5.0 inferencepool, trtllm-serve", rules: V1_5, pool: "ga", config: OLD_CONFIG },
  {
    from: "v1.5.0 inferencepool, replicas=3, tracing, no metrics authentication, a map of flags",
    rules: (at) => [...V1_5(at), ...REVIEWS, ...ELECTION(at)],
    pool: "ga",
    config: OLD_CONFIG,
  },
  {
    from: "v1.5.0 standalone without a pool, trtllm-serve",
    rules: (at) => [may("", ["pods"], at)],
    pool: undefined,
    config: OLD_CONFIG,
  },
  {
    from: "v1.6.0 conformance manifests",
    rules: (at) => [may(GA, ["inferencepools"], at), may("", ["pods"], at)],
    pool: "ga",
  },
  { from: "llm-d-router-gateway", rules: ROUTER, pool: "ga", config: NEW_CONFIG },
  {
    from: "llm-d-router-gateway, replicas=2, health port, tracing, no metrics authentication, a map of flags",
    rules: (at) => [...ROUTER(at), ...ELECTION(at)],
    pool: "ga",
    config: NEW_CONFIG,
  },
  {
    from: "llm-d-router-standalone without a pool, agentgateway",
    rules: (at) => [may("", ["pods"], at)],
    pool: undefined,
    config: NEW_CONFIG,
  },
];

const TOKEN = "token-of-the-picker";
const SCRAPER = "token-of-prometheus";

/** A pod as the kubelet reports it once it is ready. */
const pod = (namespace: string) => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name: "vllm-0", namespace, labels: { app: "x" } },
  spec: { containers: [{ name: "vllm", image: "vllm" }] },
  status: { phase: "Running", podIP: "127.0.0.2", conditions: [{ type: "Ready", status: "True" }] },
});

function poolOf(kind: "x" | "ga", name: string, namespace: string) {
  const metadata = { name, namespace };
  return kind === "x"
    ? {
        apiVersion: `${X}/v1alpha2`,
        kind: "InferencePool",
        metadata,
        spec: { selector: { app: "x" }, targetPortNumber: 8000, extensionRef: { name: "pool-epp" } },
      }
    : {
        apiVersion: `${GA}/v1`,
        kind: "InferencePool",
        metadata,
        spec: {
          selector: { matchLabels: { app: "x" } },
          targetPorts: [{ number: 8000 }],
          appProtocol: "http",
          endpointPickerRef: { name: "pool-epp", port: { number: 9002 }, failureMode: "FailOpen" },
        },
      };
}

const CONFIG = (apiVersion: string): string =>
  stringify({
    apiVersion,
    kind: "EndpointPickerConfig",
    plugins: [{ type: "queue-scorer" }, { type: "kv-cache-utilization-scorer" }, { type: "prefix-cache-scorer" }],
    schedulingProfiles: [
      {
        name: "default",
        plugins: [
          { pluginRef: "queue-scorer", weight: 2 },
          { pluginRef: "kv-cache-utilization-scorer", weight: 2 },
          { pluginRef: "prefix-cache-scorer", weight: 3 },
        ],
      },
    ],
  });

const left: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of left.splice(0).reverse()) await each.close();
});

describe("the entry point with the arguments, the rights and the configuration of each generation (R-38, R-59, E-131)", () => {
  it.each(GENERATIONS)("$from", async ({ from, rules, pool, config }) => {
    const vector = CHART_VECTORS.find((each) => each.from === from)!;
    const { kubernetes, tls } = vector.settings as {
      kubernetes?: { namespace: string; members: { name?: string }; leaderElection?: boolean; metricsAuth?: boolean };
      tls?: { secureServing: boolean };
    };
    const namespace = kubernetes?.namespace ?? "inference-conformance-app-backend";
    const name = kubernetes === undefined ? "secondary-inference-pool" : kubernetes.members.name;
    const secure = tls?.secureServing ?? true;
    const allowed = rules(namespace);
    const api = await startApiServer({
      tls: true,
      users: {
        [TOKEN]: { name: `system:serviceaccount:${namespace}:pool-epp`, rules: allowed },
        [SCRAPER]: { name: "prometheus", rules: [{ nonResourceURLs: ["/metrics"], verbs: ["get"] }] },
      },
    });
    left.push(api);
    // All kinds are there, also those that this generation may not read.
    if (pool !== undefined) await api.installCrds(CRDS);
    await api.put(pod(namespace));

    const home = mkdtempSync(join(tmpdir(), "sluice-contract-"));
    mkdirSync(join(home, "config"));
    const rendered = vector.config ?? (config && CONFIG(config));
    if (rendered !== undefined) writeFileSync(join(home, "config", "default-plugins.yaml"), rendered);
    // Ports and the mounted folder are those of this machine; the rest is as rendered.
    const args = vector.args.map((word) => word.replace(/^\/config\//, `${home}/config/`));
    const ports = ["--bind-address=127.0.0.1", "--grpc-port=0", "--grpc-health-port=0", "--metrics-port=0"];
    const epp = new TestProcess(process.execPath, [PROGRAM, "epp", ...args, ...ports, "--drain-timeout=0s"], {
      cwd: "/",
      env: {
        PATH: process.env["PATH"],
        ...compiledBefore(),
        ...vector.env,
        OTEL_TRACES_EXPORTER: "none",
        // A service account has its own at a path that a test cannot have.
        KUBECONFIG: kubeconfigFile(api, TOKEN),
      },
    });
    left.push({ close: () => epp.stop() });
    const healthPort = portOf(await epp.listening("health"));
    const ask = async (service: string) => (await health(healthPort, service)).serving;

    const elected = kubernetes?.leaderElection === true;
    const probe = elected ? "readiness" : "inference-extension";
    if (pool !== undefined) {
      // Without its pool it is not ready; a replica that is to be elected is alive nevertheless.
      expect(await ask(probe)).toBe(NOT_SERVING);
      if (elected) expect(await ask("liveness")).toBe(SERVING);
      await api.put(poolOf(pool, name!, namespace));
    }
    await poll(`${probe} to be SERVING`, async () => (await ask(probe)) === SERVING);
    if (elected) expect(await ask("liveness")).toBe(SERVING);

    const client = await ExtProcClient.connect(portOf(await epp.listening("ext-proc")), { tls: secure });
    left.push({ close: async () => client.close() });
    await poll("the pod to be picked", async () => {
      const stream = client.open();
      try {
        return (await route(stream)) === "127.0.0.2:8000";
      } catch {
        return false;
      } finally {
        stream.reset();
      }
    });

    const scrape = async (token?: string): Promise<number> => {
      const url = `http://${await epp.listening("admin")}/metrics`;
      const answer = await fetch(url, token === undefined ? {} : { headers: { authorization: `Bearer ${token}` } });
      await answer.arrayBuffer();
      return answer.status;
    };
    const reviews = allowed.some(({ resources }) => resources?.includes("tokenreviews"));
    if (kubernetes?.metricsAuth === false) expect(await scrape()).toBe(200);
    // Charts from v1.5 on give no right to ask who somebody is unless Prometheus is switched on: then nobody may.
    else expect([await scrape(), await scrape(SCRAPER)]).toEqual([401, reviews ? 200 : 500]);

    await epp.stop("SIGTERM");
    expect(epp.exit).toEqual({ code: 0, signal: null });
  });
});
