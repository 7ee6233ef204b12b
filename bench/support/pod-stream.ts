/**
 * As much of an API server as a picker needs, with pods of the size that real ones have: a list in pages, then a watch of
 * `argv[3]` changes as fast as they are read. Told anything, it lets the watches of pods expire, so that all is listed
 * again. A process of its own, so that its work is not counted.
 */
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

const [pods, updates] = [Number(process.argv[2]), Number(process.argv[3])];
const NAMESPACE = "bench";

/** Everything that nobody here reads: as long as in a cluster where vLLM runs with its usual settings. */
const CONTAINER = {
  name: "vllm",
  image: "registry.example.com/inference/vllm-openai:v0.11.0",
  command: ["vllm", "serve", "meta-llama/Llama-3.1-8B-Instruct"],
  args: ["--port=8000", "--tensor-parallel-size=1", "--enable-lora", "--max-loras=4", "--max-cpu-loras=12"],
  env: Array.from({ length: 12 }, (_, i) => ({ name: `SETTING_NUMBER_${i}`, value: `value of the setting ${i}` })),
  ports: [{ name: "http", containerPort: 8000, protocol: "TCP" }],
  resources: { limits: { "nvidia.com/gpu": "1", memory: "64Gi" }, requests: { "nvidia.com/gpu": "1", cpu: "8" } },
  readinessProbe: { httpGet: { path: "/health", port: "http" }, periodSeconds: 1, failureThreshold: 1 },
  volumeMounts: Array.from({ length: 5 }, (_, i) => ({ name: `volume-${i}`, mountPath: `/mnt/volume-${i}` })),
};
const MANAGED = Array.from({ length: 3 }, (_, i) => ({
  manager: `manager-${i}`,
  operation: "Update",
  apiVersion: "v1",
  time: "2026-01-01T00:00:00Z",
  fieldsType: "FieldsV1",
  fieldsV1: Object.fromEntries(Array.from({ length: 25 }, (_, n) => [`f:field-${n}`, { ".": {}, "f:inner": {} }])),
}));

/** The n-th version of a pod. Most changes are none of the picker's business, as in a cluster. */
function pod(index: number, version: number) {
  const turn = (index + version) % 10;
  return {
    metadata: {
      name: `vllm-llama-3-1-8b-${index}`,
      namespace: NAMESPACE,
      uid: `00000000-0000-4000-8000-${String(index).padStart(12, "0")}`,
      resourceVersion: String(1000 + version),
      creationTimestamp: "2026-01-01T00:00:00Z",
      labels: { app: turn === 7 ? "draining" : "vllm", "pod-template-hash": "6d5f7c9b8", model: "llama-3-1-8b" },
      annotations: { "example.com/note": `version ${version}` },
      managedFields: MANAGED,
    },
    spec: {
      containers: [CONTAINER],
      nodeName: `node-${index % 100}`,
      serviceAccountName: "vllm",
      tolerations: [{ key: "nvidia.com/gpu", operator: "Exists", effect: "NoSchedule" }],
      volumes: CONTAINER.volumeMounts.map(({ name }) => ({ name, emptyDir: {} })),
    },
    status: {
      phase: "Running",
      podIP: `10.${index >> 8}.${index & 255}.7`,
      hostIP: `10.200.0.${index % 100}`,
      conditions: ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"].map(
        (type) => ({
          type,
          status: turn === 3 && type === "Ready" ? "False" : "True",
          lastTransitionTime: "2026-01-01T00:00:00Z",
        }),
      ),
      containerStatuses: [{ name: "vllm", ready: true, restartCount: 0, image: CONTAINER.image, started: true }],
    },
  };
}

const POOL = {
  metadata: { name: "pool", namespace: NAMESPACE, uid: "pool", resourceVersion: "1000", generation: 1 },
  spec: {
    selector: { matchLabels: { app: "vllm" } },
    targetPorts: [{ number: 8000 }],
    endpointPickerRef: { name: "epp", port: { number: 9002 } },
  },
};

const watches = new Set<ServerResponse>();

async function watchPods(response: ServerResponse): Promise<void> {
  for (let update = 1; update <= updates; update++) {
    const index = update === updates ? 0 : (update * 7919) % pods;
    const type = update % 20 === 0 && update !== updates ? "DELETED" : "MODIFIED";
    const object = pod(index, update);
    // What shows that the end was reached.
    if (update === updates) {
      object.metadata.labels.app = "vllm";
      object.status.podIP = "10.255.255.255";
      for (const condition of object.status.conditions) condition.status = "True";
    }
    if (!response.write(`${JSON.stringify({ type, object: { kind: "Pod", apiVersion: "v1", ...object } })}\n`))
      await new Promise((resolve) => response.once("drain", resolve));
  }
}

const server = createServer((request, response) => {
  const { pathname, searchParams } = new URL(request.url ?? "/", "http://localhost");
  response.setHeader("content-type", "application/json");
  const kind = pathname.slice(pathname.lastIndexOf("/") + 1);
  if (searchParams.get("watch") === "true") {
    response.flushHeaders();
    if (kind !== "pods") return;
    watches.add(response);
    response.once("close", () => watches.delete(response));
    void watchPods(response);
    return;
  }
  const from = Number(searchParams.get("continue") ?? 0);
  const to = Math.min(pods, from + Number(searchParams.get("limit") ?? pods));
  const items =
    kind === "pods"
      ? Array.from({ length: to - from }, (_, i) => pod(from + i, 0))
      : kind === "inferencepools" && pathname.includes("/inference.networking.k8s.io/")
        ? [POOL]
        : [];
  const metadata = { resourceVersion: "1000", ...(kind === "pods" && to < pods ? { continue: String(to) } : {}) };
  response.end(JSON.stringify({ kind: "List", apiVersion: "v1", metadata, items }));
});
server.listen(0, "127.0.0.1", () => process.send?.((server.address() as AddressInfo).port));
process.on("message", () => {
  const object = { kind: "Status", code: 410, reason: "Expired", message: "too old resource version" };
  for (const watch of watches) watch.end(`${JSON.stringify({ type: "ERROR", object })}\n`);
});
process.on("disconnect", () => process.exit());
