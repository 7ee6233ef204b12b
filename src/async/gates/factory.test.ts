import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { Collected, factory, LogLines, message, OWNER, POOL } from "../../../test/support/gates/gate-fakes.cases.ts";
import type { SluiceError } from "../../base/inference/errors.ts";
import {
  type CapacityReading,
  CONTINUE,
  type DispatchGate,
  defineGate,
  defineMetricSource,
  type GateOwner,
  type MetricSource,
  REFUSE,
} from "../../base/plugin/gate.ts";
import { METRIC_GATES, METRIC_SOURCES, VERDICT_GATES } from "./builtin-gates.ts";

const READING: CapacityReading = {
  readable: true,
  problem: "",
  budget: 1,
  baseline: 0,
  maxSys: undefined,
  unit: "requests",
  kind: "occupancy",
  sampleTime: 0,
  value: 1,
  threshold: 0,
};

function refusal(type: string, parameters: Record<string, unknown>, owner: GateOwner = OWNER): SluiceError {
  try {
    factory().make({ type, parameters }, owner);
  } catch (error) {
    return error as SluiceError;
  }
  throw new Error("it was made");
}

describe("GateFactory", () => {
  it.each([
    ["redis", {}, "address: is missing (host:port)"],
    ["redis", { address: "redis.example" }, "address: expected host:port"],
    ["redis", { address: "r:6379", missing_budget: 2 }, "missing_budget: must be at most 1, got 2"],
    ["redis", { url: "http://r:6379" }, "the URL must begin with redis:// or rediss://"],
    [
      "redis",
      { address: "r:6379", password_env: "NO_SUCH_VARIABLE" },
      "password_env: there is no environment variable",
    ],
    ["redis", { address: "r:6379", tls_ca_file: "/no/such/ca.pem" }, "tls_ca_file: ENOENT"],
    ["redis", { address: "r:6379", tls_key_file: "/no/such/key.pem" }, "tls_cert_file: is missing"],
    ["redis", { url: "redis://r", tls_ca_file: "/no/such/ca.pem" }, "url: must begin with rediss://"],
    ["redis", { url: "redis://r:6379", username: "u" }, "username: works only with `address`"],
    ["redis-quota", { address: "r:6379" }, "limit: is missing"],
    ["redis-quota", { limit: 3 }, "address: is missing (host:port)"],
    ["redis-quota", { address: "r:6379", limit: 0 }, "limit: must be at least 1, got 0"],
    ["redis-quota", { address: "r:6379", limit: 1.5 }, "limit: expected a whole number"],
    ["redis-quota", { address: "r:6379", limit: 3, window: 60 }, "window: expected a duration"],
    ["redis-quota", { address: "r:6379", limit: 3, window: "0s" }, "window: must be more than 0, got 0"],
    [
      "redis-quota",
      { address: "r:6379", limit: 3, mode: "ratelimit" },
      "mode: expected one of `rate-limit`, `concurrency`",
    ],
    ["redis-quota", { address: "r:6379", limit: 3, gating_mode: "block" }, "gating_mode: expected one of"],
    ["local-max-concurrency", {}, "limit: is missing"],
    ["local-max-concurrency", { limit: -1 }, "limit: must be at least 1, got -1"],
    ["local-max-concurrency", { limit: 1, gating_mode: "reject" }, "gating_mode: expected one of"],
    ["composite", {}, "gates: is missing"],
    ["composite", { gates: "nothing" }, "gates: "],
    ["wait-on-refuse", {}, "gate: is missing"],
    ["tier-priority-admission", {}, "saturation_gate: is missing"],
    ["constant", { budget: 1 }, "budget: unknown key `budget`"],
    ["local-max-concurrency", { limt: 1, limit: 1 }, "limt: unknown key `limt`; did you mean `limit`?"],
  ])("%s with %j is refused: gate, owner and key are named (A-12)", (type, parameters, problem) => {
    const error = refusal(type, parameters);
    expect(error.message).toContain(`gate \`${type}\` of queue \`nightly\`: `);
    expect(error.message).toContain(problem);
    expect(error.code).toBe(
      problem.includes("redis://") && !problem.startsWith("url") ? "REDIS_URL_INVALID" : "GATE_PARAMETERS",
    );
  });

  it("names the pool of a pool's gate, and the way to a gate inside another", () => {
    const inner = { gate_type: "wait-on-refuse", gate_params: { gate: { gate_type: "redis-quota", gate_params: {} } } };
    expect(refusal("composite", { gates: [inner] }, POOL).message).toMatch(
      /^gate `composite` of worker pool `batch`: gate `wait-on-refuse`: gate `redis-quota`: limit: is missing/,
    );
    const unknown = refusal("composite", { gates: [{ gate_type: "redis_quota" }] });
    expect(unknown.code).toBe("GATE_UNKNOWN");
    expect(unknown.message).toBe(
      "gate `composite` of queue `nightly`: gate type `redis_quota` is not known; did you mean `redis-quota`?",
    );
  });

  it("repeats no value that may be a secret", () => {
    expect(refusal("redis", { address: "user:hunter2@redis.example:6379" }).message).not.toContain("hunter2");
  });

  it("refuses an unknown type with the nearest known one, or opens it with a warning where that is allowed (A-13)", () => {
    const error = refusal("local-max-concurency", {});
    expect(error.code).toBe("GATE_UNKNOWN");
    expect(error.message).toContain(
      "`local-max-concurency` of queue `nightly` is not known; did you mean `local-max-concurrency`?",
    );

    const log = new LogLines();
    const gate = factory({ allowUnknown: true, log }).make({ type: "quota", parameters: { limit: 1 } }, OWNER);
    expect(gate.apply(message(), new Collected())).toEqual(CONTINUE);
    expect(log.lines[0]).toMatchObject({ level: "warn", fields: { gateType: "quota" } });
  });

  it("makes an open gate where none is configured", async () => {
    const gate = factory().make(undefined, OWNER);
    expect([await gate.budget(), await gate.apply(message(), new Collected()), gate.capacities]).toEqual([
      1,
      CONTINUE,
      [],
    ]);
  });

  it("takes numbers and words as text (A-14)", async () => {
    const gate = factory().make({ type: "local-max-concurrency", parameters: { limit: "2", gating_mode: "" } }, OWNER);
    const verdicts = [1, 2, 3].map(() => gate.apply(message(), new Collected()));
    expect(verdicts).toEqual([CONTINUE, CONTINUE, REFUSE]);
  });

  it("says what it made, without secrets (async-processor 3.9, A-85)", async () => {
    const log = new LogLines();
    const gates = factory({ log });
    gates.make({ type: "local-max-concurrency", parameters: { limit: 2 } }, POOL);
    gates.make({ type: "redis", parameters: { url: "redis://:hunter2@127.0.0.1:1/0" } }, OWNER);
    expect(log.lines.slice(0, 2)).toEqual([
      {
        level: "info",
        message: "Created pool gate",
        fields: { poolID: "batch", gateType: "local-max-concurrency", gateParams: { limit: 2 } },
      },
      {
        level: "info",
        message: "Created queue gate",
        fields: {
          queueID: "q1",
          queueName: "nightly",
          gateType: "redis",
          gateParams: { url: "redis://REDACTED@127.0.0.1:1/0" },
        },
      },
    ]);
    await gates.close();
    expect(JSON.stringify(log.lines)).not.toContain("hunter2");
  });

  it("makes gates that others have defined, and tells whose are made of them", async () => {
    const owners: GateOwner[] = [];
    const closed: string[] = [];
    const mine = defineGate({
      type: "office-hours",
      describe: "Closed from nine to five.",
      parameters: z.strictObject({ zone: z.string() }),
      create: ({ zone }, context): DispatchGate => {
        owners.push(context.owner);
        return {
          capacities: [],
          budget: async () => 0,
          apply: () => REFUSE,
          close: () => {
            closed.push(zone);
            if (zone === "bad") throw new Error("cannot close");
          },
        };
      },
    });
    const log = new LogLines();
    const gates = factory({ definitions: [...VERDICT_GATES, mine], log });
    const gate = gates.make(
      {
        type: "composite",
        parameters: {
          gates: ["UTC", "bad", "CET"].map((zone) => ({ gate_type: "office-hours", gate_params: { zone } })),
        },
      },
      OWNER,
    );
    expect(gate.apply(message(), new Collected())).toEqual(REFUSE);
    expect(owners).toEqual([OWNER, OWNER, OWNER]);
    await gates.close();
    await gates.close();
    expect(closed).toEqual(["UTC", "bad", "CET"]);
    expect(log.lines.at(-1)).toMatchObject({ level: "warn", fields: { error: "cannot close" } });
  });

  it("makes one gate for all owners where a definition allows it, and tells each of its readings", async () => {
    let made = 0;
    let report: (() => void) | undefined;
    const metric = defineGate({
      type: "by-metric",
      describe: "Open.",
      shared: true,
      parameters: z.strictObject({ query: z.string(), b: z.number().optional() }),
      create: (_, { figures }): DispatchGate => {
        made++;
        report ??= () => figures.reading("pool-a", READING);
        return { capacities: [], budget: async () => 1, apply: () => CONTINUE };
      },
    });
    const told: string[] = [];
    const gates = factory({
      definitions: [...VERDICT_GATES, metric],
      figures: ({ queueName }) => ({ reading: (pool) => told.push(`${queueName} ${pool}`) }),
    });
    const make = (queueName: string, parameters: Record<string, unknown>) =>
      gates.make({ type: "by-metric", parameters }, { ...OWNER, queueName });
    const first = make("a", { query: "up", b: 1 });
    expect(make("b", { b: 1, query: "up" })).toBe(first);
    expect(make("c", { query: "down" })).not.toBe(first);
    gates.make(
      { type: "wait-on-refuse", parameters: { gate: { gate_type: "by-metric", gate_params: { query: "up", b: 1 } } } },
      { ...OWNER, queueName: "d" },
    );
    report?.();
    expect([made, told]).toEqual([2, ["a pool-a", "b pool-a", "d pool-a"]]);
  });

  it("asks Prometheus once for ten queues with the same gate", async () => {
    let asked = 0;
    const prometheus = createServer((_, response) => {
      asked++;
      const result = [{ metric: {}, value: [Date.now() / 1_000, "0.5"] }];
      response.end(JSON.stringify({ status: "success", data: { resultType: "vector", result } }));
    });
    await new Promise<void>((resolve) => prometheus.listen(0, "127.0.0.1", resolve));
    const { port } = prometheus.address() as AddressInfo;
    const gates = factory({
      definitions: [...VERDICT_GATES, ...METRIC_GATES],
      sources: METRIC_SOURCES,
      prometheusUrl: `http://127.0.0.1:${port}`,
    });
    const spec = { type: "prometheus-query", parameters: { query: "share" } };
    const queues = Array.from({ length: 10 }, (_, i) => gates.make(spec, { ...OWNER, queueName: `q${i}` }));
    for (const gate of queues) await gate.budget();
    expect(asked).toBe(1);
    await gates.close();
    await new Promise((resolve) => prometheus.close(resolve));
  });

  it("gives each owner a local limit of its own", () => {
    const gates = factory();
    const spec = { type: "local-max-concurrency", parameters: { limit: 1 } };
    const [one, other] = [gates.make(spec, OWNER), gates.make(spec, POOL)];
    expect(one.apply(message(), new Collected())).toEqual(CONTINUE);
    expect(other.apply(message(), new Collected())).toEqual(CONTINUE);
    expect(one.apply(message(), new Collected())).toEqual(REFUSE);
  });

  it("refuses two definitions of one type", () => {
    expect(() => factory({ definitions: [...VERDICT_GATES, VERDICT_GATES[0]!] })).toThrow(
      "two gates claim the type constant",
    );
  });

  it("says whose gate it is when a definition fails in a way of its own", () => {
    const broken = defineGate({
      type: "broken",
      describe: "Fails.",
      parameters: z.strictObject({}),
      create: () => {
        throw new TypeError("x is not a function");
      },
    });
    expect(() => factory({ definitions: [broken] }).make({ type: "broken", parameters: {} }, OWNER)).toThrow(
      "gate `broken` of queue `nightly`: x is not a function",
    );
  });
});

