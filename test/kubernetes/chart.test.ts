import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse, stringify } from "yaml";
import { onPath } from "../../scripts/part-cache.ts";
import { readResources } from "../../src/pool/resources/manifests.ts";
import { ROOT } from "../support/process.ts";
import { grantsOf, objectsOf, one, podOf, type Rendered, rights } from "../support/rendered.ts";
import { configWarnings, expectContract } from "./deployment.cases.ts";

const CHART = join(ROOT, "deploy", "helm", "sluice-epp");
const read = (name: string): string => readFileSync(join(CHART, name), "utf8");
/** No source that scripts/test-parts.ts installs from has Helm: what it renders is tested where it is found. */
const helm = process.env["HELM"] ?? onPath("helm");

interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: unknown;
}

type Values = Readonly<Record<string, unknown>>;

/** Keys of other charts, which the schema lets through so that a template can say where they belong. */
const ELSEWHERE = ["inferenceExtension", "router", "global"];

describe("deploy/helm/sluice-epp", () => {
  it("has the version of the package", () => {
    const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { version: string };
    expect(parse(read("Chart.yaml"))).toMatchObject({ version, appVersion: version });
  });

  it("has a schema of just the values that values.yaml shows, to every depth", () => {
    const compare = (values: unknown, { properties, additionalProperties }: Schema, path: string): void => {
      if (properties === undefined) return;
      expect(additionalProperties, path).toBe(false);
      const known = Object.keys(properties).filter((key) => path !== "" || !ELSEWHERE.includes(key));
      if (!Array.isArray(values)) expect(Object.keys(values as Values).sort(), path).toEqual(known.sort());
      for (const key of known) {
        const below = (values as Values)[key];
        if (below !== undefined) compare(below, properties[key]!, `${path}/${key}`);
      }
    };
    compare(parse(read("values.yaml")), JSON.parse(read("values.schema.json")) as Schema, "");
  });

  it("names only values that there are", () => {
    const { properties } = JSON.parse(read("values.schema.json")) as Schema;
    const used = readdirSync(join(CHART, "templates")).flatMap((name) =>
      [...read(join("templates", name)).matchAll(/\.Values((?:\.[a-zA-Z]+)+)/g)].map(([, path]) => path!.slice(1)),
    );
    expect(used.length).toBeGreaterThan(50);
    for (const path of used) {
      let schema: Schema | undefined = { properties: properties! };
      for (const key of path.split(".")) if (schema?.properties !== undefined) schema = schema.properties[key];
      expect(schema, path).toBeDefined();
    }
    const tops = new Set(used.map((path) => path.split(".")[0]));
    expect(Object.keys(properties!).filter((key) => !tops.has(key))).toEqual(["global"]);
  });
});

/** `helm template` of release `pool` in namespace `inference`. */
function template(values: Values, ...args: readonly string[]): { objects: Rendered[]; text: string; error: string } {
  const home = mkdtempSync(join(tmpdir(), "sluice-helm-"));
  writeFileSync(join(home, "values.yaml"), stringify(values));
  const cluster = ["--kube-version", "1.34.0", "--namespace", "inference"];
  const { status, stdout, stderr } = spawnSync(
    helm!,
    ["template", "pool", CHART, ...cluster, "--values", join(home, "values.yaml"), ...args],
    { encoding: "utf8", env: { HOME: home, PATH: process.env["PATH"] } },
  );
  return { objects: status === 0 ? objectsOf(stdout) : [], text: stdout, error: status === 0 ? "" : stderr };
}

const SERVERS = { matchLabels: { app: "vllm" } };
const BASE = { modelServers: SERVERS };
const READS = ["pods", "pool", "models", "objectives"] as const;

