import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { EXT_PROC_SERVICE } from "../../src/base/grpc/health.ts";
import { startApiServer, type TestApiServer } from "../support/apiserver/index.ts";
import { ask } from "../support/client.ts";
import {
  type ClusterEpp,
  CRDS,
  kubeconfigFile,
  NAMESPACE,
  POOL,
  podNamed,
  poolOn,
  startClusterEpp,
} from "../support/cluster.ts";
import { finish, health, route } from "../support/epp-process.ts";
import { ExtProcClient } from "../support/extproc-client.ts";
import { GrpcClient } from "../support/grpc-client.ts";
import { poll } from "../support/poll.ts";

const [SERVING, NOT_SERVING, UNKNOWN] = [1, 2, 3];
const UNIMPLEMENTED = 12;
const POOL_PATH = `/apis/inference.networking.k8s.io/v1/namespaces/${NAMESPACE}/inferencepools/${POOL}`;

let api: TestApiServer;
let kubeconfig: string;
const left: { close(): Promise<unknown> }[] = [];
beforeAll(async () => {
  api = await startApiServer();
  await api.installCrds(CRDS);
  await api.put(podNamed("a"));
  kubeconfig = kubeconfigFile(api);
});
afterEach(async () => {
  for (const each of left.splice(0).reverse()) await each.close();
  await api.delete(POOL_PATH);
});
afterAll(() => api?.close());

async function started(...args: string[]): Promise<ClusterEpp> {
  const epp = await startClusterEpp({ kubeconfig, args });
  left.push({ close: () => epp.process.stop() });
  return epp;
}

async function clientOf({ port }: ClusterEpp): Promise<ExtProcClient> {
  const client = await ExtProcClient.connect(port);
  left.push({ close: async () => client.close() });
  return client;
}

/** What the health port answers to each name of api-resources 3.6; gRPC itself is always content. */
async function answers(epp: ClusterEpp): Promise<Record<string, number | undefined>> {
  const names = ["liveness", "readiness", "", EXT_PROC_SERVICE, "inference-extension", "anything"];
  const all = names.map(async (name) => {
    const { serving, grpc } = await health(epp.healthPort, name);
    expect(grpc).toBe(0);
    return [name, serving] as const;
  });
  return Object.fromEntries(await Promise.all(all));
}

/** A row of the table of api-resources 3.6, `liveness` as decided. */
const row = (ready: number, others = ready) => ({
  liveness: SERVING,
  readiness: ready,
  "": ready,
  [EXT_PROC_SERVICE]: ready,
  "inference-extension": others,
  anything: others,
});

async function becomes(epp: ClusterEpp, wanted: object): Promise<void> {
  let last: object = {};
  const matches = async () => {
    last = await answers(epp);
    return JSON.stringify(last) === JSON.stringify(wanted);
  };
  await poll("the answers of the health port", matches, 30_000).catch(() => expect(last).toEqual(wanted));
}

/** Waits for a line of the log: what was logged before an answer may arrive after it. */
const said = (epp: ClusterEpp, text: string) => poll(text, () => epp.process.stderr.includes(text));

/** The status that a request without a body is refused with; undefined where it is routed. */
async function refusal(client: ExtProcClient): Promise<number | undefined> {
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
}

/** The names that `List` has. */
async function listed({ healthPort }: ClusterEpp): Promise<readonly string[]> {
  const client = await GrpcClient.connect(healthPort);
  try {
    const { reply } = await client.unary("/grpc.health.v1.Health/List", Buffer.alloc(0));
    const names: string[] = [];
    // Entries of a map: tag, length, then key (tag, length, bytes) and value.
    for (let at = 0; at < reply!.length; at += 2 + reply![at + 1]!)
      names.push(reply!.subarray(at + 4, at + 4 + reply![at + 3]!).toString());
    return names.sort();
  } finally {
    client.close();
  }
}

