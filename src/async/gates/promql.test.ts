import { describe, expect, it } from "vitest";
import { budgetQueries, queuedPodsQuery, readyPodsQuery, saturationQuery } from "./promql.ts";

const P = { pool: "p", namespace: undefined };
const PN = { pool: "p", namespace: "n" };

describe("published queries (A-15)", () => {
  it("saturation, with and without namespace", () => {
    expect(saturationQuery(P).query).toBe('1 - inference_extension_flow_control_pool_saturation{inference_pool="p"}');
    expect(saturationQuery(PN).query).toBe(
      '1 - inference_extension_flow_control_pool_saturation{inference_pool="p",namespace="n"}',
    );
  });

  it("budget without namespace, K = 100", () => {
    expect(budgetQueries(P, 100, false).map(({ query }) => query)).toEqual([
      '1 - (sum by (inference_pool) (inference_extension_flow_control_queue_size{inference_pool="p"}) / on() (inference_pool_ready_pods{name="p"} * 100))',
      '1 - (avg by (name) (inference_pool_per_pod_queue_size{name="p"}) / 100)',
      '1 - (sum(vllm:num_requests_running{inference_pool="p"}) / on() (inference_pool_ready_pods{name="p"} * 100))',
    ]);
  });

  it("budget with namespace, K = 0.5", () => {
    expect(budgetQueries(PN, 0.5, false).map(({ query }) => query)).toEqual([
      '1 - (sum by (inference_pool) (inference_extension_flow_control_queue_size{inference_pool="p",namespace="n"}) / on() (inference_pool_ready_pods{name="p",namespace="n"} * 0.5))',
      '1 - (avg by (name) (inference_pool_per_pod_queue_size{name="p",namespace="n"}) / 0.5)',
      '1 - (sum(vllm:num_requests_running{inference_pool="p",namespace="n"}) / on() (inference_pool_ready_pods{name="p",namespace="n"} * 0.5))',
    ]);
  });

  it("the robust form differs in nothing but the maximum around ready pods", () => {
    const published = budgetQueries(PN, 1e6, false).map(({ query }) => query);
    const robust = budgetQueries(PN, 1e6, true).map(({ query }) => query);
    const ready = readyPodsQuery(PN);
    expect(ready).toBe('inference_pool_ready_pods{name="p",namespace="n"}');
    expect(robust).toEqual(published.map((query) => query.replace(ready, `max(${ready})`)));
    expect(robust[0]).toContain(" * 1e+06))");
    expect(robust[0]).not.toBe(published[0]);
  });

  it("asks for the time of what the expression selects, not of the expression", () => {
    const [zero, one] = budgetQueries(P, 100, false);
    expect(zero?.timestampQuery).toBe(
      'min(timestamp(inference_extension_flow_control_queue_size{inference_pool="p"}) or timestamp(inference_pool_ready_pods{name="p"}))',
    );
    expect(one?.timestampQuery).toBe('min(timestamp(inference_pool_per_pod_queue_size{name="p"}))');
    expect(queuedPodsQuery(P)).toBe('count(count by (model_server_pod) (inference_pool_per_pod_queue_size{name="p"}))');
  });

  it("a pool's name cannot leave its quotes", () => {
    const pool = 'a"} or vector(1) # \\ \n\u0001';
    expect(readyPodsQuery({ pool, namespace: undefined })).toBe(
      'inference_pool_ready_pods{name="a\\"} or vector(1) # \\\\ \\n\\x01"}',
    );
  });
});
