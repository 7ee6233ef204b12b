import { describe, expect, it } from "vitest";
import { Findings } from "../../async/dispatch/config/config-document.ts";
import { parseDocument } from "../../base/document/parse.ts";
import { chartAsDispatch, isChartValues } from "./chart-values.ts";

/** The dispatch.yaml that the chart's values come to, and what the chart has against them. */
function converted(text: string) {
  const findings = new Findings();
  const document = chartAsDispatch({ ...parseDocument(text, { file: "v" }), folder: "." }, findings);
  let refused = "";
  try {
    findings.throwIfAny("values");
  } catch (error) {
    refused = (error as Error).message;
  }
  const place = (...path: (string | number)[]): string => {
    const { line, column } = document.positionOf(path);
    return `${line}:${column}`;
  };
  return { value: document.value as Record<string, unknown>, place, refused, warnings: findings.warnings };
}

const URL = "redis://r:6379";

describe("values of the reference's chart", () => {
  it("are known by their one key", () => {
    expect([{ ap: {} }, { ap: null }, { ap: [] }, [], null].map(isChartValues)).toEqual([
      ...[true, false, false, false, false],
    ]);
  });

  it("describe one queue by single values", () => {
    const { value, place, refused } = converted(`ap:
  igwBaseURL: http://g
  messageQueueImpl: redis-sortedset
  concurrency: 4
  redis:
    enabled: true
    url: ${URL}
    requestQueueName: mine
    batchSize: 7
    gateType: constant
    gateParams: {}
`);
    expect(refused).toBe("");
    expect(value).toEqual({
      transport: "redis-sortedset",
      concurrency: 4,
      "transport-config": {
        url: URL,
        batch_size: 7,
        queues: [{ queue_name: "mine", igw_base_url: "http://g", gate_type: "constant" }],
      },
    });
    expect(place("concurrency")).toBe("4:3");
    expect(place("transport-config", "batch_size")).toBe("9:5");
    expect(place("transport-config", "queues", 0, "igw_base_url")).toBe("2:3");
    expect(place("transport-config", "queues", 0, "gate_type")).toBe("10:5");
    expect(place("transport-config", "queues", 0, "gate_params", "limit")).toBe("11:5");
    expect(place("nothing")).toBe("1:1");
  });

  it("describe several queues, worker pools and the rest by sections of the same form", () => {
    const { value, place } = converted(`ap:
  redis: {enabled: true, url: "${URL}", queuesConfig: [{queue_name: a}]}
  messageQueueImpl: redis-sortedset
  workerPools: [{id: a, workers: 1}]
  transformConfig: {requestTransforms: []}
  requestMergePolicyConfig: {type: random-robin}
  metrics: {secure: true, port: 1}
`);
    expect(value).toEqual({
      transport: "redis-sortedset",
      "transport-config": { url: URL, queues: [{ queue_name: "a" }] },
      "pool-config": [{ id: "a", workers: 1 }],
      "transform-config": { requestTransforms: [] },
      "request-merge-policy-config": { type: "random-robin" },
      "metrics-endpoint-auth": true,
      "metrics-port": 1,
    });
    expect(place("pool-config", 0, "workers")).toBe("4:25");
    expect(place("transport-config", "queues", 0, "queue_name")).toBe("2:65");
  });

  it("mean channels of Redis, or subscriptions", () => {
    const channels = converted(`ap: {igwBaseURL: "http://g", redis: {enabled: true, secretName: s}}`);
    expect([channels.refused, channels.value]).toEqual([
      "",
      {
        transport: "redis-pubsub",
        "transport-config": { queues: [{ igw_base_url: "http://g", queue_name: "request-queue" }] },
      },
    ]);
    const topics = converted(
      `ap: {igwBaseURL: "http://g", gcpPubSub: {enabled: true, projectId: p, resultTopicId: r, requestSubscriberId: s}}`,
    );
    expect([topics.refused, topics.value]).toEqual([
      "",
      {
        transport: "gcp-pubsub",
        "transport-config": {
          ...{ project_id: "p", result_topic_id: "r" },
          topics: [{ subscriber_id: "s", igw_base_url: "http://g" }],
        },
      },
    ]);
  });

  it("are refused where the chart refuses them, and for what it does not have", () => {
    // Values may be in several files.
    expect(converted("ap: {}")).toMatchObject({
      refused: "",
      warnings: [expect.stringContaining("enables no transport")],
    });
    expect(converted("ap: {redis: {enabled: true}}").warnings).toEqual([expect.stringContaining("names no server")]);
    expect(converted("ap: {redis: {enabled: true, url: a}}").warnings).toEqual([]);
    const both = `ap: {messageQueueImpl: redis-sortedset, redis: {enabled: true, url: "${URL}", gateType: redis, queuesConfig: [{}]}}`;
    expect(converted(both).refused).toContain("v:1:87: ap.redis.gateType: is not allowed beside queuesConfig");
    const redis = "redis: {enabled: true, url: a}";
    const below =
      "otel: {endpont: a}, tls: {caCert: a}, health: {prt: 1, startupProbe: {periodSecond: 1}, livenessProbe: 7}";
    expect(converted(`ap: {${redis}, ${below}}`).warnings).toEqual([
      expect.stringContaining("ap.otel.endpont: unknown key, ignored; did you mean `endpoint`?"),
      expect.stringContaining("ap.health.prt: unknown key, ignored; did you mean `port`?"),
      expect.stringContaining(
        "ap.health.startupProbe.periodSecond: unknown key, ignored; did you mean `periodSeconds`?",
      ),
      expect.stringContaining("ap.tls.caCert: unknown key, ignored"),
    ]);
    expect(converted("ap: {redis: {enable: true}, wokerPools: []}").warnings.slice(0, 2)).toEqual([
      "v:1:29: ap.wokerPools: unknown key, ignored; did you mean `workerPools`?",
      "v:1:14: ap.redis.enable: unknown key, ignored; did you mean `enabled`?",
    ]);
  });
});