describe("the health port without election (R-34, E-123, E-124)", () => {
  it("follows the pool: not there, there, gone, back, being deleted; requests get 503 meanwhile (E-130, R-25)", async () => {
    const epp = await started();
    const client = await clientOf(epp);
    expect(await answers(epp)).toEqual(row(NOT_SERVING));
    expect(await refusal(client)).toBe(503);
    expect(await listed(epp)).toEqual([EXT_PROC_SERVICE]);
    expect(await health(epp.healthPort, "", "Watch")).toEqual({ serving: undefined, grpc: UNIMPLEMENTED });

    await api.put(poolOn([8000]));
    await becomes(epp, row(SERVING));
    expect(await refusal(client)).toBeUndefined();
    expect(await epp.endpoints()).toHaveLength(1);

    await api.delete(POOL_PATH);
    await becomes(epp, row(NOT_SERVING));
    expect(await refusal(client)).toBe(503);
    expect(await epp.endpoints()).toEqual([]);

    const held = poolOn([8001]);
    await api.put({ ...held, metadata: { ...held.metadata, finalizers: ["example.com/hold"] } });
    await becomes(epp, row(SERVING));
    expect(await epp.endpoints()).toEqual([`${NAMESPACE}/a-rank-0 127.0.0.2:8001`]);

    // Somebody holds it, and yet it goes.
    await api.delete(POOL_PATH);
    expect((await api.get(POOL_PATH))?.metadata.deletionTimestamp).toBeDefined();
    await becomes(epp, row(NOT_SERVING));
    expect(await epp.endpoints()).toEqual([]);
    const released = [{ op: "remove", path: "/metadata/finalizers" }];
    await api.request("PATCH", POOL_PATH, released, { contentType: "application/json-patch+json" });
    await api.put(poolOn([8000]));
    await becomes(epp, row(SERVING));
  });

  it("is NOT_SERVING at once on SIGTERM; running and new streams are served for the drain time (R-37, E-128)", async () => {
    await api.put(poolOn([8000]));
    // One drains for longer than any test, so that there is time to look; another one shows how a drain ends.
    const [epp, brief] = await Promise.all([
      started("--drain-timeout=1h", "--health-checking"),
      started("--drain-timeout=1s"),
    ]);
    await becomes(brief, row(SERVING));
    brief.process.child.kill("SIGTERM");
    await becomes(epp, row(SERVING));
    const client = await clientOf(epp);
    const running = client.open();
    await route(running);
    epp.process.child.kill("SIGTERM");
    await becomes(epp, row(NOT_SERVING));
    expect((await health(epp.port, EXT_PROC_SERVICE)).serving).toBe(NOT_SERVING);
    const late = await clientOf(epp);
    for (const each of [client, late]) {
      const stream = each.open();
      expect(await route(stream)).toBe("127.0.0.2:8000");
      await finish(stream);
    }
    // Pods are followed to the end.
    await api.put(podNamed("late", { address: "127.0.0.3" }));
    await poll("the pod that came late", async () => (await epp.endpoints()).length === 2);
    await api.delete(podNamed("late"));
    await finish(running);
    expect(epp.process.exit).toBeUndefined();
    client.close();
    late.close();
    expect(await brief.process.ended()).toEqual({ code: 0, signal: null });
    epp.process.child.kill("SIGTERM");
    expect(await epp.process.ended(), "told twice").toEqual({ code: 1, signal: null });
  });

  it("is NOT_SERVING while a parser cannot be used with the pool's appProtocol, and says which (R-35)", async () => {
    const config = join(mkdtempSync(join(tmpdir(), "sluice-protocol-")), "config.yaml");
    writeFileSync(
      config,
      `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins: [{ type: vllmgrpc-parser }]
requestHandler: { parsers: [{ pluginRef: vllmgrpc-parser }] }
`,
    );
    await api.put(poolOn([8000], { appProtocol: "http" }));
    const epp = await started("--config-file", config);
    await poll("the endpoint", async () => (await epp.endpoints()).length === 1);
    expect(await answers(epp)).toEqual(row(NOT_SERVING));
    await said(epp, "not ready: the parser vllmgrpc-parser cannot be used with the pool's appProtocol http");
    await api.put(poolOn([8000], { appProtocol: "kubernetes.io/h2c" }));
    await becomes(epp, row(SERVING));
    // A pool of v1alpha2 does not say how its servers speak.
    await api.delete(POOL_PATH);
    await becomes(epp, row(NOT_SERVING));
    const older = {
      apiVersion: "inference.networking.x-k8s.io/v1alpha2",
      kind: "InferencePool",
      metadata: { name: POOL, namespace: NAMESPACE },
      spec: { selector: { app: "vllm" }, targetPortNumber: 8000, extensionRef: { name: "pool-epp" } },
    };
    await api.put(older);
    await becomes(epp, row(SERVING));
    await api.delete(older);
  });
});

