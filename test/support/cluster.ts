import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "vitest";
import { stringify } from "yaml";
import type { TestApiServer } from "./apiserver/index.ts";
import { ask } from "./client.ts";
import { samplesOf } from "./core.ts";
import type { BareEpp } from "./epp-process.ts";
import { freePort, onFreePorts } from "./free-port.ts";
import { poll } from "./poll.ts";
import { compiledBefore, PROGRAM, ROOT, sluice, TestProcess } from "./process.ts";
import { portOf, type Sim } from "./stack.ts";

/** Where the pools of the tests are. */
export const NAMESPACE = "inference";
export const POOL = "pool";
export const CRDS = join(ROOT, "deploy", "crds");

/**
 * A kubeconfig in a folder of its own: somebody's way to an API server.
 * @param port instead of the server's own: that of a proxy in front
 */
export function kubeconfigFile(api: TestApiServer, token: string = api.token, port?: number): string {
  const url = new URL(api.url);
  if (port !== undefined) url.port = String(port);
  const ca = api.ca && { "certificate-authority-data": Buffer.from(api.ca).toString("base64") };
  const file = join(mkdtempSync(join(tmpdir(), "sluice-cluster-")), "kubeconfig");
  const config = {
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name: "c", cluster: { server: url.origin, ...ca } }],
    users: [{ name: "u", user: { token } }],
    contexts: [{ name: "d", context: { cluster: "c", user: "u" } }],
    "current-context": "d",
  };
  writeFileSync(file, stringify(config));
  return file;
}

export interface PodOptions {
  readonly address?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly ready?: boolean;
  readonly namespace?: string;
}

/** A pod of the pool as the kubelet reports it; at 127.0.0.2 and ready unless told otherwise. */
export function podNamed(name: string, options: PodOptions = {}) {
  const { address = "127.0.0.2", labels = { app: "vllm" }, annotations = {}, ready = true } = options;
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace: options.namespace ?? NAMESPACE, labels, annotations },
    spec: { containers: [{ name: "vllm", image: "vllm" }] },
    status: {
      phase: "Running",
      podIP: address,
      conditions: [{ type: "Ready", status: ready ? "True" : "False" }],
    },
  };
}

/** The pool, of v1, with the pods labelled `app: vllm`. @param more of its spec */
export function poolOn(ports: readonly number[], more: object = {}) {
  return {
    apiVersion: "inference.networking.k8s.io/v1",
    kind: "InferencePool",
    metadata: { name: POOL, namespace: NAMESPACE },
    spec: {
      selector: { matchLabels: { app: "vllm" } },
      targetPorts: ports.map((number) => ({ number })),
      endpointPickerRef: { name: "pool-epp", port: { number: 9002 } },
      ...more,
    },
  };
}

/** Simulators as pods have their servers: one port, and an address of its own each, from 127.0.0.2 on. */
export function startPodSims(
  count: number,
  args: readonly string[] = [],
): Promise<(Sim & { readonly address: string })[]> {
  return onFreePorts(async () => podSimsOn(await freePort(), count, args));
}

async function podSimsOn(
  port: number,
  count: number,
  args: readonly string[],
): Promise<(Sim & { readonly address: string })[]> {
  const started = Array.from({ length: count }, (_, i) => {
    const address = `127.0.0.${i + 2}`;
    return { address, process: sluice("sim", "--host", address, "--port", String(port), ...args) };
  });
  try {
    await Promise.all(started.map(({ process }) => process.listening("sim")));
  } catch (error) {
    for (const { process } of started) await process.stop();
    throw error;
  }
  return started.map(({ address, process }) => ({ process, port, address, url: `http://${address}:${port}` }));
}

/** `sluice epp` with a pool of Kubernetes. */
export interface ClusterEpp extends BareEpp {
  /** `ID HOST:PORT` of each endpoint, sorted. */
  endpoints(): Promise<readonly string[]>;
  /** The value of a sample of the metrics page, labels included in the name; undefined = there is none. */
  metric(sample: string): Promise<number | undefined>;
}

