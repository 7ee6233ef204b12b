import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { clientAuthority } from "../../../test/support/certificates.ts";
import {
  command,
  failure,
  file,
  folder,
  INLINE,
  optionsOf,
  SORTED,
} from "../../../test/support/dispatch/flags.cases.ts";
import { MAX_WORKERS } from "../../async/dispatch/config/options.ts";
import type { FlagRow } from "../common/go-flags.ts";
import { DISPATCH_FLAGS } from "./dispatch-flag-table.ts";
import { LEGACY_FLAGS } from "./dispatch-legacy-table.ts";

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
      "--request-merge-policy-config is deprecated: use --request-merge-policy-config-file, which overrides this flag",
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
      'environment variable LOG_LEVEL is ignored: "loud" is neither a number nor one of trace, debug, info, warn, warning, error',
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
    [[...INLINE, "--health-port=9090"], "--health-port and --metrics-port are both 9090; give each its own port"],
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
      "FLAG_UNSUPPORTED: --metrics-endpoint-auth=true is not supported; remove the flag, or write false: then " +
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