describe("a plugin that can tell whether it is ready (R-34)", () => {
  /** Loads its table when the file is there, and fails to look while that is a folder. */
  const MODULE = `import { readFileSync, existsSync } from "node:fs";
import { defineScorer } from "sluice/plugin";
const table = new URL("./table", import.meta.url);
export default defineScorer({
  type: "table-scorer",
  describe: "Needs a table.",
  create: () => ({
    score: ({ candidates, out }) => void out.fill(1, 0, candidates.count),
    ready: () => existsSync(table) && readFileSync(table, "utf8") !== "",
  }),
});
`;

  it.each([
    ["without election", [], SERVING],
    ["with election", ["--ha-enable-leader-election"], UNKNOWN],
  ] as const)(
    "keeps the picker from being ready %s until it is, not from being alive nor from serving",
    async (_, flags, others) => {
      const folder = mkdtempSync(join(tmpdir(), "sluice-ready-"));
      writeFileSync(join(folder, "table.mjs"), MODULE);
      writeFileSync(
        join(folder, "config.yaml"),
        `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins: [{ type: table-scorer, module: ./table.mjs }]
schedulingProfiles: [{ name: default, plugins: [{ pluginRef: table-scorer }] }]
`,
      );
      await api.put(poolOn([8000]));
      const epp = await started("--config-file", join(folder, "config.yaml"), ...flags);
      await poll("the endpoint", async () => (await epp.endpoints()).length === 1);
      if (flags.length > 0) await poll("a leader", async () => (await epp.metric("sluice_kubernetes_leader")) === 1);
      const page = async () => (await ask(`${epp.adminUrl}/ready`)).status;
      await becomes(epp, row(NOT_SERVING, others));
      const stream = (await clientOf(epp)).open();
      expect([await page(), await route(stream)]).toEqual([503, "127.0.0.2:8000"]);
      await finish(stream);
      await said(epp, "not ready: the plugin table-scorer is not ready yet");

      mkdirSync(join(folder, "table"));
      expect(await answers(epp)).toEqual(row(NOT_SERVING, others));
      await said(epp, "not ready: the plugin table-scorer is not ready yet: EISDIR");
      rmSync(join(folder, "table"), { recursive: true });
      writeFileSync(join(folder, "table"), "full");
      expect(await answers(epp)).toEqual(row(SERVING, others));
      expect(await page()).toBe(200);
      await said(epp, "all plugins are ready");
      // Whoever is told to end gives the lease back to those that come after.
      epp.process.child.kill("SIGTERM");
      expect(await epp.process.ended()).toEqual({ code: 0, signal: null });
    },
  );
});

describe("the health port with election (R-34, E-123, E-124, E-129)", () => {
  it("knows its names and no others; only the leader is ready, and only with a pool", async () => {
    const leader = await started("--ha-enable-leader-election");
    await poll("a leader", async () => (await leader.metric("sluice_kubernetes_leader")) === 1);
    expect(await answers(leader)).toEqual(row(NOT_SERVING, UNKNOWN));
    const standby = await started("--ha-enable-leader-election", "--drain-timeout=1h");
    expect(await answers(standby)).toEqual(row(NOT_SERVING, UNKNOWN));
    await api.put(poolOn([8000]));
    await becomes(leader, row(SERVING, UNKNOWN));
    await poll("the endpoints of the standby", async () => (await standby.endpoints()).length === 1);
    expect(await answers(standby)).toEqual(row(NOT_SERVING, UNKNOWN));
    const ready = async ({ adminUrl }: ClusterEpp) => (await ask(`${adminUrl}/ready`)).status;
    expect([await ready(leader), await ready(standby)]).toEqual([200, 503]);
    for (const epp of [leader, standby]) expect(await listed(epp)).toEqual([EXT_PROC_SERVICE, "liveness", "readiness"]);

    // Told to end it leads no more: the other one takes over without waiting for the end of the lease.
    leader.process.child.kill("SIGTERM");
    await becomes(standby, row(SERVING, UNKNOWN));
    expect(await leader.process.ended()).toEqual({ code: 0, signal: null });
    standby.process.child.kill("SIGTERM");
    await becomes(standby, row(NOT_SERVING, UNKNOWN));
    standby.process.child.kill("SIGTERM");
    expect(await standby.process.ended(), "told twice").toEqual({ code: 1, signal: null });
  });

  it("asks for no more requests when its lease cannot be renewed for 10 s, serves those that come, and leads again afterwards", async () => {
    await api.put(poolOn([8000]));
    const epp = await started("--ha-enable-leader-election");
    await becomes(epp, row(SERVING, UNKNOWN));
    const client = await clientOf(epp);
    await api.down();
    await becomes(epp, row(NOT_SERVING, UNKNOWN));
    expect(await epp.metric("sluice_kubernetes_leader")).toBe(0);
    expect(await route(client.open())).toBe("127.0.0.2:8000");
    await api.up();
    await becomes(epp, row(SERVING, UNKNOWN));
    expect(epp.process.exit).toBeUndefined();
  });
});
