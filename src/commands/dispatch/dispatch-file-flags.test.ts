import { dirname, join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import {
  command,
  failure,
  file,
  folder,
  INLINE,
  optionsOf,
  SORTED,
} from "../../../test/support/dispatch/flags.cases.ts";
import { metricGateBench } from "../../../test/support/metric-gates.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { DISPATCH_FLAGS } from "./dispatch-flag-table.ts";
import { FILE_FLAGS } from "./dispatch-settings.ts";

describe("--config", () => {
  const SECTION = `transport: redis-sortedset
transport-config:
  url: redis://in-file
  queues:
  - queue_name: q
    igw_base_url: http://g
`;
  let path: string;
  const yaml = (text: string) => {
    path = file("dispatch.yaml", text);
    return ["--config", path];
  };
  beforeEach(() => void yaml(SECTION));

  it("has all that the flags have", async () => {
    const { options, warnings } = await command(
      yaml(`${SECTION}
pool-config: [{id: default, workers: 9}]
request-merge-policy-config: {type: random-robin}
transform-config: {requestTransforms: []}
plugins: [dispatch.yaml]
request-timeout: 90s
drain-timeout: 0
metrics-backlog-poll-interval: 1m
prometheus-url: http://prometheus:9090
prometheus-cache-ttl: 0s
health-port: 0
metrics-port: 0
bind-address: "::"
metrics-endpoint-auth: false
tls-insecure-skip-verify: true
allow-unknown-gates: true
deadline-header: x-deadline
max-response-bytes: 1Mi
replica-count: 2
debug-open: true
v: 4
zap-encoder: json
zap-stacktrace-level: error
`),
    );
    expect(options).toMatchObject({
      transport: { transport: "redis-sortedset", redis: { url: "redis://in-file" } },
      pools: [{ id: "default", workers: 9 }],
      mergePolicy: { file: path, value: { type: "random-robin" } },
      transforms: { file: path, value: { requestTransforms: [] } },
      plugins: [path],
      requestTimeout: 90_000,
      drainTimeout: 0,
      backlogPollInterval: 60_000,
      prometheusUrl: "http://prometheus:9090",
      prometheusCacheTtl: 0,
      healthPort: 0,
      metricsPort: 0,
      bindAddress: "::",
      clientTls: { insecureSkipVerify: true },
      allowUnknownGates: true,
      deadlineHeader: "x-deadline",
      maxResponseBytes: 1024 * 1024,
      replicaCount: 2,
      debugOpen: true,
      logging: { level: "debug", encoder: "json" },
    });
    expect(options.mergePolicy?.positionOf(["type"])).toMatchObject({ file: path, line: 9 });
    expect(warnings).toEqual(["--zap-stacktrace-level has no effect: a logged error has its own stack trace"]);
  });

  it("yields to the command line, and wins over the environment", async () => {
    const args = yaml(`${SECTION}concurrency: 3\nprometheus-url: http://in-file\n`);
    const env = { REDIS_URL: "redis://environment" };
    const options = await optionsOf([...args, "--concurrency=4"], env);
    expect(options).toMatchObject({
      prometheusUrl: "http://in-file",
      transport: { redis: { url: "redis://in-file" } },
    });
    expect(options.pools[0]?.workers).toBe(4);
    expect((await optionsOf([...args, ...INLINE], env)).transport).toMatchObject({
      redis: { url: "redis://localhost" },
    });
    const other = file("other.json", { ...SORTED, url: "redis://other" });
    expect((await optionsOf([...args, `--transport-config-file=${other}`])).transport).toMatchObject({
      transport: "redis-sortedset",
      redis: { url: "redis://other" },
    });
    expect((await optionsOf([...args, "--transport=redis-pubsub"])).transport.transport).toBe("redis-pubsub");
  });

  it("names files by their place beside it", async () => {
    file("beside.json", SORTED);
    file("pools-beside.json", [{ id: "default", workers: 11 }]);
    const options = await optionsOf(
      yaml("transport: redis-sortedset\ntransport-config-file: beside.json\npool-config-file: pools-beside.json\n"),
    );
    expect(options).toMatchObject({ pools: [{ workers: 11 }], transport: { redis: { url: "redis://localhost" } } });
    const sqlite = `transport: sqlite\ntransport-config: {path: q.db, queues: [{queue_name: q, igw_base_url: "http://g"}]}`;
    expect((await optionsOf(yaml(sqlite))).transport).toMatchObject({ path: join(dirname(path), "q.db") });
  });

  it("does not make the older flags of pools legal, but those beside a section", async () => {
    expect(await failure([...yaml("pool-config-file: gpu.json"), "--redis.url=redis://h"])).toContain(
      "only allowed together",
    );
    file("pools-beside.json", [{ id: "default", workers: 11 }]);
    const options = await optionsOf([...yaml(SECTION), `--pool-config-file=${join(folder, "pools-beside.json")}`]);
    expect(options.pools[0]?.workers).toBe(11);
  });

  it.each<[text: string, message: string]>([
    [
      "concurrency: 0",
      "DOCUMENT_INVALID: invalid dispatch configuration: FOLDER/dispatch.yaml:7:1: concurrency: must be at least 1, got 0",
    ],
    [
      "request-timeout: 5",
      'DOCUMENT_INVALID: invalid dispatch configuration: FOLDER/dispatch.yaml:7:1: request-timeout: expected a duration with a unit such as "50ms", "5s" or "1m30s", got 5',
    ],
    [
      "request-timout: 5s",
      "DOCUMENT_INVALID: invalid dispatch configuration: FOLDER/dispatch.yaml:7:1: request-timout: unknown key `request-timout`; did you mean `request-timeout`?",
    ],
    [
      "drain-timeout: 1000h",
      "DOCUMENT_INVALID: invalid dispatch configuration: FOLDER/dispatch.yaml:7:1: drain-timeout: must be at most 2147483647, got 3600000000",
    ],
    [
      "zap-encoder: xml",
      'DOCUMENT_INVALID: invalid dispatch configuration: FOLDER/dispatch.yaml:7:1: zap-encoder: expected one of `json`, `console`, got the string "xml"',
    ],
    ["health-port: 9090", "FLAG_CONFLICT: --health-port and --metrics-port are both 9090; give each its own port"],
    [
      "metrics-endpoint-auth: true",
      "FLAG_UNSUPPORTED: FOLDER/dispatch.yaml:7:1: metrics-endpoint-auth=true is not supported; remove the flag, or write false: then /metrics answers everyone",
    ],
    [
      "bind-address: here",
      'FLAG_CONFLICT: FOLDER/dispatch.yaml:7:1: bind-address: "here" is not an IP address; write for example 127.0.0.1, 0.0.0.0 or ::',
    ],
    [
      "prometheus-url: prometheus",
      "FLAG_CONFLICT: FOLDER/dispatch.yaml:7:1: prometheus-url must be an absolute URL such as http://prometheus:9090",
    ],
    [
      "transport-config-file: x",
      "FLAG_CONFLICT: FOLDER/dispatch.yaml:7:1: transport-config-file and transport-config are mutually exclusive",
    ],
    [
      "tls-ca-cert: none.pem",
      "TLS_FILE_INVALID: FOLDER/dispatch.yaml:7:1: tls-ca-cert: FOLDER/none.pem does not exist",
    ],
    [
      "pool-config: [{id: a, workers: 0}]",
      "DOCUMENT_INVALID: invalid dispatch configuration: FOLDER/dispatch.yaml:7:23: [0].workers: must be at least 1, got 0",
    ],
  ])("%s is told with its place", async (text, message) => {
    expect(await failure(yaml(`${SECTION}${text}\n`))).toBe(message);
  });

  it("collects what is wrong in all its sections, with the positions of the file", async () => {
    const text = `transport: redis-sortedset
transport-config:
  url: redis://h
  queues:
  - queue_name: q
pool-config:
- id: a
`;
    expect(await failure(yaml(text))).toBe(
      "DOCUMENT_INVALID: invalid dispatch configuration, 2 problems:\n" +
        "  FOLDER/dispatch.yaml:5:5: queues[0].igw_base_url: is missing (a string)\n" +
        "  FOLDER/dispatch.yaml:7:3: [0].workers: is missing (a number)",
    );
  });

  it("warns of fields of the sections that nobody reads, with their place", async () => {
    const { warnings } = await command(yaml(`${SECTION}    gate_typ: constant\n`));
    expect(warnings.map((text) => text.replaceAll(folder, "FOLDER"))).toEqual([
      "FOLDER/dispatch.yaml:7:5: queues[0].gate_typ: unknown key, ignored; did you mean `gate_type`?",
    ]);
  });

  it("names the transport: the default is not what anybody means", async () => {
    expect(await failure(yaml(SECTION.replace(/^transport: .*\n/, "")))).toBe(
      "FLAG_CONFLICT: FOLDER/dispatch.yaml has a transport configuration but no transport; write one of " +
        "redis-sortedset, redis-pubsub, gcp-pubsub, sqlite",
    );
  });

  it("has a key for every current flag but itself and what its sections replace", () => {
    const keys = new Set(FILE_FLAGS.map(({ name }) => name));
    expect(
      DISPATCH_FLAGS.map(({ name }) => name as string)
        .filter((name) => !keys.has(name))
        .sort(),
    ).toEqual(["config", "request-merge-policy-config", "transport", "transport-config"]);
  });
});

describe("the examples", () => {
  const example = (name: string) => command(["--config", join(import.meta.dirname, "../../../examples", name)]);

  it("of one machine loads", async () => {
    const { options, warnings } = await example("dispatch.yaml");
    expect(options.transport).toMatchObject({ transport: "sqlite", queues: [{ name: "requests" }] });
    expect(warnings).toEqual([]);
  });

  it("of a gateway with flow control loads, and its gate reads the saturation", async () => {
    const { options, warnings } = await example("dispatch-flow-control.yaml");
    expect(warnings).toEqual([]);
    const [queue] = options.transport.queues;
    expect(queue).toMatchObject({ inferenceObjective: "batch", gate: { type: "endpoint-scrape" } });
    const clock = new VirtualClock(1_800_000_000_000);
    // Parameters are checked when the gate is made. Nothing listens on port 1.
    const parameters = { ...queue!.gate!.parameters, url: "http://127.0.0.1:1/metrics" };
    const bench = metricGateBench("endpoint-scrape", parameters, { clock });
    expect(await bench.read()).toMatchObject({ readable: false, baseline: 0.25 });
    await bench.close();
  });

  it("of a shared gateway loads", async () => {
    const { options, warnings } = await example("dispatch-redis.yaml");
    expect(options.transport.queues.map(({ name, workerPoolId, gate }) => [name, workerPoolId, gate?.type])).toEqual([
      ["evaluation-requests", "batch", "composite"],
      ["summary-requests", "batch", "prometheus-budget"],
      ["embedding-requests", "embeddings", undefined],
    ]);
    expect(options.pools.map(({ id, gate }) => [id, gate?.type])).toEqual([
      ["batch", undefined],
      ["embeddings", "wait-on-refuse"],
    ]);
    expect(options.mergePolicy?.value).toMatchObject({ type: "tier-priority" });
    expect(warnings).toEqual([]);
  });
});
