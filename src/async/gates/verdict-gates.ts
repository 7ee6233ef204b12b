import type { GateDefinition } from "../../base/plugin/gate.ts";
import { compositeGate } from "./composite.ts";
import { constantGate } from "./constant.ts";
import { localMaxConcurrencyGate } from "./local-max-concurrency.ts";
import { redisGate } from "./redis.ts";
import { redisQuotaGate } from "./redis-quota.ts";
import { tierPriorityAdmissionGate } from "./tier-priority-admission.ts";
import { waitOnRefuseGate } from "./wait-on-refuse.ts";

/** The gates that read no metric of the inference system (async-processor 3.3). */
export const VERDICT_GATES: readonly GateDefinition[] = [
  constantGate,
  redisGate,
  redisQuotaGate,
  localMaxConcurrencyGate,
  compositeGate,
  waitOnRefuseGate,
  tierPriorityAdmissionGate,
];
