import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { clientAuthority } from "../../../test/support/certificates.ts";
import { metricGateBench } from "../../../test/support/metric-gates.ts";
import { MAX_WORKERS } from "../../async/dispatch/config/options.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import type { SluiceError } from "../../base/inference/errors.ts";
import type { FlagRow } from "../common/go-flags.ts";
import { DISPATCH_FLAGS } from "./dispatch-flag-table.ts";
import { type DispatchCommandLine, dispatchOptionsOf, parseDispatchFlags } from "./dispatch-flags.ts";
import { LEGACY_FLAGS } from "./dispatch-legacy-table.ts";
import { FILE_FLAGS } from "./dispatch-settings.ts";

type Env = Readonly<Record<string, string>>;

const folder = mkdtempSync(join(tmpdir(), "sluice-dispatch-flags-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const SORTED = { url: "redis://localhost", queues: [{ queue_name: "q", igw_base_url: "http://gateway" }] };
const INLINE = ["--transport=redis-sortedset", `--transport-config=${JSON.stringify(SORTED)}`];

function file(name: string, content: string | object): string {
  const path = join(folder, name);
  writeFileSync(path, typeof content === "string" ? content : JSON.stringify(content));
  return path;
}

function command(args: readonly string[], env: Env = {}): Promise<DispatchCommandLine> {
  return dispatchOptionsOf(parseDispatchFlags(args, env), env);
}

const optionsOf = async (args: readonly string[], env: Env = {}) => (await command(args, env)).options;

async function failure(args: readonly string[], env: Env = {}): Promise<string> {
  try {
    await command(args, env);
  } catch (error) {
    return `${(error as SluiceError).code}: ${(error as SluiceError).message}`.replaceAll(folder, "FOLDER");
  }
  throw new Error("accepted");
}

/** Name and default of every flag in async-processor 8.1. */
const PUBLISHED = [
  ["v", "2"],
  ["health-port", "8081"],
  ["metrics-port", "9090"],
  ["metrics-endpoint-auth", "true"],
  ["concurrency", "64"],
  ["request-timeout", "5m"],
  ["drain-timeout", "2m"],
  ["pool-config-file", ""],
  ["transport", "redis-pubsub"],
  ["transport-config", ""],
  ["transport-config-file", ""],
  ["request-merge-policy-config-file", ""],
  ["request-merge-policy-config", ""],
  ["metrics-backlog-poll-interval", "15s"],
  ["tls-ca-cert", ""],
  ["tls-cert", ""],
  ["tls-key", ""],
  ["tls-insecure-skip-verify", "false"],
  ["transform-config-file", ""],
  ["prometheus-url", ""],
  ["prometheus-cache-ttl", "5s"],
  ["zap-devel", "true"],
  ["zap-encoder", "json"],
  ["zap-log-level", ""],
  ["zap-stacktrace-level", ""],
  ["zap-time-encoding", ""],
  ["message-queue-impl", "redis-pubsub"],
  ["redis.url", ""],
  ["redis-tracing", "false"],
  ["redis.igw-base-url", ""],
  ["redis.request-path-url", "/v1/completions"],
  ["redis.inference-objective", ""],
  ["redis.request-queue-name", "request-queue"],
  ["redis.retry-queue-name", "retry-sortedset"],
  ["redis.result-queue-name", "result-queue"],
  ["redis.queues-config", ""],
  ["redis.queues-config-file", ""],
  ["redis.ss.igw-base-url", ""],
  ["redis.ss.request-path-url", "/v1/completions"],
  ["redis.ss.inference-objective", ""],
  ["redis.ss.request-queue-name", "request-sortedset"],
  ["redis.ss.result-queue-name", "result-list"],
  ["redis.ss.queues-config", ""],
  ["redis.ss.queues-config-file", ""],
  ["redis.ss.poll-interval-ms", "1000"],
  ["redis.ss.batch-size", "10"],
  ["redis.ss.gate-type", ""],
  ["redis.ss.gate-params", "{}"],
  ["pubsub.project-id", ""],
  ["pubsub.igw-base-url", ""],
  ["pubsub.request-path-url", "/v1/completions"],
  ["pubsub.inference-objective", ""],
  ["pubsub.request-subscriber-id", ""],
  ["pubsub.result-topic-id", ""],
  ["pubsub.topics-config-file", ""],
  ["pubsub.batch-size", "10"],
] as const;

describe("the tables of flags (A-84)", () => {
  const rows: readonly FlagRow[] = [...DISPATCH_FLAGS, ...LEGACY_FLAGS];

  it("have every published flag with its default, and ours", () => {
    const theirs = rows.filter(({ since }) => since !== "ours").map((row) => [row.name, row.default]);
    expect(theirs.sort()).toEqual([...PUBLISHED].sort());
    const ours = rows.filter(({ since }) => since === "ours").map(({ name }) => name);
    expect(ours.sort()).toEqual([
      ...["allow-unknown-gates", "bind-address", "config", "deadline-header", "debug-open", "gateway-key-file"],
      ...["max-response-bytes", "replica-count"],
    ]);
  });

  it("bound the workers as the file of pools does", () => {
    expect(DISPATCH_FLAGS.find(({ name }) => name === "concurrency")).toMatchObject({ max: MAX_WORKERS });
  });
});

describe("dispatchOptionsOf", () => {
  it("has the defaults of the reference", async () => {
    expect(await command(INLINE)).toMatchObject({
      options: {
        transport: { transport: "redis-sortedset", redis: { url: "redis://localhost" } },
        pools: [{ id: "default", workers: 64, gate: undefined }],
        mergePolicy: undefined,
        transforms: undefined,
        plugins: [],
        clientTls: { insecureSkipVerify: false },
        bindAddress: "0.0.0.0",
        healthPort: 8081,
        metricsPort: 9090,
        requestTimeout: 300_000,
        drainTimeout: 120_000,
        backlogPollInterval: 15_000,
        prometheusUrl: undefined,
        prometheusCacheTtl: 5_000,
        allowUnknownGates: false,
        deadlineHeader: undefined,
        maxResponseBytes: 64 * 1024 * 1024,
        replicaCount: 1,
        debugOpen: false,
        logging: { level: "info", encoder: "console", time: "iso8601" },
      },
      warnings: [],
    });
  });

  it("takes every flag of the process", async () => {
    const flags = [
      ...["--health-port=1", "--metrics-port", "2", "--concurrency=3", "--request-timeout=4s", "--drain-timeout=0"],
      ...["--metrics-backlog-poll-interval=0s", "--prometheus-url=http://p:9090", "--prometheus-cache-ttl=1m30s"],
      ...["--allow-unknown-gates", "--debug-open", "--deadline-header=X-Deadline-Ms", "--max-response-bytes=1Mi"],
      ...["--replica-count=5", "--bind-address=[::1]", "--tls-insecure-skip-verify", "--metrics-endpoint-auth=false"],
      ...["-v4", "--zap-encoder=json", "--zap-time-encoding=epoch"],
    ];
    expect(await optionsOf([...INLINE, ...flags])).toMatchObject({
      pools: [{ id: "default", workers: 3 }],
      healthPort: 1,
      metricsPort: 2,
      requestTimeout: 4_000,
      drainTimeout: 0,
      backlogPollInterval: 0,
      prometheusUrl: "http://p:9090",
      prometheusCacheTtl: 90_000,
      allowUnknownGates: true,
      debugOpen: true,
      deadlineHeader: "X-Deadline-Ms",
      maxResponseBytes: 1024 * 1024,
      replicaCount: 5,
      bindAddress: "::1",
      clientTls: { insecureSkipVerify: true },
      logging: { level: "debug", encoder: "json", time: "epoch" },
    });
  });

  it("reads the files of pools, of the merge policy and of transforms", async () => {
    const pools = file("pools.json", [{ id: "default", workers: 7 }]);
    const policy = file("policy.json", { type: "tier-priority" });
    const transforms = file("transforms.json", { requestTransforms: [] });
    const args = [
      ...[`--pool-config-file=${pools}`, `--request-merge-policy-config-file=${policy}`],
      `--transform-config-file=${transforms}`,
    ];
    const options = await optionsOf([...INLINE, ...args]);
    expect(options.pools).toEqual([{ id: "default", workers: 7, gate: undefined }]);
    expect(options.mergePolicy).toMatchObject({ file: policy, value: { type: "tier-priority" } });
    expect(options.transforms).toMatchObject({ file: transforms, value: { requestTransforms: [] } });
    expect((await command([...INLINE, ...args, "--concurrency=5"])).warnings).toEqual([
      "--concurrency has no effect: each worker pool sets its own workers",
    ]);
  });

  it("takes the merge policy's older flag, with a warning, unless the newer one is there", async () => {
    const older = file("older.json", { type: "older" });
    const newer = file("newer.json", { type: "newer" });
    const alone = await command([...INLINE, `--request-merge-policy-config=${older}`]);
    expect(alone.options.mergePolicy?.value).toEqual({ type: "older" });
    expect(alone.warnings).toEqual([
      "--request-merge-policy-config is deprecated: use --request-merge-policy-config-file, which wins over it",
    ]);
    const both = [`--request-merge-policy-config=${older}`, `--request-merge-policy-config-file=${newer}`];
    expect((await optionsOf([...INLINE, ...both])).mergePolicy?.value).toEqual({ type: "newer" });
  });

  it("reads the key for gateways, and never repeats it", async () => {
    const keyFile = (content: string) => [...INLINE, `--gateway-key-file=${file("key", content)}`];
    expect((await optionsOf(INLINE)).gatewayKey).toBeUndefined();
    const { options, flags } = await command(keyFile(" sk-secret\n"));
    expect(options.gatewayKey).toBe("sk-secret");
    expect(JSON.stringify(flags)).not.toContain("sk-secret");
    const refused = "FLAG_VALUE: --gateway-key-file: FOLDER/key must hold exactly one key: ";
    expect(await failure(keyFile("\n"))).toBe(`${refused}it is empty`);
    for (const wrong of ["sk-secret\nsk-two", "sk-secr\u00e9t", "sk-secret\r\nx: y"])
      expect(await failure(keyFile(wrong))).toBe(
        `${refused}it has blanks, line breaks, characters that are not ASCII, or more than 4,096 bytes`,
      );
    expect(await failure([...INLINE, `--gateway-key-file=${join(folder, "none")}`])).toContain("does not exist");
    const env = { SLUICE_GATEWAY_KEY: "sk-env" };
    expect((await optionsOf(INLINE, env)).gatewayKey).toBe("sk-env");
    expect((await optionsOf(keyFile("sk-secret"), env)).gatewayKey).toBe("sk-secret");
    expect((await optionsOf(INLINE, { SLUICE_GATEWAY_KEY: "" })).gatewayKey).toBeUndefined();
    expect(await failure(INLINE, { SLUICE_GATEWAY_KEY: "a b" })).toMatch(
      /^FLAG_VALUE: the environment variable SLUICE_GATEWAY_KEY/,
    );
  });

  it("reads the client's certificates, and refuses what is none (A-81)", async () => {
    const authority = await clientAuthority();
    const ca = `--tls-ca-cert=${file("ca.pem", authority.ca)}`;
    const cert = `--tls-cert=${file("client.pem", authority.client.cert)}`;
    const key = `--tls-key=${file("client.key", authority.client.key)}`;
    expect((await optionsOf([...INLINE, ca, cert, key])).clientTls).toEqual({
      ca: authority.ca,
      cert: authority.client.cert,
      key: authority.client.key,
      insecureSkipVerify: false,
    });
    const other = file("other.key", (await clientAuthority()).client.key);
    expect(await failure([...INLINE, cert, `--tls-key=${other}`])).toBe(
      "TLS_FILE_INVALID: --tls-key: the key in FOLDER/other.key does not belong to the certificate in FOLDER/client.pem",
    );
    expect(await failure([...INLINE, `--tls-ca-cert=${join(folder, "none.pem")}`])).toBe(
      "TLS_FILE_INVALID: --tls-ca-cert: FOLDER/none.pem does not exist",
    );
    for (const half of [cert, key])
      expect(await failure([...INLINE, half])).toBe("FLAG_CONFLICT: --tls-cert and --tls-key must be given together");
  });

  it("honours LOG_LEVEL where no flag says a level (async-processor 8.2)", async () => {
    const level = async (args: readonly string[], text: string) => {
      const { options, warnings } = await command([...INLINE, ...args], { LOG_LEVEL: text });
      return [options.logging.level, ...warnings];
    };
    expect(await level([], "debug")).toEqual(["debug"]);
    expect(await level([], "WARNING")).toEqual(["warn"]);
    expect(await level([], "5")).toEqual(["trace"]);
    expect(await level(["-v=2"], "debug")).toEqual(["info"]);
    expect(await level(["--zap-log-level=error"], "debug")).toEqual(["error"]);
    expect(await level([], "loud")).toEqual([
      "info",
      'environment variable LOG_LEVEL is ignored: "loud" is none of trace, debug, info, warn, warning, error or a number',
    ]);
  });
});

describe("the source of the transport's configuration", () => {
  it("is a text or a file", async () => {
    const path = file("transport.json", { ...SORTED, url: "redis://in-file" });
    expect(await optionsOf(["--transport=redis-sortedset", `--transport-config-file=${path}`])).toMatchObject({
      transport: { transport: "redis-sortedset", redis: { url: "redis://in-file" } },
    });
    // The default of --transport is the reference's.
    expect((await optionsOf([`--transport-config-file=${path}`])).transport.transport).toBe("redis-pubsub");
  });

  it("has the url before REDIS_URL (A-41)", async () => {
    const env = { REDIS_URL: "redis://environment" };
    expect(await optionsOf(INLINE, env)).toMatchObject({ transport: { redis: { url: "redis://localhost" } } });
    const without = JSON.stringify({ queues: SORTED.queues });
    expect(await optionsOf(["--transport=redis-sortedset", "--transport-config", without], env)).toMatchObject({
      transport: { redis: { url: "redis://environment" } },
    });
  });

  it.each<[args: readonly string[], message: string]>([
    [["--transport=redis-sortedset"], "--transport-config or --transport-config-file is required"],
    [["--transport-config="], "--transport-config or --transport-config-file is required"],
    [
      [...INLINE, "--transport-config-file=x.json"],
      "--transport-config and --transport-config-file are mutually exclusive",
    ],
    [
      ["--transport=redis-sortdset", "--transport-config={}"],
      "--transport must be one of: redis-sortedset, redis-pubsub, gcp-pubsub, sqlite; did you mean `redis-sortedset`?",
    ],
    [[...INLINE, "--health-port=9090"], "--health-port and --metrics-port are both 9090; give each a port of its own"],
    [
      [...INLINE, "--bind-address=localhost"],
      '--bind-address: "localhost" is not an IP address; write for example 127.0.0.1, 0.0.0.0 or ::',
    ],
    [[...INLINE, "--deadline-header=x y"], '--deadline-header: "x y" is not a legal header name'],
    [
      [...INLINE, "--prometheus-url=user:hunter2@prometheus:9090"],
      "--prometheus-url must be an absolute URL such as http://prometheus:9090",
    ],
    [
      ["--message-queue-impl=redis-pubsub"],
      "--redis.url (or the environment's REDIS_URL) is required when using redis-pubsub; or give --config dispatch.yaml, or --transport and --transport-config-file",
    ],
    [
      ["--message-queue-impl=redis-sortedset"],
      "--redis.url (or the environment's REDIS_URL) is required when using redis-sortedset; or give --config dispatch.yaml, or --transport and --transport-config-file",
    ],
    [
      ["--message-queue-impl=gcp-pubsub-gated"],
      "--pubsub.project-id is required when using gcp-pubsub-gated; or give --config dispatch.yaml, or --transport and --transport-config-file",
    ],
    [
      ["--message-queue-impl=kafka"],
      "--message-queue-impl must be one of: redis-pubsub, redis-sortedset, gcp-pubsub, gcp-pubsub-gated",
    ],
    [
      ["--redis.url=redis://h", "--pool-config-file=p.json"],
      "--pool-config-file is only allowed together with a configuration of a transport or of queues",
    ],
  ])("%j is not allowed", async (args, message) => {
    expect(await failure(args)).toBe(`FLAG_CONFLICT: ${message}`);
  });

  it("a command line without a configuration gets the ways to give one", async () => {
    expect(await failure([])).toBe(
      "FLAG_MISSING: no configuration: give --config FILE (see examples/dispatch.yaml), or --transport and " +
        "--transport-config-file. The default transport redis-pubsub needs --redis.url or REDIS_URL",
    );
  });

  it("authentication by Kubernetes is not built yet", async () => {
    expect(await failure([...INLINE, "--metrics-endpoint-auth"])).toBe(
      "FLAG_UNSUPPORTED: --metrics-endpoint-auth=true is not supported; remove it, or write false: then " +
        "/metrics answers everyone",
    );
  });

  it("is called by its flag or its path in messages (A-84)", async () => {
    expect(
      await failure(["--transport=redis-sortedset", '--transport-config={"url": "redis://h",\n"queues": [{}]}']),
    ).toBe(
      "DOCUMENT_INVALID: invalid dispatch configuration, 2 problems:\n" +
        "  --transport-config:2:12: queues[0].queue_name: is missing (a string)\n" +
        "  --transport-config:2:12: queues[0].igw_base_url: is missing (a string)",
    );
    expect(await failure(["--transport=redis-sortedset", "--transport-config-file=/nowhere.json"])).toBe(
      "DOCUMENT_MISSING: /nowhere.json does not exist",
    );
    expect(await failure([...INLINE, `--pool-config-file=${file("p.json", [{ id: "gpu", workers: 1 }])}`])).toBe(
      "DOCUMENT_INVALID: invalid dispatch configuration: " +
        '--transport-config:1:38: queues[0].worker_pool_id: there is no worker pool "default", only gpu',
    );
  });
});

describe("flags from before --transport (A-84)", () => {
  const deprecated = (flag: string, use: string) =>
    `--${flag} is deprecated: it still works, and will be removed; use ${use}`;

  it("of a single channel", async () => {
    const { options, warnings } = await command([
      ...["--redis.url=redis://h", "--redis.igw-base-url=http://g", "--redis.inference-objective=o"],
      ...["--redis-tracing"],
    ]);
    expect(options.transport).toMatchObject({
      transport: "redis-pubsub",
      redis: { url: "redis://h", enableTracing: true },
      retryQueueName: "retry-sortedset",
      resultQueueName: "result-queue",
      queues: [
        {
          ...{ id: "request-queue", name: "request-queue", igwBaseUrl: "http://g", inferenceObjective: "o" },
          ...{ requestPathUrl: "/v1/completions", workerPoolId: "default" },
        },
      ],
    });
    expect(warnings.slice(0, 4)).toEqual([
      deprecated("redis.url", "url in --transport-config"),
      deprecated("redis-tracing", "enable_tracing in --transport-config"),
      deprecated("redis.igw-base-url", "igw_base_url of queues in --transport-config"),
      deprecated("redis.inference-objective", "inference_objective of queues in --transport-config"),
    ]);
    // The reference's default key for retries, which it shares with sorted sets.
    expect(warnings[4]).toContain("--redis.retry-queue-name:1:1: retry_queue_name: retry-sortedset is also");
    expect(warnings).toHaveLength(5);
    const named = await optionsOf([
      ...["--redis.url=redis://h", "--redis.igw-base-url=http://g", "--redis.request-queue-name=in"],
      ...["--redis.retry-queue-name=again", "--redis.result-queue-name=out", "--redis.request-path-url=/p"],
    ]);
    expect(named.transport).toMatchObject({
      retryQueueName: "again",
      resultQueueName: "out",
      queues: [{ name: "in", requestPathUrl: "/p" }],
    });
  });

  const sorted = ["--message-queue-impl=redis-sortedset", "--redis.ss.igw-base-url=http://g"];

  it("of a single sorted set; REDIS_URL is the default of --redis.url", async () => {
    const env = { REDIS_URL: "redis://environment" };
    const options = await optionsOf(sorted, env);
    expect(options.transport).toMatchObject({
      transport: "redis-sortedset",
      redis: { url: "redis://environment", enableTracing: false },
      resultQueueName: "result-list",
      retryQueueName: "retry-sortedset",
      pollInterval: 1_000,
      batchCap: undefined,
      queues: [{ id: "request-sortedset", name: "request-sortedset", igwBaseUrl: "http://g", gate: undefined }],
    });
    const all = await optionsOf(
      [
        ...sorted,
        ...["--redis.url=redis://flag", "--redis.ss.request-path-url=/p", "--redis.ss.inference-objective=o"],
        ...["--redis.ss.request-queue-name=in", "--redis.ss.result-queue-name=out", "--redis.ss.poll-interval-ms=50"],
        ...["--redis.ss.batch-size=64", "--redis.ss.gate-type=redis", '--redis.ss.gate-params={"address":"r:6379"}'],
      ],
      env,
    );
    expect(all.transport).toMatchObject({
      redis: { url: "redis://flag" },
      resultQueueName: "out",
      pollInterval: 50,
      batchCap: 64,
      queues: [
        {
          ...{ name: "in", requestPathUrl: "/p", inferenceObjective: "o" },
          gate: { type: "redis", parameters: { address: "r:6379" } },
        },
      ],
    });
  });

  it("of lists of queues: inline before the file, the file before a single queue", async () => {
    const inline = JSON.stringify([{ queue_name: "inline", igw_base_url: "http://g" }]);
    const path = file("queues.json", [{ queue_name: "file", igw_base_url: "http://g", worker_pool_id: "gpu" }]);
    const pools = file("gpu.json", [
      { id: "gpu", workers: 2 },
      { id: "default", workers: 1 },
    ]);
    const name = async (...args: string[]) =>
      (await optionsOf([...args, "--redis.url=redis://h", `--pool-config-file=${pools}`])).transport.queues[0]?.name;
    for (const [prefix, implementation] of [
      ["redis", "redis-pubsub"],
      ["redis.ss", "redis-sortedset"],
    ]) {
      const of = [`--message-queue-impl=${implementation}`, `--${prefix}.request-queue-name=single`];
      const list = `--${prefix}.queues-config-file=${path}`;
      expect(await name(...of, list, `--${prefix}.queues-config`, inline)).toBe("inline");
      expect(await name(...of, list)).toBe("file");
    }
  });

  it("of subscriptions, whose gates count only with gcp-pubsub-gated", async () => {
    const base = ["--pubsub.project-id=p", "--pubsub.result-topic-id=r"];
    const single = ["--message-queue-impl=gcp-pubsub", ...base, "--pubsub.igw-base-url=http://g"];
    expect((await optionsOf([...single, "--pubsub.request-subscriber-id=s"])).transport).toMatchObject({
      transport: "gcp-pubsub",
      projectId: "p",
      resultTopicId: "r",
      batchCap: undefined,
      queues: [{ id: "", name: "s", igwBaseUrl: "http://g", requestPathUrl: "/v1/completions" }],
    });
    const topics = `--pubsub.topics-config-file=${file("topics.json", [
      { subscriber_id: "t", igw_base_url: "http://g", gate_type: "constant" },
    ])}`;
    const gate = async (implementation: string) =>
      (await optionsOf([`--message-queue-impl=${implementation}`, ...base, topics, "--pubsub.batch-size=7"])).transport;
    expect(await gate("gcp-pubsub-gated")).toMatchObject({ batchCap: 7, queues: [{ gate: { type: "constant" } }] });
    expect((await gate("gcp-pubsub")).queues[0]?.gate).toBeUndefined();
  });

  it("are ignored, with another warning, when --transport is there", async () => {
    const { options, warnings } = await command([...INLINE, "--redis.url=redis://legacy", "--redis.ss.batch-size=3"]);
    expect(options.transport).toMatchObject({ redis: { url: "redis://localhost" }, batchCap: undefined });
    expect(warnings).toEqual([
      "--redis.url is deprecated and ignored, since --transport or --transport-config is given; use url in --transport-config",
      "--redis.ss.batch-size is deprecated and ignored, since --transport or --transport-config is given; use batch_size in --transport-config",
    ]);
    // Not even as the url that is missing.
    const without = JSON.stringify({ queues: SORTED.queues });
    expect(
      await failure(["--transport=redis-sortedset", `--transport-config=${without}`, "--redis.url=redis://legacy"]),
    ).toContain("url: is missing, and the environment variable REDIS_URL, too");
  });

  it.each<[args: readonly string[], message: string]>([
    [
      ["--message-queue-impl=redis-sortedset"],
      "--redis.ss.igw-base-url:1:1: queues[0].igw_base_url: must not be empty",
    ],
    [
      [...sorted, "--redis.ss.gate-type=redis", "--redis.ss.gate-params={"],
      "--redis.ss.gate-params:1:1: queues[0].gate_params: must be a mapping, or one as JSON text; this text is not JSON",
    ],
    [
      ["--message-queue-impl=redis-sortedset", '--redis.ss.queues-config=[{"queue_name":"q"}]'],
      "--redis.ss.queues-config:1:2: queues[0].igw_base_url: is missing (a string)",
    ],
    [
      ["--message-queue-impl=redis-sortedset", "--redis.ss.queues-config={}"],
      "--redis.ss.queues-config:1:1: queues: expected a list, got a mapping",
    ],
    [
      [...sorted, "--redis.url=redis://u:hunter2@h/x"],
      '--redis.url:1:1: url: Redis URL redis://h/x: the database must be a number, not "x"',
    ],
  ])("what is wrong with %j is told with the flag's name", async (args, message) => {
    expect(await failure(["--redis.url=redis://h", ...args])).toBe(
      `DOCUMENT_INVALID: invalid dispatch configuration: ${message}`,
    );
  });
});

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
    expect(warnings).toEqual(["--zap-stacktrace-level has no effect: a logged error has its own stack"]);
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
    ["health-port: 9090", "FLAG_CONFLICT: --health-port and --metrics-port are both 9090; give each a port of its own"],
    [
      "metrics-endpoint-auth: true",
      "FLAG_UNSUPPORTED: FOLDER/dispatch.yaml:7:1: metrics-endpoint-auth=true is not supported; remove it, or write false: then /metrics answers everyone",
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
      "FLAG_CONFLICT: FOLDER/dispatch.yaml has the configuration of a transport and no transport; write one of " +
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

describe("what is shown at start (A-85)", () => {
  it("is every flag, without secrets", async () => {
    const secret = JSON.stringify({ ...SORTED, url: "redis://:hunter2@h" });
    const { flags } = await command(
      [
        ...["--transport=redis-sortedset", `--transport-config=${secret}`, "--concurrency=5", "--request-timeout=4s"],
        ...["--prometheus-url=http://me:hunter2@prometheus", "--redis.igw-base-url=http://me:hunter2@g"],
        ...["--redis.queues-config=hunter2", "--redis.ss.queues-config=hunter2", "--redis.ss.gate-params=hunter2"],
      ],
      { REDIS_URL: "redis://:hunter2@environment" },
    );
    expect(JSON.stringify(flags)).not.toContain("hunter2");
    expect(Object.keys(flags)).toEqual([...DISPATCH_FLAGS, ...LEGACY_FLAGS].map(({ name }) => name));
    expect(flags).toMatchObject({
      transport: "redis-sortedset",
      "transport-config": "REDACTED",
      "redis.url": "REDACTED",
      "redis.ss.queues-config": "REDACTED",
      "prometheus-url": "http://REDACTED@prometheus",
      concurrency: "5",
      "request-timeout": "4000ms",
      "tls-cert": "",
    });
  });
});

describe("the transport that is shown", () => {
  it("is the one that counts, wherever it was said", async () => {
    const path = join(import.meta.dirname, "../../../examples/dispatch.yaml");
    expect((await command(["--config", path])).flags).toMatchObject({ config: path, transport: "sqlite" });
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
