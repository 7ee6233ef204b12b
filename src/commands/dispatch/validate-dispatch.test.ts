import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parseDocument } from "../../base/document/parse.ts";
import { dispatchContentOf } from "./dispatch-content.ts";
import { validateDispatch } from "./validate-dispatch.ts";

const folder = mkdtempSync(join(tmpdir(), "sluice-validate-dispatch-"));

async function verdict(text: string) {
  const { summary, error, warnings } = await validateDispatch(parseDocument(text, { file: "d" }), folder);
  return { summary, problems: error?.message.split("\n").map((line) => line.trim()) ?? [], warnings };
}

const RIGHT = `transport: redis-sortedset
transport-config:
  url: redis://localhost:6379
  queues:
  - {queue_name: work, igw_base_url: "http://gateway:8080", worker_pool_id: a, gate_type: constant}
pool-config:
- {id: a, workers: 4}
`;

describe("what a file of the dispatcher is, by its content", () => {
  it.each([
    [{ transport: "sqlite" }, "dispatch"],
    [{ "pool-config": [] }, "dispatch"],
    [{ concurrency: 3, "health-port": 1 }, "dispatch"],
    [{ queues: [] }, "transport"],
    [{ topics: [], project_id: "p" }, "transport"],
    [[{ id: "a", workers: 1 }], "pools"],
    [[{ id: "a" }, { id: "b", workers: 1 }], "pools"],
    [[{ queue_name: "a" }], "queues"],
    [[{ igw_base_url: "http://a" }], "queues"],
    [[{ queue_nam: "a" }, { subscriber_id: "b" }], "topics"],
    [{ ap: {} }, "chart"],
    [{ ap: 1 }, undefined],
    [{ type: "tier-priority" }, "merge"],
    [{ requestTransforms: [] }, "transforms"],
    [{ plugins: [] }, undefined],
    [[], undefined],
    [[1], undefined],
    ["text", undefined],
  ])("%j is %s", (value, content) => {
    expect(dispatchContentOf(value)).toBe(content);
  });
});

