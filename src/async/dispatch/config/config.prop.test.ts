import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { SluiceError } from "../../../base/inference/errors.ts";
import { Findings, parseConfigDocument } from "./config-document.ts";
import { readPools } from "./options.ts";
import { TRANSPORTS, type TransportName } from "./transport-fields.ts";
import { readTransport } from "./transport-file.ts";

const KEYS = [
  ...["url", "path", "project_id", "result_topic_id", "queues", "topics", "batch_size", "poll_interval_ms"],
  ...["claim_ttl_ms", "result_queue_name", "retry_queue_name", "tls_ca_cert", "constructor"],
];
const QUEUE_KEYS = [
  ...["id", "queue_name", "subscriber_id", "igw_base_url", "worker_pool_id", "labels", "gate_type", "gate_params"],
  ...["allowed_endpoints", "max_queue_share", "result_queue_name", "toString"],
];
const leaf = fc.oneof(
  fc.constantFrom<unknown>("", "q", "http://g", "redis://h", "/", "{}", null, 0, 1, -1, 0.5, true),
  fc.jsonValue({ maxDepth: 2 }),
);
const queue = fc.oneof(
  fc.dictionary(fc.constantFrom(...QUEUE_KEYS), leaf),
  fc.record({
    queue_name: fc.constantFrom("a", "b"),
    subscriber_id: fc.constantFrom("a", "b"),
    igw_base_url: fc.constant("http://g"),
  }),
);
const section = fc
  .tuple(
    fc.dictionary(fc.constantFrom(...KEYS), leaf),
    fc.option(fc.array(queue, { maxLength: 3 }), { nil: undefined }),
  )
  .map(([fields, queues]) => (queues === undefined ? fields : { ...fields, queues, topics: queues }));
const anything = fc.oneof({ weight: 4, arbitrary: section }, { weight: 1, arbitrary: fc.jsonValue() });

async function read(name: TransportName, value: unknown) {
  const findings = new Findings();
  let settings: Awaited<ReturnType<typeof readTransport>>;
  let refused: unknown;
  try {
    // Values may have the key `__proto__`, which no document may.
    const document = parseConfigDocument(JSON.stringify(value), "c");
    settings = await readTransport(name, document, { redisUrl: "redis://h", gated: true }, findings);
    findings.throwIfAny("configuration");
  } catch (error) {
    refused = error;
  }
  return { settings, refused };
}

describe("whatever a configuration holds", () => {
  it("there are settings, or it is said what is wrong", async () => {
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...TRANSPORTS), anything, async (name, value) => {
        const { settings, refused } = await read(name, value);
        if (refused === undefined) expect(settings?.queues.length).toBeGreaterThan(0);
        else expect(refused).toBeInstanceOf(SluiceError);
      }),
      { numRuns: 500 },
    );
  });

  it("no two queues that are accepted have a name in common", async () => {
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...TRANSPORTS), section, async (name, value) => {
        const { settings, refused } = await read(name, value);
        const names = (refused === undefined ? (settings?.queues ?? []) : []).map((found) => found.name);
        expect(new Set(names).size).toBe(names.length);
      }),
      { numRuns: 300 },
    );
  });
});

describe("lists are bounded", () => {
  const queues = (count: number) =>
    Array.from({ length: count }, (_, at) => ({ queue_name: `q${at}`, igw_base_url: "http://g" }));

  it("of queues", async () => {
    expect((await read("redis-sortedset", { queues: queues(10_000) })).settings?.queues).toHaveLength(10_000);
    expect((await read("redis-sortedset", { queues: queues(10_001) })).refused).toMatchObject({
      message: "invalid configuration: c:1:2: queues: must have at most 10000 entries, has 10001",
    });
  });

  it("of paths, and of pools", async () => {
    const paths = Array.from({ length: 1_001 }, () => "/");
    expect(
      (await read("redis-sortedset", { queues: [{ ...queues(1)[0], allowed_endpoints: paths }] })).refused,
    ).toMatchObject({
      message: expect.stringContaining("allowed_endpoints: must have at most 1000 entries, has 1001"),
    });
    const findings = new Findings();
    const pools = Array.from({ length: 1_001 }, (_, at) => ({ id: `p${at}`, workers: 1 }));
    readPools(parseConfigDocument(JSON.stringify(pools), "p"), findings);
    expect(() => findings.throwIfAny("pools")).toThrow("must have at most 1000 entries, has 1001");
  });
});
