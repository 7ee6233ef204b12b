import { describe, expect, it } from "vitest";
import type { SluiceError } from "../../../base/inference/errors.ts";
import type { QueueSettings } from "../../brokers/settings.ts";
import { Findings, parseConfigDocument } from "./config-document.ts";
import { checkPools, defaultPool, MAX_WORKERS, readPools } from "./options.ts";

function load(text: string) {
  const findings = new Findings();
  const pools = readPools(parseConfigDocument(text, "pools.json"), findings);
  findings.throwIfAny("pools");
  return { pools, warnings: findings.warnings };
}

function failure(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    expect((error as SluiceError).code).toBe("DOCUMENT_INVALID");
    return (error as SluiceError).message;
  }
  throw new Error("accepted");
}

describe("readPools", () => {
  it("reads the reference's file", () => {
    const text = `[
  {"id": "default", "workers": 64},
  {"id": "batch", "workers": 8, "gate_type": "wait-on-refuse", "gate_params": {"gate": {"gate_type": "constant"}}}
]`;
    expect(load(text)).toEqual({
      pools: [
        { id: "default", workers: 64, gate: undefined },
        {
          id: "batch",
          workers: 8,
          gate: { type: "wait-on-refuse", parameters: { gate: { gate_type: "constant" } } },
        },
      ],
      warnings: [],
    });
  });

  it.each([
    ['[{"id":"","workers":1}]', "pools.json:1:3: [0].id: must not be empty"],
    ['[{"workers":1}]', "pools.json:1:2: [0].id: is missing (a string)"],
    ['[{"id":"a","workers":0}]', "pools.json:1:12: [0].workers: must be at least 1, got 0"],
    ['[{"id":"a","workers":-3}]', "pools.json:1:12: [0].workers: must be at least 1, got -3"],
    ['[{"id":"a"}]', "pools.json:1:2: [0].workers: is missing (a number)"],
    ['[{"id":"a","workers":100001}]', "pools.json:1:12: [0].workers: must be at most 100000, got 100001"],
    [
      '[{"id":"a","workers":1},\n{"id":"a","workers":2}]',
      'pools.json:2:2: [1].id: duplicate id "a"; the pool at line 1 already has this id',
    ],
    [
      '[{"id":"a","workers":1,"gate_typ":"constant","gate_params":{"a":1}}]',
      "pools.json:1:46: [0].gate_params: is set, but `gate_type` is missing; add `gate_type`\n" +
        "  pools.json:1:24: [0].gate_typ: unknown key, ignored; did you mean `gate_type`?",
    ],
    ["[]", "pools.json:1:1: must have at least 1 entries, has 0"],
    ['{"id":"a"}', "pools.json:1:1: expected a list, got a mapping"],
    ["", "pools.json:1:1: expected a list, got nothing"],
  ])("refuses %s (A-71)", (text, message) => {
    expect(failure(() => load(text))).toBe(`invalid pools: ${message}`);
  });

  it("warns of keys that nobody reads", () => {
    expect(load('[{"id":"a","workers":1,"wokers":2}]').warnings).toEqual([
      "pools.json:1:24: [0].wokers: unknown key, ignored; did you mean `workers`?",
    ]);
  });

  it("takes as many workers as it says", () => {
    expect(load(`[{"id":"a","workers":${MAX_WORKERS}}]`).pools[0]?.workers).toBe(MAX_WORKERS);
  });
});

describe("checkPools", () => {
  const check = (poolIds: readonly string[], ...wanted: string[]) => {
    const queues = wanted.map((workerPoolId) => ({ workerPoolId }) as QueueSettings);
    const document = parseConfigDocument(
      `queues:\n${wanted.map((id) => `- worker_pool_id: ${id}`).join("\n")}`,
      "d.yaml",
    );
    const findings = new Findings();
    const pools = poolIds.map((id) => ({ ...defaultPool(1), id }));
    checkPools(queues, pools, document, "queues", findings);
    findings.throwIfAny("configuration");
    return findings.warnings;
  };

  it("refuses a queue whose pool is not there, and lists those that are (A-71)", () => {
    expect(failure(() => check(["default", "embeddings"], "default", "embedings"))).toBe(
      'invalid configuration: d.yaml:3:3: queues[1].worker_pool_id: there is no worker pool "embedings", only default, ' +
        "embeddings; did you mean `embeddings`?",
    );
    // A file of pools without `default` leaves the queues that name none without a pool.
    expect(failure(() => check(["gpu"], "default"))).toContain('there is no worker pool "default", only gpu');
  });

  it("warns of a pool that nothing is sent to", () => {
    expect(check(["a", "b"], "a", "a")).toEqual([
      'd.yaml:1:1: queues: no queue has the worker_pool_id "b": that pool gets no workers',
    ]);
  });
});