if (helm !== undefined)
  describe("what Helm renders of it (R-38, R-59)", () => {
    it("is a picker and its pool, with the names of the published charts", async () => {
      const { objects, text, error } = template(BASE);
      expect(error).toBe("");
      const settings = expectContract(objects);
      expect(settings).toMatchObject({
        ...{ grpcPort: 9002, grpcHealthPort: 9003, metricsPort: 9090, tracing: false, tls: { secureServing: true } },
        kubernetes: {
          namespace: "inference",
          members: { kind: "pool", name: "pool", group: "inference.networking.k8s.io" },
          leaderElection: false,
          metricsAuth: true,
          writeModelStatus: false,
        },
      });
      for (const kind of ["Deployment", "Service", "ConfigMap", "ServiceAccount"])
        expect(one(objects, kind).metadata).toMatchObject({ name: "pool-epp", namespace: "inference" });
      expect(await configWarnings(one(objects, "ConfigMap"))).toEqual({ "default-plugins.yaml": [] });
      expect(readResources(text, "rendered").warnings).toEqual([]);
      expect(one(objects, "InferencePool")["spec"]).toMatchObject({
        selector: { matchLabels: { app: "vllm" } },
        targetPorts: [{ number: 8000 }],
        endpointPickerRef: { failureMode: "FailOpen" },
      });
      expect(grantsOf(objects, "Role")).toEqual(rights(...READS, "events"));
      expect(grantsOf(objects, "ClusterRole")).toEqual(rights("reviews"));
    });

    it("takes what users of the published charts set", async () => {
      const plugins = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins: [{ type: queue-scorer }]\n";
      const extra = { name: "extra", emptyDir: {} };
      const { objects, text, error } = template({
        replicas: 3,
        image: { registry: "registry.example/team/", repository: "epp", tag: "v9", pullPolicy: "Always" },
        imagePullSecrets: [{ name: "credentials" }],
        extProcPort: 9012,
        grpcHealthPort: 9013,
        metricsPort: 9014,
        flags: {
          v: 4,
          "secure-serving": false,
          "max-request-body": 2_000_000,
          "standard-shed-at": 1.5,
          profile: "default",
        },
        env: [{ name: "HF_HOME", value: "/x" }],
        volumes: [extra],
        volumeMounts: [{ name: "extra", mountPath: "/extra" }],
        pluginsConfigFile: "mine.yaml",
        pluginsCustomConfig: { "mine.yaml": plugins },
        modelServers: {
          ...SERVERS,
          targetPorts: [{ number: 8000 }, { number: 8001 }],
          type: "sglang",
          protocol: "grpc",
        },
        inferencePool: { failureMode: "FailClose" },
        inferenceObjectives: [{ name: "batch", priority: -1 }],
        inferenceModels: { writeStatus: true },
        monitoring: { prometheus: { enabled: true, extraLabels: { release: "prometheus" } } },
        tracing: { enabled: true, otelExporterEndpoint: "http://collector:4317" },
        resources: { limits: { memory: "3Gi" } },
        affinity: { nodeAffinity: {} },
        tolerations: [{ key: "gpu", operator: "Exists" }],
        nodeSelector: { pool: "cpu" },
        podAnnotations: { note: "here" },
        provider: { name: "istio" },
        httpRoute: { create: true },
      });
      expect(error).toBe("");
      expect(expectContract(objects)).toMatchObject({
        ...{ grpcPort: 9012, grpcHealthPort: 9013, metricsPort: 9014, configFile: "/config/mine.yaml", tracing: true },
        ...{ maxRequestBytes: 2_000_000, logging: { level: "debug" }, tls: { secureServing: false } },
        kubernetes: { leaderElection: true, writeModelStatus: true, standardShedAt: 1.5 },
      });
      const { spec, container } = podOf(one(objects, "Deployment"));
      expect(container).toMatchObject({
        image: "registry.example/team/epp:v9",
        imagePullPolicy: "Always",
        resources: { limits: { memory: "3Gi" } },
      });
      expect(container.env).toContainEqual({ name: "HF_HOME", value: "/x" });
      expect(container.env).toContainEqual({ name: "OTEL_EXPORTER_OTLP_ENDPOINT", value: "http://collector:4317" });
      expect(spec.volumes).toContainEqual(extra);
      expect(spec).toMatchObject({ nodeSelector: { pool: "cpu" }, tolerations: [{ key: "gpu" }] });
      expect(grantsOf(objects, "Role")).toEqual(rights(...READS, "leases", "events", "modelStatus"));
      expect(grantsOf(objects, "ClusterRole")).toEqual(rights("reviews", "scraper"));
      const pool = one(objects, "InferencePool")["spec"];
      expect(pool).toMatchObject({
        targetPorts: [{ number: 8000 }, { number: 8001 }],
        appProtocol: "kubernetes.io/h2c",
        endpointPickerRef: { name: "pool-epp", port: { number: 9012 }, failureMode: "FailClose" },
      });
      expect(readResources(text, "rendered").objects.length).toBe(2);
      expect(one(objects, "InferenceObjective")).toMatchObject({
        apiVersion: "inference.networking.x-k8s.io/v1alpha2",
        spec: { priority: -1, poolRef: { group: "inference.networking.k8s.io", name: "pool" } },
      });
      // Whoever scrapes gets a token that may read metrics and nothing else.
      const monitor = one(objects, "ServiceMonitor")["spec"].endpoints[0];
      const secret = one(objects, "Secret", monitor.authorization.credentials.name);
      const reader = (secret.metadata as { annotations?: Record<string, string> }).annotations;
      expect(reader).toEqual({ "kubernetes.io/service-account.name": "pool-epp-metrics-reader" });
      const binding = objects.find(
        ({ kind, subjects }) => kind === "ClusterRoleBinding" && subjects[0].name.endsWith("reader"),
      );
      expect(grantsOf([one(objects, "ClusterRole", binding!["roleRef"].name)], "ClusterRole")).toEqual(
        rights("scraper"),
      );
      const destination = one(objects, "DestinationRule")["spec"];
      expect(destination).toMatchObject({
        host: "pool-epp.inference.svc.cluster.local",
        trafficPolicy: { tls: { mode: "SIMPLE" } },
      });
      expect(one(objects, "HTTPRoute")["spec"].rules[0].backendRefs).toEqual([
        { group: "inference.networking.k8s.io", kind: "InferencePool", name: "pool" },
      ]);
      const newer = template({ ...BASE, inferenceObjectives: [{ name: "batch", priority: 1 }] }, ...LLM_D);
      expect(one(newer.objects, "InferenceObjective").apiVersion).toBe("llm-d.ai/v1alpha2");
    });

    it("serves a pool of the older API, one that is there already, or none at all", () => {
      const older = template({ ...BASE, inferencePool: { apiVersion: "inference.networking.x-k8s.io/v1alpha2" } });
      expect(expectContract(older.objects).kubernetes?.members).toMatchObject({
        group: "inference.networking.x-k8s.io",
      });
      expect(readResources(older.text, "rendered").objects.length).toBe(1);

      const given = template({ inferencePool: { create: false, name: "there" } });
      expect(expectContract(given.objects).kubernetes?.members).toMatchObject({ kind: "pool", name: "there" });
      expect(given.objects.some(({ kind }) => kind === "InferencePool")).toBe(false);

      const none = template({
        modelServers: {
          matchLabels: { app: "vllm", role: "decode" },
          targetPorts: [{ number: 8000 }, { number: 8001 }],
        },
        inferencePool: { create: false },
      });
      expect(expectContract(none.objects)).toMatchObject({
        poolName: "pool-epp",
        kubernetes: { members: { kind: "selector", selector: "app=vllm,role=decode", ports: [8000, 8001] } },
      });
      expect(grantsOf(none.objects, "Role")).toEqual(rights("pods"));
    });

    it("asks for no rights in the cluster where everybody may read metrics", () => {
      const { objects } = template({
        ...BASE,
        monitoring: { prometheus: { enabled: true, auth: { enabled: false } } },
      });
      expect(expectContract(objects).kubernetes?.metricsAuth).toBe(false);
      expect(grantsOf(objects, "ClusterRole")).toEqual([]);
      expect(one(objects, "ServiceMonitor")["spec"].endpoints[0].authorization).toBeUndefined();
    });

    it("writes nothing but leases where events are switched off", () => {
      const inferenceModels = { events: false };
      const granted = (values: Values) => grantsOf(template({ ...BASE, inferenceModels, ...values }).objects, "Role");
      expect(granted({})).toEqual(rights(...READS));
      expect(granted({ replicas: 2 })).toEqual(rights(...READS, "leases"));
    });

    it("runs several pods that share and all serve", () => {
      const url = "redis://valkey:6379";
      const three = template({ ...BASE, replicas: 3, peers: { url } });
      expect(three.error).toBe("");
      expect(expectContract(three.objects)).toMatchObject({
        peers: { url, name: "inference/pool" },
        kubernetes: { leaderElection: false },
      });
      expect(grantsOf(three.objects, "Role")).toEqual(rights(...READS, "events"));
      const writers = { ...BASE, replicas: 2, peers: { url, name: "mine" }, inferenceModels: { writeStatus: true } };
      const writing = template(writers);
      expect(expectContract(writing.objects)).toMatchObject({
        peers: { name: "mine" },
        kubernetes: { leaderElection: true },
      });
      const secret = template({ ...BASE, replicas: 2, peers: { secretName: "store" } });
      expectContract(secret.objects);
      const { container } = podOf(one(secret.objects, "Deployment"));
      const from = (key: string, more: object = {}) => ({ secretKeyRef: { name: "store", key, ...more } });
      expect(container.env).toContainEqual({ name: "SLUICE_PEERS", valueFrom: from("url") });
      expect(container.env).toContainEqual({
        name: "SLUICE_PEERS_SECRET",
        valueFrom: from("secret", { optional: true }),
      });
      expectContract(template({ ...BASE, peers: { url } }).objects);
    });

    it.each(["vllm", "sglang", "triton-tensorrt-llm", "trtllm-serve", "triton"])(
      "configures an engine of type %s without a metric flag",
      async (type) => {
        const { objects } = template({ modelServers: { ...SERVERS, type }, parsers: ["openai-parser"] });
        expect(expectContract(objects).modelServers).toEqual({ page: {}, metrics: {} });
        expect(await configWarnings(one(objects, "ConfigMap"))).toEqual({ "default-plugins.yaml": [] });
      },
    );

    it.each([
      [{}, "modelServers.matchLabels is required"],
      [{ ...BASE, peers: { name: "x" } }, "peers.name needs peers.url or peers.secretName"],
      [{ ...BASE, peers: { url: "redis://x", secretName: "store" } }, "peers.url and peers.secretName are both set"],
      [{ ...BASE, flags: { peers: "redis://x" } }, "flags.peers is set by the chart: use the value peers.url"],
      [{ ...BASE, router: { epp: { replicas: 2 } } }, "router.epp.replicas is `replicas`"],
      [{ ...BASE, inferenceExtension: { replicas: 2 } }, "inferenceExtension.replicas is `replicas`"],
      // What the schema refuses each release of Helm says in its own words.
      [{ ...BASE, replica: 2 }, /additional propert(ies 'replica' not|y replica is not) allowed/i],
      [{ ...BASE, replicas: "two" }, /replicas'?: .*integer/],
      [{ ...BASE, flags: { "grpc-port": 1 } }, "flags.grpc-port is set by the chart: use the value extProcPort"],
      [{ ...BASE, flags: { "--v": 1 } }, 'flags: "--v" is no name of a flag'],
      [{ ...BASE, image: { pullPolicy: "always" } }, /(['"])Always\1, \1IfNotPresent\1, \1Never\1/],
      [{ ...BASE, pluginsConfigFile: "x.yaml" }, "pluginsCustomConfig has no such key"],
      [{ modelServers: { ...SERVERS, targetPorts: [] } }, /modelServers[./]targetPorts'?: /],
      [
        {
          modelServers: { ...SERVERS, targetPorts: [{ number: 1 }, { number: 2 }] },
          inferencePool: { apiVersion: "inference.networking.x-k8s.io/v1alpha2" },
        },
        "has one target port",
      ],
      [
        { ...BASE, inferencePool: { create: false }, inferenceObjectives: [{ name: "a", priority: 1 }] },
        "inferenceObjectives belong to an InferencePool",
      ],
    ])("refuses %j and says why", (values, why) => {
      expect(template(values).error).toMatch(why);
    });
  });

const LLM_D = ["--api-versions", "llm-d.ai/v1alpha2/InferenceObjective"];
