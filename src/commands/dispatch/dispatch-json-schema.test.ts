import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { schemaFaults } from "../../../test/support/config/json-schema.ts";
import { TRANSPORTS } from "../../async/dispatch/config/transport-fields.ts";
import { parseDocument } from "../../base/document/parse.ts";
import { dispatchJsonSchema } from "./dispatch-json-schema.ts";
import { FILE_FLAGS } from "./dispatch-settings.ts";

const ROOT = join(import.meta.dirname, "../../..");
const schema = dispatchJsonSchema();

/** Places that an editor would mark. */
const marked = (text: string): readonly string[] =>
  [...schemaFaults(parseDocument(text, { file: "f" }).value, schema)].sort();

const QUEUE = 'queue_name: q, igw_base_url: "http://g"';
const withQueue = (more: string): string =>
  `transport: redis-sortedset\ntransport-config: {queues: [{${QUEUE}, ${more}}]}\n`;
const AT = "/transport-config/queues/0";

describe("the JSON Schema of a dispatch.yaml", () => {
  it("is one that names its dialect, and has every key of the file", () => {
    expect(schema["$schema"]).toBe("https://json-schema.org/draft/2020-12/schema");
    const keys = Object.keys(schema["properties"] as object);
    expect(keys).toEqual(expect.arrayContaining(FILE_FLAGS.map(({ name }) => name)));
    expect(keys).toEqual(expect.arrayContaining(["transport", "transport-config", "pool-config", "plugins"]));
    expect(JSON.stringify(schema)).not.toMatch(/"type":"\w+ /);
  });

  it("marks nothing in the examples", () => {
    const names = readdirSync(join(ROOT, "examples")).filter((name) => /^dispatch.*\.yaml$/.test(name));
    expect(names.length).toBeGreaterThan(2);
    for (const name of names) expect(marked(readFileSync(join(ROOT, "examples", name), "utf8")), name).toEqual([]);
  });

  it("takes every gate of the corpus, and marks each mistake in one", () => {
    const read = (name: string): string => readFileSync(join(ROOT, "test", "corpus", "dispatch", name), "utf8");
    expect(marked(read("gates.yaml"))).toEqual([]);
    const places = marked(read("gates-refused.yaml"));
    // Ranges of numbers, types inside of texts and durations are for `sluice validate`.
    for (const at of [2, 4, 8, 9, 11, 12, 15])
      expect(
        places.some((place) => place.startsWith(`/transport-config/queues/${at}/`)),
        `${at}`,
      ).toBe(true);
  });

  it.each([
    ["transport: redis-sortedset\nconcurency: 3\n", ["/concurency"]],
    ["transport: redis\n", ["/transport"]],
    ["concurrency: 0\nhealth-port: 70000\ndrain-timeout: 2m\n", ["/concurrency", "/health-port"]],
    ["metrics-endpoint-auth: no\ntls-insecure-skip-verify: true\n", ["/metrics-endpoint-auth"]],
    [withQueue("worker_pool: a"), [`${AT}/worker_pool`]],
    [withQueue("gate_type: constnt"), [`${AT}/gate_type`]],
    [withQueue("gate_type: redis, gate_params: {adress: a}"), [`${AT}/gate_params`]],
    [withQueue('gate_type: redis, gate_params: \'{"address": "a:1"}\''), []],
    [withQueue("gate_type: composite, gate_params: {gates: [{gate_type: constant}]}"), []],
    [withQueue("gate_type: composite, gate_params: {gates: [{gate_params: {}}]}"), [`${AT}/gate_params`]],
    ["transport: sqlite\ntransport-config: {queues: []}\n", ["/transport-config/path", "/transport-config/queues"]],
    [
      "transport: gcp-pubsub\ntransport-config: {queues: []}\n",
      [
        ...["/transport-config/project_id", "/transport-config/queues", "/transport-config/result_topic_id"],
        "/transport-config/topics",
      ],
    ],
    ["pool-config: [{id: a, workers: 0}, {id: b}]\n", ["/pool-config/0/workers", "/pool-config/1/workers"]],
    [
      "request-merge-policy-config: {type: tier-priority, parameters: {tier: x}}\n",
      ["/request-merge-policy-config/parameters"],
    ],
    [
      "transform-config: {requestTransforms: [{name: a, type: gcs, parameters: {providers: [x]}}]}\n",
      ["/transform-config/requestTransforms/0/type"],
    ],
  ])("marks in %j just %j", (text, places) => {
    expect(marked(text)).toEqual(places);
  });

  it("leaves types of gates open where modules may have more", () => {
    expect(marked(`plugins: [gate.ts]\n${withQueue("gate_type: mine")}`)).toEqual([]);
  });

  it("shows defaults and what each key is for", () => {
    const rules = schema["allOf"] as readonly { if: { properties: { transport: { const: string } } }; then: unknown }[];
    for (const name of TRANSPORTS) {
      const rule = rules.find((each) => each.if.properties?.transport?.const === name);
      expect(JSON.stringify(rule?.then)).toContain('"description":');
    }
    expect(JSON.stringify(rules[0]!.then)).toContain('"default":"result-list"');
    expect((schema["properties"] as Record<string, object>)["concurrency"]).toMatchObject({ default: 64, minimum: 1 });
  });
});
