import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { clientAuthority } from "../../../../test/support/certificates.ts";
import type { SluiceError } from "../../../base/inference/errors.ts";
import type { TransportSettings } from "../../brokers/settings.ts";
import { type ConfigDocument, Findings, parseConfigDocument } from "./config-document.ts";
import type { TransportName } from "./transport-fields.ts";
import { readTransport } from "./transport-file.ts";

const folder = mkdtempSync(join(tmpdir(), "sluice-transport-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Options {
  readonly redisUrl?: string;
  readonly gated?: boolean;
}

async function load(name: TransportName, config: object | string, { redisUrl, gated = true }: Options = {}) {
  const text = typeof config === "string" ? config : JSON.stringify(config, null, 1);
  const document: ConfigDocument = { ...parseConfigDocument(text, "t.yaml"), folder };
  const findings = new Findings();
  const settings = await readTransport(name, document, { redisUrl, gated }, findings);
  findings.throwIfAny("configuration");
  return { settings: settings as TransportSettings, warnings: findings.warnings };
}

async function read<N extends TransportName>(name: N, config: object | string, options?: Options) {
  return (await load(name, config, options)).settings as Extract<TransportSettings, { transport: N }>;
}

async function failure(name: TransportName, config: object | string, options?: Options): Promise<string> {
  try {
    await load(name, config, options);
  } catch (error) {
    expect((error as SluiceError).code).toBe("DOCUMENT_INVALID");
    return (error as SluiceError).message;
  }
  throw new Error("accepted");
}

const url = "redis://localhost:6379";
const QUEUE = { queue_name: "q", igw_base_url: "http://gateway" };
const SORTED = { url, queues: [QUEUE] };
const TOPIC = { subscriber_id: "s", igw_base_url: "http://gateway" };
const PUBSUB = { project_id: "p", result_topic_id: "r", topics: [TOPIC] };
const DEFAULT_QUEUE = {
  id: "q",
  name: "q",
  workerPoolId: "default",
  inferenceObjective: "",
  igwBaseUrl: "http://gateway",
  requestPathUrl: "/v1/completions",
  labels: {},
  gate: undefined,
  resultQueueName: undefined,
  trustMessageLabels: true,
  allowedEndpoints: undefined,
  maxQueueShare: 1,
};
const DEFAULT_LEASES = { claimTtl: 60_000, reclaimInterval: 5_000, maxAttempts: 0 };

describe("defaults (A-40)", () => {
  it("of redis-sortedset", async () => {
    expect(await load("redis-sortedset", SORTED)).toEqual({
      settings: {
        transport: "redis-sortedset",
        redis: { url, tls: {}, enableTracing: false },
        resultQueueName: "result-list",
        retryQueueName: "retry-sortedset",
        queues: [DEFAULT_QUEUE],
        pollInterval: 1_000,
        batchCap: undefined,
        leases: DEFAULT_LEASES,
      },
      warnings: [],
    });
  });

  it("of redis-pubsub, whose retries have a place of their own", async () => {
    const { settings, warnings } = await load("redis-pubsub", SORTED);
    expect(settings).toEqual({
      transport: "redis-pubsub",
      redis: { url, tls: {}, enableTracing: false },
      resultQueueName: "result-queue",
      retryQueueName: "retry-pubsub",
      queues: [DEFAULT_QUEUE],
      pollInterval: 1_000,
      batchCap: undefined,
      leases: DEFAULT_LEASES,
    });
    expect(warnings).toEqual([
      expect.stringContaining(
        "retries wait in the queue retry-pubsub: the default of the reference, retry-sortedset, is also",
      ),
    ]);
  });

  it("of gcp-pubsub, whose queues have no id", async () => {
    expect(await load("gcp-pubsub", PUBSUB)).toEqual({
      settings: {
        transport: "gcp-pubsub",
        projectId: "p",
        resultTopicId: "r",
        queues: [{ ...DEFAULT_QUEUE, id: "", name: "s" }],
        pollInterval: 1_000,
        batchCap: undefined,
        leases: DEFAULT_LEASES,
      },
      warnings: [],
    });
  });

  it("of sqlite, whose path starts at the file's folder", async () => {
    expect(await load("sqlite", { path: "q.db", queues: [QUEUE] })).toEqual({
      settings: {
        transport: "sqlite",
        path: join(folder, "q.db"),
        resultQueueName: "result-list",
        queues: [DEFAULT_QUEUE],
        pollInterval: 1_000,
        batchCap: undefined,
        leases: DEFAULT_LEASES,
      },
      warnings: [],
    });
  });

  it("stand for what Go cannot tell from nothing: 0, empty texts and null", async () => {
    const queue = {
      ...{ id: "", queue_name: "q", worker_pool_id: "", inference_objective: null, request_path_url: "" },
      ...{ igw_base_url: "http://gateway", labels: null, gate_type: "", gate_params: {}, result_queue_name: "" },
      ...{ trust_message_labels: null, allowed_endpoints: null, max_queue_share: null },
    };
    const empty = {
      ...{ url, result_queue_name: "", retry_queue_name: null, poll_interval_ms: 0, batch_size: 0 },
      ...{ enable_tracing: null, claim_ttl_ms: 0, reclaim_interval_ms: 0, max_attempts: 0, tls_ca_cert: "" },
    };
    expect(await read("redis-sortedset", { ...empty, queues: [queue] })).toEqual(await read("redis-sortedset", SORTED));
  });
});

describe("the reference's own files", () => {
  it("of a sorted set", async () => {
    const file = `{
	"url": "rediss://user:p%40ss@redis.example:6380/2",
	"result_queue_name": "results",
	"retry_queue_name": "retries",
	"poll_interval_ms": 250,
	"batch_size": 20,
	"enable_tracing": true,
	"queues": [
		{"id": "gold", "queue_name": "gold-queue", "result_queue_name": "gold-results", "worker_pool_id": "fast",
		 "inference_objective": "premium", "request_path_url": "/v1/chat/completions", "igw_base_url": "https://gw.example/base/",
		 "gate_type": "redis-quota", "gate_params": {"address": "redis:6379", "limit": "10"}, "labels": {"tier": "interactive"}},
		{"queue_name": "plain", "igw_base_url": "http://gw:80"}
	]
}`;
    expect(await load("redis-sortedset", file)).toEqual({
      settings: {
        transport: "redis-sortedset",
        redis: { url: "rediss://user:p%40ss@redis.example:6380/2", tls: {}, enableTracing: true },
        resultQueueName: "results",
        retryQueueName: "retries",
        queues: [
          {
            ...DEFAULT_QUEUE,
            id: "gold",
            name: "gold-queue",
            resultQueueName: "gold-results",
            workerPoolId: "fast",
            inferenceObjective: "premium",
            requestPathUrl: "/v1/chat/completions",
            igwBaseUrl: "https://gw.example/base/",
            gate: { type: "redis-quota", parameters: { address: "redis:6379", limit: "10" } },
            labels: { tier: "interactive" },
          },
          { ...DEFAULT_QUEUE, id: "plain", name: "plain", igwBaseUrl: "http://gw:80" },
        ],
        pollInterval: 250,
        batchCap: 20,
        leases: DEFAULT_LEASES,
      },
      warnings: [],
    });
  });

  it("of channels", async () => {
    const file = {
      ...{ url, retry_queue_name: "mine", result_queue_name: "out", enable_tracing: true },
      queues: [{ ...QUEUE, worker_pool_id: "w", inference_objective: "o", request_path_url: "/p", labels: { a: "b" } }],
    };
    const { settings, warnings } = await load("redis-pubsub", file);
    expect(warnings).toEqual([]);
    expect(settings).toMatchObject({
      redis: { enableTracing: true },
      retryQueueName: "mine",
      resultQueueName: "out",
      queues: [{ workerPoolId: "w", inferenceObjective: "o", requestPathUrl: "/p", labels: { a: "b" } }],
    });
  });

  it("of subscriptions", async () => {
    const gate = { gate_type: "prometheus-query", gate_params: { query: "vector(1)" } };
    const file = { ...PUBSUB, batch_size: 30, topics: [{ ...TOPIC, ...gate, worker_pool_id: "w" }] };
    expect(await load("gcp-pubsub", file)).toMatchObject({
      settings: {
        batchCap: 30,
        queues: [{ workerPoolId: "w", gate: { type: "prometheus-query", parameters: { query: "vector(1)" } } }],
      },
      warnings: [],
    });
    // The reference's `--message-queue-impl=gcp-pubsub` passes gates over.
    expect((await read("gcp-pubsub", file, { gated: false })).queues[0]?.gate).toBeUndefined();
  });

  it("of a sorted set with leases, after v0.9.0", async () => {
    const { leases } = await read("redis-sortedset", {
      ...SORTED,
      ...{ claim_lease_ttl_seconds: 300, claim_reclaim_interval_ms: 15_000, max_attempts: 2 },
    });
    expect(leases).toEqual({ claimTtl: 300_000, reclaimInterval: 15_000, maxAttempts: 2 });
  });

  it("as YAML, with our fields", async () => {
    const file = `
url: redis://localhost
claim_ttl_ms: 30000
reclaim_interval_ms: 1000
max_attempts: 3
queues:
- queue_name: q
  igw_base_url: http://gateway
  trust_message_labels: false
  allowed_endpoints: [/v1/, /health]
  max_queue_share: 0.5
  gate_type: composite
  gate_params:
    gates:
    - gate_type: constant
`;
    expect(await read("redis-sortedset", file)).toMatchObject({
      leases: { claimTtl: 30_000, reclaimInterval: 1_000, maxAttempts: 3 },
      queues: [
        {
          trustMessageLabels: false,
          allowedEndpoints: ["/v1/", "/health"],
          maxQueueShare: 0.5,
          gate: { type: "composite", parameters: { gates: [{ gate_type: "constant" }] } },
        },
      ],
    });
  });

  it("with gate parameters as JSON text (A-14)", async () => {
    const queue = { ...QUEUE, gate_type: "constant", gate_params: '{"limit": 5, "nested": {"a": [1]}}' };
    expect((await read("redis-sortedset", { url, queues: [queue] })).queues[0]?.gate).toEqual({
      type: "constant",
      parameters: { limit: 5, nested: { a: [1] } },
    });
  });
});

describe("mistakes are told with their place (A-40)", () => {
  const one = (problem: string) => `invalid configuration: ${problem}`;
  const sorted = (text: string) => `url: redis://localhost\n${text}`;
  const queue = (text: string) => sorted(`queues:\n- queue_name: q\n  igw_base_url: http://gateway\n${text}`);

  it.each<[what: string, TransportName, text: string, message: string]>([
    ["no queues", "redis-sortedset", sorted("batch_size: 1"), "t.yaml:1:1: queues: is missing (a list)"],
    [
      "none in the list",
      "redis-sortedset",
      sorted("queues: []"),
      "t.yaml:2:1: queues: must have at least 1 entries, has 0",
    ],
    [
      "a queue without a name",
      "redis-sortedset",
      sorted("queues:\n- igw_base_url: http://g"),
      "t.yaml:3:3: queues[0].queue_name: is missing (a string)",
    ],
    [
      "a queue without a gateway",
      "redis-sortedset",
      sorted("queues:\n- queue_name: q"),
      "t.yaml:3:3: queues[0].igw_base_url: is missing (a string)",
    ],
    [
      "a gateway without a scheme",
      "redis-sortedset",
      sorted("queues:\n- queue_name: q\n  igw_base_url: gateway:80"),
      't.yaml:4:3: queues[0].igw_base_url: must be an absolute URL that begins with http:// or https://, such as http://gateway:8080, got "gateway:80"',
    ],
    [
      "a gateway of another scheme",
      "redis-sortedset",
      sorted("queues:\n- {queue_name: q, igw_base_url: 'grpc://g'}"),
      't.yaml:3:19: queues[0].igw_base_url: must be an absolute URL that begins with http:// or https://, such as http://gateway:8080, got "grpc://g"',
    ],
    [
      "a gateway that is no URL",
      "redis-sortedset",
      sorted("queues:\n- {queue_name: q, igw_base_url: 'http://'}"),
      't.yaml:3:19: queues[0].igw_base_url: must be an absolute URL that begins with http:// or https://, such as http://gateway:8080, got "http://"',
    ],
    [
      "a negative batch",
      "redis-sortedset",
      queue("batch_size: -1"),
      "t.yaml:5:1: batch_size: must be from 1 to 2147483647, got -1",
    ],
    [
      "a negative poll interval",
      "redis-sortedset",
      queue("poll_interval_ms: -5"),
      "t.yaml:5:1: poll_interval_ms: must be from 1 to 2147483647, got -5",
    ],
    [
      "a fraction",
      "redis-sortedset",
      queue("poll_interval_ms: 0.5"),
      "t.yaml:5:1: poll_interval_ms: expected a whole number, got 0.5",
    ],
    [
      "a lease too short to renew",
      "redis-sortedset",
      queue("claim_ttl_ms: 500"),
      "t.yaml:5:1: claim_ttl_ms: must be from 2000 to 2147483647, got 500",
    ],
    [
      "both names of a lease",
      "redis-sortedset",
      queue("claim_ttl_ms: 5000\nclaim_lease_ttl_seconds: 5"),
      "t.yaml:6:1: claim_lease_ttl_seconds: is an alias of claim_ttl_ms, and the section has both; keep one",
    ],
    [
      "both names of an interval",
      "redis-sortedset",
      queue("reclaim_interval_ms: 500\nclaim_reclaim_interval_ms: 500"),
      "t.yaml:6:1: claim_reclaim_interval_ms: is an alias of reclaim_interval_ms, and the section has both; keep one",
    ],
    [
      "negative attempts",
      "sqlite",
      "path: q.db\nmax_attempts: -1\nqueues: [{queue_name: q, igw_base_url: 'http://g'}]",
      "t.yaml:2:1: max_attempts: must be from 1 to 2147483647, got -1",
    ],
    [
      "a number for a text",
      "redis-sortedset",
      queue("  worker_pool_id: 7"),
      "t.yaml:5:3: queues[0].worker_pool_id: expected a string, got 7",
    ],
    [
      "a label that is a number",
      "redis-sortedset",
      queue("  labels: {tier: 1}"),
      "t.yaml:5:12: queues[0].labels.tier: expected a string, got 1",
    ],
    [
      "a share of nothing",
      "redis-sortedset",
      queue("  max_queue_share: 0"),
      "t.yaml:5:3: queues[0].max_queue_share: must be more than 0, got 0",
    ],
    [
      "a share of more than all",
      "redis-sortedset",
      queue("  max_queue_share: 1.5"),
      "t.yaml:5:3: queues[0].max_queue_share: must be at most 1, got 1.5",
    ],
    [
      "an endpoint that is no path",
      "redis-sortedset",
      queue("  allowed_endpoints: [v1]"),
      "t.yaml:5:23: queues[0].allowed_endpoints[0]: must be a path that begins with /, such as /v1/",
    ],
    [
      "parameters without a gate",
      "redis-sortedset",
      queue("  gate_typ: constant\n  gate_params: {a: 1}"),
      "t.yaml:6:3: queues[0].gate_params: is set, but `gate_type` is missing; add `gate_type`\n" +
        "  t.yaml:5:3: queues[0].gate_typ: unknown key, ignored; did you mean `gate_type`?",
    ],
    [
      "a mistyped list of queues",
      "redis-sortedset",
      "url: redis://r\nqueus: []\n",
      "t.yaml:1:1: queues: is missing (a list)\n" + "  t.yaml:2:1: queus: unknown key, ignored; did you mean `queues`?",
    ],
    [
      "parameters that are no JSON",
      "redis-sortedset",
      queue("  gate_type: constant\n  gate_params: '{pw'"),
      "t.yaml:6:3: queues[0].gate_params: must be a mapping, or the same as JSON text; this text is not JSON",
    ],
    [
      "parameters in a list",
      "redis-sortedset",
      queue("  gate_type: constant\n  gate_params: [1]"),
      "t.yaml:6:3: queues[0].gate_params: must be a mapping, or the same as JSON text, got a list",
    ],
    [
      "a name twice",
      "redis-sortedset",
      queue("- queue_name: q\n  id: other\n  igw_base_url: http://g"),
      't.yaml:5:3: queues[1].queue_name: duplicate queue_name "q"; queues[0] at line 3 already has this value',
    ],
    [
      "an id twice, once by default",
      "redis-sortedset",
      queue("- queue_name: q2\n  id: q\n  igw_base_url: http://g"),
      't.yaml:6:3: queues[1].id: duplicate id "q"; queues[0] at line 3 already has this value',
    ],
    [
      "a channel twice",
      "redis-pubsub",
      queue("- queue_name: q\n  igw_base_url: http://g"),
      't.yaml:5:3: queues[1].queue_name: duplicate queue_name "q"; queues[0] at line 3 already has this value',
    ],
    [
      "retries in a queue",
      "redis-sortedset",
      queue("retry_queue_name: q"),
      't.yaml:5:1: retry_queue_name: "q" is also a queue_name',
    ],
    [
      "results in a queue",
      "redis-sortedset",
      queue("result_queue_name: q"),
      't.yaml:5:1: result_queue_name: "q" is also a queue_name or the retry_queue_name',
    ],
    [
      "a queue's results among retries",
      "redis-sortedset",
      queue("  result_queue_name: retry-sortedset"),
      't.yaml:5:3: queues[0].result_queue_name: "retry-sortedset" is also a queue_name or the retry_queue_name',
    ],
    [
      "results that come back as requests",
      "redis-pubsub",
      queue("result_queue_name: q"),
      "t.yaml:5:1: result_queue_name: is also the channel of a queue: results would come back as requests",
    ],
    [
      "no project",
      "gcp-pubsub",
      "result_topic_id: r\ntopics: [{subscriber_id: s, igw_base_url: 'http://g'}]",
      "t.yaml:1:1: project_id: is missing (a string)",
    ],
    [
      "no topic for results",
      "gcp-pubsub",
      "project_id: p\ntopics: [{subscriber_id: s, igw_base_url: 'http://g'}]",
      "t.yaml:1:1: result_topic_id: is missing (a string)",
    ],
    ["no topics", "gcp-pubsub", "project_id: p\nresult_topic_id: r", "t.yaml:1:1: topics: is missing (a list)"],
    [
      "a batch of nothing",
      "gcp-pubsub",
      "project_id: p\nresult_topic_id: r\nbatch_size: 0\ntopics: [{subscriber_id: s, igw_base_url: 'http://g'}]",
      "t.yaml:3:1: batch_size: must be at least 1, got 0",
    ],
    [
      "a topic without a subscription",
      "gcp-pubsub",
      "project_id: p\nresult_topic_id: r\ntopics: [{igw_base_url: 'http://g'}]",
      "t.yaml:3:10: topics[0].subscriber_id: is missing (a string)",
    ],
    [
      "a subscription twice",
      "gcp-pubsub",
      "project_id: p\nresult_topic_id: r\ntopics: [{subscriber_id: s, igw_base_url: 'http://g'}, {subscriber_id: s, igw_base_url: 'http://g'}]",
      't.yaml:3:57: topics[1].subscriber_id: duplicate subscriber_id "s"; topics[0] at line 3 already has this value',
    ],
    [
      "no path",
      "sqlite",
      "queues: [{queue_name: q, igw_base_url: 'http://g'}]",
      "t.yaml:1:1: path: is missing (a string)",
    ],
    ["a list for the whole", "redis-sortedset", "- a", "t.yaml:1:1: expected a mapping, got a list"],
    ["nothing at all", "redis-sortedset", "", "t.yaml:1:1: expected a mapping, got nothing"],
  ])("%s", async (_, name, text, message) => {
    expect(await failure(name, text)).toBe(one(message));
  });

  it("all of them at once", async () => {
    const text = "batch_size: -1\nqueues:\n- {}\n- queue_name: 3\n  igw_base_url: x\n";
    expect((await failure("redis-sortedset", text)).split("\n")).toHaveLength(6);
  });

  it("never with the password of a gateway", async () => {
    const text = "url: redis://h\nqueues: [{queue_name: q, igw_base_url: 'user:hunter2@g'}]";
    expect(await failure("redis-sortedset", text)).not.toContain("hunter2");
  });
});

describe("what nobody reads is warned about (H-47)", () => {
  it("with its place and the nearest key", async () => {
    const text = `url: redis://localhost
poll_interval: 5
queues:
- queue_name: q
  igw_base_url: http://gateway
  gate_typ: constant
  colour: blue
`;
    expect((await load("redis-sortedset", text)).warnings).toEqual([
      "t.yaml:2:1: poll_interval: unknown key, ignored; did you mean `poll_interval_ms`?",
      "t.yaml:6:3: queues[0].gate_typ: unknown key, ignored; did you mean `gate_type`?",
      "t.yaml:7:3: queues[0].colour: unknown key, ignored",
    ]);
  });

  it("a gate on a channel, which has none", async () => {
    const queue = { ...QUEUE, gate_type: "constant", gate_params: { a: 1 } };
    const { settings, warnings } = await load("redis-pubsub", { url, retry_queue_name: "mine", queues: [queue] });
    expect(settings.queues[0]?.gate).toBeUndefined();
    expect(warnings.map((text) => text.replace(/^\S+ /, ""))).toEqual([
      "queues[0].gate_type: has no effect: channels have no gate; set this key on the worker pool",
      "queues[0].gate_params: has no effect: channels have no gate; set this key on the worker pool",
    ]);
  });

  it("retries of channels in the place of those of sorted sets", async () => {
    const { settings, warnings } = await load("redis-pubsub", { ...SORTED, retry_queue_name: "retry-sortedset" });
    expect(settings).toMatchObject({ retryQueueName: "retry-sortedset" });
    expect(warnings).toEqual([expect.stringContaining("is also the default of redis-sortedset")]);
  });
});

describe("the Redis server (A-41)", () => {
  const withUrl = (text: string) => ({ url: text, queues: [QUEUE] });

  it("is the url's, then that of REDIS_URL", async () => {
    const redisUrl = "redis://elsewhere";
    expect((await read("redis-sortedset", SORTED, { redisUrl })).redis.url).toBe(url);
    expect((await read("redis-sortedset", withUrl(""), { redisUrl })).redis.url).toBe(redisUrl);
    expect((await read("redis-pubsub", { queues: [QUEUE] }, { redisUrl })).redis.url).toBe(redisUrl);
  });

  it("has to be named", async () => {
    for (const redisUrl of [undefined, ""])
      expect(
        await failure(
          "redis-sortedset",
          "queues: [{queue_name: q, igw_base_url: 'http://g'}]",
          redisUrl === undefined ? {} : { redisUrl },
        ),
      ).toBe("invalid configuration: t.yaml:1:1: url: is missing, and so is the environment variable REDIS_URL");
  });

  it.each([
    ["localhost:6379", "the URL must begin with redis:// or rediss://"],
    ["http://:hunter2@h", "the URL must begin with redis:// or rediss://"],
    ["redis://u:hunter2@h/first", 'the database must be a number, not "first"'],
    ["redis://:hunter2%zz@h", "the user or the password is not correctly percent-encoded"],
    ["redis://h:port", "it is not a URL"],
  ])("%s is refused, without its password", async (text, problem) => {
    const message = await failure("redis-sortedset", withUrl(text));
    expect(message).toMatch(/^invalid configuration: t\.yaml:2:2: url: Redis URL /);
    expect(message).toContain(problem);
    expect(message).not.toContain("hunter2");
    const { message: other } = await load("redis-sortedset", { queues: [QUEUE] }, { redisUrl: text }).then(
      () => ({ message: "accepted" }),
      (error: SluiceError) => error,
    );
    expect(other).toContain("url: from the environment's REDIS_URL: Redis URL");
  });

  it("is told which options in its url mean nothing here", async () => {
    const { warnings } = await load(
      "redis-sortedset",
      withUrl("redis://h?pool_size=5&db=1&pool_size=6&read_timeout=3s"),
    );
    expect(warnings).toEqual([
      "t.yaml:2:2: url: these options have no effect, because the Redis client of Sluice does not support them: pool_size, read_timeout",
    ]);
  });
});

describe("TLS to the Redis server", () => {
  let authority: Awaited<ReturnType<typeof clientAuthority>>;
  const secure = { url: "rediss://h", queues: [QUEUE] };
  const place = (name: string) => join(folder, name);
  beforeAll(async () => {
    authority = await clientAuthority();
    writeFileSync(place("ca.pem"), authority.ca);
    writeFileSync(place("client.pem"), authority.client.cert);
    writeFileSync(place("client.key"), authority.client.key);
    writeFileSync(place("other.key"), (await clientAuthority()).client.key);
    writeFileSync(place("nonsense.pem"), "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    writeFileSync(place("empty.pem"), "");
  });

  it("reads the files, relative to the configuration's folder", async () => {
    const files = { tls_ca_cert: "ca.pem", tls_cert: place("client.pem"), tls_key: "client.key" };
    for (const name of ["redis-sortedset", "redis-pubsub"] as const)
      expect((await read(name, { ...secure, ...files })).redis.tls).toEqual({
        ca: authority.ca,
        cert: authority.client.cert,
        key: authority.client.key,
      });
    expect((await read("redis-sortedset", { ...secure, tls_ca_cert: "ca.pem" })).redis.tls).toEqual({
      ca: authority.ca,
    });
  });

  it("reads each file by the name that gates have, too, and beside the usual names of others", async () => {
    const others = { tls_ca_file: "ca.pem", tls_cert_file: "client.pem", tls_key_file: "client.key" };
    const { ca, client } = authority;
    for (const name of ["redis-sortedset", "redis-pubsub"] as const) {
      expect((await read(name, { ...secure, ...others })).redis.tls).toEqual({
        ca,
        cert: client.cert,
        key: client.key,
      });
      const mixed = { tls_ca_cert: "ca.pem", tls_cert: "client.pem", tls_key_file: "client.key" };
      expect((await read(name, { ...secure, ...mixed })).redis.tls).toEqual({ ca, cert: client.cert, key: client.key });
    }
    const same = { tls_ca_cert: "ca.pem", tls_ca_file: "ca.pem" };
    expect((await read("redis-sortedset", { ...secure, ...same })).redis.tls).toEqual({ ca });
    expect(await failure("redis-sortedset", { ...secure, tls_ca_file: "missing.pem" })).toContain(
      "/missing.pem does not exist",
    );
    expect(await failure("redis-sortedset", { ...SORTED, tls_ca_file: "ca.pem" })).toContain(
      "tls_ca_file: needs TLS: use a rediss:// url",
    );
  });

  it.each([
    [{ tls_cert: "client.pem" }, "tls_cert: a client certificate and its key must be given together"],
    [{ tls_key: "client.key" }, "tls_key: a client certificate and its key must be given together"],
    [{ tls_ca_cert: "missing.pem" }, "tls_ca_cert: FOLDER/missing.pem does not exist"],
    [{ tls_ca_cert: "empty.pem" }, "tls_ca_cert: FOLDER/empty.pem must hold one or more readable PEM certificates"],
    [
      { tls_ca_cert: "nonsense.pem" },
      "tls_ca_cert: FOLDER/nonsense.pem must hold one or more readable PEM certificates",
    ],
    [{ tls_cert: "nonsense.pem", tls_key: "client.key" }, "tls_cert: FOLDER/nonsense.pem holds no PEM certificate"],
    [
      { tls_cert: "client.pem", tls_key: "ca.pem" },
      "tls_key: FOLDER/ca.pem must hold a PEM private key without a passphrase",
    ],
    [
      { tls_cert: "client.pem", tls_key: "other.key" },
      "tls_key: the key in FOLDER/other.key does not belong to the certificate in FOLDER/client.pem",
    ],
  ])("refuses %o", async (files, problem) => {
    expect(await failure("redis-sortedset", { ...secure, ...files })).toContain(
      `: ${problem.replaceAll("FOLDER", folder)}`,
    );
  });

  it("is asked for by the url", async () => {
    expect(await failure("redis-sortedset", { ...SORTED, tls_ca_cert: "ca.pem" })).toContain(
      "tls_ca_cert: needs TLS: use a rediss:// url",
    );
  });
});

describe("the database of sqlite", () => {
  it("needs a folder that is there, and is none itself", async () => {
    const at = (path: string) => `path: ${path}\nqueues: [{queue_name: q, igw_base_url: 'http://g'}]`;
    expect(await failure("sqlite", at("missing/q.db"))).toBe(
      `invalid configuration: t.yaml:1:1: path: there is no folder ${join(folder, "missing")} for the database; create the folder first`,
    );
    mkdirSync(join(folder, "folder"));
    expect(await failure("sqlite", at("folder"))).toBe(
      `invalid configuration: t.yaml:1:1: path: ${join(folder, "folder")} is a folder; name a file in it, such as queue.db`,
    );
    expect((await read("sqlite", at("folder/q.db"))).path).toBe(join(folder, "folder", "q.db"));
  });
});
