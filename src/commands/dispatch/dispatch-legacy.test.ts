import { describe, expect, it } from "vitest";
import { command, failure, file, INLINE, optionsOf, SORTED } from "../../../test/support/dispatch/flags.cases.ts";

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
    ).toContain("url: is missing, and so is the environment variable REDIS_URL");
  });

  it.each<[args: readonly string[], message: string]>([
    [
      ["--message-queue-impl=redis-sortedset"],
      "--redis.ss.igw-base-url:1:1: queues[0].igw_base_url: must not be empty",
    ],
    [
      [...sorted, "--redis.ss.gate-type=redis", "--redis.ss.gate-params={"],
      "--redis.ss.gate-params:1:1: queues[0].gate_params: must be a mapping, or the same as JSON text; this text is not JSON",
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
