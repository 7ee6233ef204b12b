import type { Endpoint } from "../../base/inference/endpoint.ts";

/** The label that names the role of an endpoint in disaggregated serving (scheduling 3.7.1). */
const ROLE = "llm-d.ai/role";

/** The stages that each role serves. Endpoints of other roles, such as `encode`, take part in no stage. */
const STAGES: ReadonlyMap<string, { readonly prefill: boolean; readonly decode: boolean }> = new Map([
  ["", { prefill: false, decode: true }],
  ["decode", { prefill: false, decode: true }],
  ["prefill", { prefill: true, decode: false }],
  ["encode-prefill", { prefill: true, decode: false }],
  ["prefill-decode", { prefill: true, decode: true }],
  ["both", { prefill: true, decode: true }],
  ["encode-prefill-decode", { prefill: true, decode: true }],
]);

/** The endpoints of a pool by the stage that they serve; an endpoint may serve both. */
export interface Stages {
  readonly prefill: readonly Endpoint[];
  readonly decode: readonly Endpoint[];
}

/** No split: the whole pool counts. */
export const NO_STAGES: Stages = { prefill: [], decode: [] };

/** Splits a pool by role (scheduling 6.5). Without roles every endpoint decodes, and `decode` is the pool itself. */
export function stagesOf(pool: readonly Endpoint[]): Stages {
  const roleOf = (endpoint: Endpoint): string => endpoint.labels[ROLE] ?? "";
  if (pool.every((endpoint) => roleOf(endpoint) === "")) return { prefill: [], decode: pool };
  return {
    prefill: pool.filter((endpoint) => STAGES.get(roleOf(endpoint))?.prefill),
    decode: pool.filter((endpoint) => STAGES.get(roleOf(endpoint))?.decode),
  };
}