describe("metric sources", () => {
  const seen = () => {
    const made: unknown[] = [];
    const sources: MetricSource[] = [];
    let closed = 0;
    const source = defineMetricSource({
      type: "prometheus",
      describe: "Asks.",
      parameters: z.strictObject({ query: z.string(), labels: z.record(z.string(), z.string()).optional() }),
      create: (parameters): MetricSource => {
        made.push(parameters);
        return {
          query: async () => ({ samples: [], time: 0 }),
          close: () => {
            closed++;
          },
        };
      },
    });
    const gate = defineGate({
      type: "by-metric",
      describe: "Open.",
      parameters: z.strictObject({ source: z.record(z.string(), z.unknown()), of: z.string().default("prometheus") }),
      create: (parameters, context): DispatchGate => {
        sources.push(context.metricSource(parameters.of, parameters.source));
        return { capacities: [], budget: async () => 1, apply: () => CONTINUE };
      },
    });
    return { made, sources, closed: () => closed, gates: factory({ definitions: [gate], sources: [source] }) };
  };

  it("are shared by all gates that name the same one, in whatever order its parameters stand", async () => {
    const { made, sources, gates, closed } = seen();
    for (let i = 0; i < 10; i++)
      gates.make(
        {
          type: "by-metric",
          parameters: {
            source: i % 2 ? { query: "up", labels: { a: "1", b: "2" } } : { labels: { b: "2", a: "1" }, query: "up" },
          },
        },
        { ...OWNER, queueName: `q${i}` },
      );
    gates.make({ type: "by-metric", parameters: { source: { query: "down" } } }, OWNER);
    expect(made.length).toBe(2);
    expect(new Set(sources).size).toBe(2);
    await gates.close();
    expect(closed()).toBe(2);
  });

  it("are refused by name and by parameter", () => {
    const { gates } = seen();
    const make = (parameters: Record<string, unknown>) => () => gates.make({ type: "by-metric", parameters }, OWNER);
    expect(make({ source: {} })).toThrow(
      "gate `by-metric` of queue `nightly`: metric source `prometheus`: query: is missing (a string)",
    );
    expect(make({ source: {}, of: "prometeus" })).toThrow(
      "metric source `prometeus` is not known; did you mean `prometheus`?",
    );
  });
});