describe("sluice validate of files of the dispatcher", () => {
  it("accepts a right one, and says what is in it", async () => {
    expect(await verdict(RIGHT)).toEqual({
      summary: "redis-sortedset: 1 queue; 1 worker pool",
      problems: [],
      warnings: [],
    });
  });

  it("tells all faults at once: keys, transport, pools, gates in gates, merge policy, transforms", async () => {
    const { problems, summary } = await verdict(`transport: redis-sortedset
concurency: 3
transport-config:
  queues:
  - queue_name: work
    igw_base_url: gateway
    worker_pool_id: b
    gate_type: composite
    gate_params:
      gates:
      - {gate_type: constant, gate_params: {x: 1}}
      - {gate_type: redis-qouta, gate_params: {}}
      - {gate_type: wait-on-refuse, gate_params: {gate: {gate_type: redis, gate_params: {address: nowhere}}}}
  - {queue_name: more, igw_base_url: "http://gateway:8080", worker_pool_id: a}
pool-config:
- {id: a, workers: 4, gate_type: prometheus-saturation, gate_params: {pool: p}}
- {id: a, workers: 0}
request-merge-policy-config: {type: random-robbin}
transform-config: {requestTransforms: [{name: "", type: gcs_uri_multipart}]}
`);
    expect(summary).toBeUndefined();
    const all = problems.join("\n");
    for (const expected of [
      "d:2:1: concurency: unknown key `concurency`; did you mean `concurrency`?",
      "d:6:5: queues[0].igw_base_url: must be an absolute URL that begins with http:// or https://",
      "d:11:45: queues[0].gate_params.gates[0].gate_params.x: unknown key `x`",
      "d:12:10: queues[0].gate_params.gates[1].gate_type: gate type `redis-qouta` is not known",
      "gates[2].gate_params.gate.gate_params.address: expected host:port",
      "d:16:57: [0].gate_params: --prometheus-url is missing",
      "d:17:11: [1].workers",
      "random-robin",
      "requestTransforms[0].name",
    ])
      expect(all).toContain(expected);
  });

  it("finds gates inside gates without a connection, at their places", async () => {
    const { problems } = await verdict(`transport: redis-sortedset
transport-config:
  url: redis://localhost:6379
  queues:
  - queue_name: work
    igw_base_url: "http://gateway:8080"
    gate_type: composite
    gate_params:
      gates:
      - {gate_type: constant, gate_params: {x: 1}}
      - {gate_type: redis-qouta, gate_params: {}}
      - gate_type: wait-on-refuse
        gate_params:
          gate:
            gate_type: redis
            gate_params: {address: nowhere}
      - gate_type: tier-priority-admission
        gate_params: {saturation_gate: metric-budget, saturation_gate_params: {source: {type: scrpe}}}
      - gate_type: prometheus-saturation
        gate_params: {pool: p}
`);
    const has = (place: string, text: string) =>
      expect(problems.filter((line) => line.startsWith(`d:${place}: `) && line.includes(text))).toHaveLength(1);
    has("10:45", "unknown key `x`");
    has("11:10", "gate type `redis-qouta` is not known; did you mean `redis-quota`?");
    has("16:27", "expected host:port");
    has("18:89", "metric source `scrpe` is not known; did you mean `scrape`?");
    has("20:9", "--prometheus-url is missing");
  });

  it("reads the reference's files alone, in JSON, and parameters that are JSON texts", async () => {
    const transport = `{"queues": [
  {"queue_name": "q", "igw_base_url": "http://g:1", "gate_type": "redis", "gate_params": "{\\"adress\\": \\"r:1\\"}"}
]}`;
    const { problems, warnings } = await verdict(transport);
    expect(problems.join()).toContain("d:2:75: queues[0].gate_params");
    expect(problems.join()).toContain("did you mean `address`?");
    expect(warnings).toContain("d:1:1: url: is missing: at its start, Sluice reads the environment variable REDIS_URL");
    const right = transport.replace("adress", "address").replace('"queues"', '"url": "redis://r:1", "queues"');
    expect(await verdict(right)).toMatchObject({
      problems: [],
      summary: "transport, read as redis-sortedset: 1 queue",
    });
    const pools = '[{"id": "a", "workers": 2, "gate_type": "constnt"}]';
    expect((await verdict(pools)).problems.join()).toContain(
      "gate type `constnt` is not known; did you mean `constant`?",
    );
    expect(await verdict('{"type": "tier-priority", "parameters": {}}')).toMatchObject({ summary: "merge policy" });
  });

  it("reads the files that a dispatch.yaml names, and tells their faults at their own places", async () => {
    writeFileSync(join(folder, "t.json"), '{"queues": [{"queue_name": "q"}], "url": "redis://r:1"}');
    writeFileSync(join(folder, "p.yaml"), "- {id: default, wokers: 1}\n");
    const { problems } = await verdict(
      "transport: redis-sortedset\ntransport-config-file: t.json\npool-config-file: p.yaml\n",
    );
    const all = problems.join("\n");
    expect(all).toContain(`${join(folder, "t.json")}:1:13: queues[0].igw_base_url`);
    expect(all).toContain(`${join(folder, "p.yaml")}:1:3: [0].workers`);
    expect(all).toContain("did you mean `workers`?");
  });

  it("takes TLS files by both names, and not two files for one", async () => {
    const tls = (fields: string) =>
      verdict(RIGHT.replace("  url: redis://localhost:6379\n", `  url: rediss://localhost:6379\n${fields}`));
    for (const name of ["tls_ca_cert", "tls_ca_file"])
      expect((await tls(`  ${name}: nowhere.pem\n`)).problems.join()).toMatch(
        new RegExp(`d:4:3: ${name}: .*nowhere.pem`),
      );
    expect((await tls("  tls_ca_cert: a.pem\n  tls_ca_file: b.pem\n")).problems.join("\n")).toContain(
      "d:5:3: tls_ca_file: is an alias of tls_ca_cert, and the section has both; keep one",
    );
    const gate = (parameters: string) =>
      verdict(RIGHT.replace("gate_type: constant", `gate_type: redis, gate_params: {address: "r:1", ${parameters}}`));
    expect((await gate("tls_ca_cert: nowhere.pem")).problems.join()).toContain("nowhere.pem");
    expect((await gate("tls_ca_cert: a, tls_ca_file: b")).problems.join()).toContain(
      "is an alias of tls_ca_file, and both are given; keep one",
    );
    // The environment of a start has the password.
    expect((await gate("password_env: SLUICE_NO_SUCH_VARIABLE")).problems).toEqual([]);
  });

  it("says what a dispatch.yaml lacks", async () => {
    // The command line may give the rest.
    for (const text of ["concurrency: 2\n", "transport: sqlite\nmetrics-port: 9095\n"])
      expect(await verdict(text)).toEqual({
        summary: "settings without a transport",
        problems: [],
        warnings: [
          "d:1:1: has neither transport-config nor transport-config-file; the command line must give one of them",
        ],
      });
    expect((await verdict("transport: sqlite\nmetrics-port: 8081\nhealth-port: 8081\n")).problems).toHaveLength(1);
    const pools = await verdict("pool-config:\n- {id: a, workers: 0}\n");
    expect([pools.problems.length > 0, pools.warnings.length]).toEqual([true, 1]);
    expect((await verdict("pool-config:\n- {id: a, workers: 2}\n")).summary).toBe("1 worker pool");
    const unreadable = await verdict("transport: sqlite\ntransport-config-file: none.json\n");
    expect([unreadable.problems.length, unreadable.warnings]).toEqual([1, []]);
    const without = RIGHT.replace("transport: redis-sortedset\n", "");
    expect((await verdict(without)).problems.join()).toContain("but no `transport`; write one of redis-sortedset");
    expect((await verdict(RIGHT.replace("redis-sortedset", "redis-sortedsets"))).problems).toHaveLength(1);
  });
});