export interface ClusterEppOptions {
  readonly kubeconfig: string;
  /** What it serves; the pool `pool` in namespace `inference` unless given. */
  readonly source?: readonly string[];
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

const SOURCE = ["--pool-name", POOL, "--pool-namespace", NAMESPACE];

/** Its process, on free ports, in clear text, metrics open to all. */
export function clusterEpp({ kubeconfig, source = SOURCE, args = [], env = {} }: ClusterEppOptions): TestProcess {
  return new TestProcess(
    process.execPath,
    [
      ...[PROGRAM, "epp", "--kubeconfig", kubeconfig, ...source],
      ...["--bind-address=127.0.0.1", "--grpc-port=0", "--grpc-health-port=0", "--metrics-port=0"],
      ...["--secure-serving=false", "--metrics-endpoint-auth=false", "--drain-timeout=0s", ...args],
    ],
    { env: { PATH: process.env["PATH"], ...compiledBefore(), OTEL_TRACES_EXPORTER: "none", ...env } },
  );
}

/** Starts it; comes back as soon as it listens, in whatever state. */
export async function startClusterEpp(options: ClusterEppOptions): Promise<ClusterEpp> {
  const process = clusterEpp(options);
  const port = portOf(await process.listening("ext-proc"));
  const healthPort = portOf(await process.listening("health"));
  const adminUrl = `http://${await process.listening("admin")}`;
  return {
    process,
    port,
    healthPort,
    adminUrl,
    async endpoints() {
      const { text } = await ask(`${adminUrl}/debug/endpoints`);
      const { endpoints } = JSON.parse(text) as { endpoints: { id: string; hostPort: string }[] };
      return endpoints.map(({ id, hostPort }) => `${id} ${hostPort}`).sort();
    },
    async metric(sample) {
      return samplesOf((await ask(`${adminUrl}/metrics`)).text).get(sample);
    },
  };
}

interface ServerPod {
  readonly metadata: { readonly name: string; readonly uid: string; readonly creationTimestamp: string };
  readonly status: {
    readonly podIP?: string;
    readonly startTime?: string;
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
  };
}

/**
 * The endpoints that the API server's pods amount to, in the form of {@link ClusterEpp.endpoints}: worked out a second time,
 * from what the server answers now.
 */
export async function endpointsOnServer(api: TestApiServer, ports: readonly number[]): Promise<readonly string[]> {
  const { body } = await api.request("GET", `/api/v1/namespaces/${NAMESPACE}/pods?labelSelector=app%3Dvllm`);
  const { items } = body as { items: ServerPod[] };
  const ready = items.filter(({ status }) =>
    status.conditions?.some(({ type, status }) => type === "Ready" && status === "True"),
  );
  // Of those with one address only the one that started last: by time, then by uid.
  const age = ({ metadata, status }: ServerPod): string =>
    `${status.startTime ?? metadata.creationTimestamp} ${metadata.uid}`;
  const last = new Map<string | undefined, ServerPod>();
  for (const pod of ready) {
    const other = last.get(pod.status.podIP);
    if (other === undefined || age(pod) > age(other)) last.set(pod.status.podIP, pod);
  }
  return [...last.values()]
    .flatMap(({ metadata, status }) =>
      ports.map((port, rank) => `${NAMESPACE}/${metadata.name}-rank-${rank} ${status.podIP}:${port}`),
    )
    .sort();
}

/**
 * Waits until a picker has the endpoints that the API server's pods amount to, at least one; fails with both where it does not
 * come to that.
 * @param limitMs milliseconds; after several failures in a row the next attempt may be half a minute away
 */
export async function expectServersEndpoints(
  epp: ClusterEpp,
  api: TestApiServer,
  ports: readonly number[],
  limitMs = 60_000,
): Promise<void> {
  let ours: readonly string[] = [];
  let theirs: readonly string[] = [];
  const same = async (): Promise<boolean> => {
    ours = await epp.endpoints();
    theirs = await endpointsOnServer(api, ports);
    return theirs.length > 0 && JSON.stringify(ours) === JSON.stringify(theirs);
  };
  await poll("the server's endpoints", same, limitMs).catch(() => expect(ours).toEqual(theirs));
}
