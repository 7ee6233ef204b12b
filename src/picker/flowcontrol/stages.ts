import type { Endpoint } from "../../base/inference/endpoint.ts";
import { DECODE_ROLES, PREFILL_ROLES, ROLE_LABEL } from "../../base/inference/roles.ts";

const DECODES: ReadonlySet<string> = new Set(["", ...DECODE_ROLES]);
const PREFILLS: ReadonlySet<string> = new Set(PREFILL_ROLES);

/** The endpoints of a pool by the stage that they serve; an endpoint may serve both. */
export interface Stages {
  readonly prefill: readonly Endpoint[];
  readonly decode: readonly Endpoint[];
}

/** No split: the whole pool counts. */
export const NO_STAGES: Stages = { prefill: [], decode: [] };

/**
 * Splits a pool by role (scheduling 6.5). Roles such as `encode` take part in no stage. Without roles every endpoint decodes, and
 * `decode` is the pool itself.
 */
export function stagesOf(pool: readonly Endpoint[]): Stages {
  const roleOf = (endpoint: Endpoint): string => endpoint.labels[ROLE_LABEL] ?? "";
  if (pool.every((endpoint) => roleOf(endpoint) === "")) return { prefill: [], decode: pool };
  return {
    prefill: pool.filter((endpoint) => PREFILLS.has(roleOf(endpoint))),
    decode: pool.filter((endpoint) => DECODES.has(roleOf(endpoint))),
  };
}
