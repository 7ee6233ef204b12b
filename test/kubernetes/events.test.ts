import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { type PolicyRule, startApiServer, type TestApiServer } from "../support/apiserver/index.ts";
import { CRDS, kubeconfigFile, NAMESPACE, POOL, podNamed, startClusterEpp } from "../support/cluster.ts";
import { route } from "../support/epp-process.ts";
import { ExtProcClient } from "../support/extproc-client.ts";
import { poll } from "../support/poll.ts";
import { ROOT } from "../support/process.ts";
import { objectsOf, one } from "../support/rendered.ts";

const X = "inference.networking.x-k8s.io";
const MODEL = `/apis/${X}/v1alpha2/namespaces/${NAMESPACE}/inferencemodels/chat`;
const EVENTS = `/api/v1/namespaces/${NAMESPACE}/events`;

/** What our own manifests let the picker do, and what the charts of v0.3 do, which know InferenceModels and no events. */
const OURS: readonly PolicyRule[] = one(
  objectsOf(readFileSync(join(ROOT, "deploy", "manifests", "rbac.yaml"), "utf8")),
  "Role",
)["rules"].map((rule: PolicyRule) => ({ ...rule, namespace: NAMESPACE }));
const READ = ["get", "watch", "list"];
const PUBLISHED: readonly PolicyRule[] = [
  { apiGroups: [X], resources: ["inferencemodels", "inferencepools"], verbs: READ },
  { apiGroups: [""], resources: ["pods"], verbs: READ },
];

interface ShownEvent {
  readonly type: string;
  readonly reason: string;
  readonly message: string;
  readonly count: number;
  readonly involvedObject: { readonly kind: string; readonly name: string; readonly uid: string };
}

describe("a model server that answers 404 to the target of an InferenceModel", () => {
  let api: TestApiServer;
  const left: { close(): Promise<unknown> }[] = [];
  beforeAll(async () => {
    api = await startApiServer({
      users: { ours: { name: "ours", rules: OURS }, published: { name: "published", rules: PUBLISHED } },
    });
    await api.installCrds(CRDS);
    await api.put({
      apiVersion: `${X}/v1alpha2`,
      kind: "InferencePool",
      metadata: { name: POOL, namespace: NAMESPACE },
      spec: { selector: { app: "vllm" }, targetPortNumber: 8000, extensionRef: { name: "pool-epp" } },
    });
    await api.put({
      apiVersion: `${X}/v1alpha2`,
      kind: "InferenceModel",
      metadata: { name: "chat", namespace: NAMESPACE },
      spec: { modelName: "sim", poolRef: { name: POOL }, targetModels: [{ name: "sim-v2", weight: 1 }] },
    });
    await api.put(podNamed("a"));
  });
  afterEach(async () => {
    for (const each of left.splice(0).reverse()) await each.close();
  });
  afterAll(() => api?.close());

  const events = async (): Promise<readonly ShownEvent[]> =>
    ((await api.request("GET", EVENTS)).body as { items: readonly ShownEvent[] }).items;

  /** A picker with these rights; returns its log, and what sends a request that is answered with 404. */
  async function picker(token: string) {
    const epp = await startClusterEpp({ kubeconfig: kubeconfigFile(api, token) });
    left.push({ close: () => epp.process.stop() });
    await poll(
      "the model",
      async () => (await epp.metric(`sluice_kubernetes_objects{kind="inferencemodels.${X}"}`)) === 1,
    );
    await poll("the endpoint", async () => (await epp.endpoints()).length === 1);
    const client = await ExtProcClient.connect(epp.port);
    left.push({ close: async () => client.close() });
    const ask = async (): Promise<void> => {
      const stream = client.open();
      await route(stream);
      stream.responseHeaders([[":status", "404"]], true);
      expect((await stream.next())?.responseHeaders).toBeDefined();
      stream.reset();
    };
    return { ask, lines: (text: string) => epp.process.stderr.split("\n").filter((line) => line.includes(text)) };
  }

  it("costs one line where no right to write events was granted, as the published charts grant none (R-38)", async () => {
    const { ask, lines } = await picker("published");
    for (let i = 0; i < 5; i++) await ask();
    await poll("the word", () => lines("Sluice cannot write Kubernetes events").length > 0);
    expect(lines("Sluice cannot write Kubernetes events")).toHaveLength(1);
    expect(lines("Sluice cannot write Kubernetes events")[0]).toMatch(
      /give .* a Role with create on events in namespace inference/,
    );
    expect(await events()).toEqual([]);
  });

  it("becomes a Warning on that object with the rights of our manifests, one however often it happens (R-38)", async () => {
    const { ask, lines } = await picker("ours");
    for (let i = 0; i < 5; i++) await ask();
    const event = await poll("the event", async () => (await events())[0]);
    expect(event).toMatchObject({
      ...{ type: "Warning", reason: "TargetModelNotFound", count: 1 },
      message: expect.stringContaining('answered 404 to a request for target model "sim-v2"'),
      involvedObject: { kind: "InferenceModel", name: "chat", uid: (await api.get(MODEL))?.metadata.uid },
    });
    await ask();
    expect(await events()).toHaveLength(1);
    expect(lines("Kubernetes event")).toEqual([]);
    expect(lines("forbidden")).toEqual([]);
  });
});
