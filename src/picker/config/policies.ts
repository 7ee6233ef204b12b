import { z } from "zod";
import type { Path } from "../../base/document/document.ts";
import type { PluginRegistry } from "../../base/plugin/registry.ts";

/** The role of a policy of flow control (scheduling 6.6). */
export type PolicyRole = "ordering policy" | "fairness policy" | "usage limit policy" | "eviction policy";

/** A type of policy: sluice checks its parameters, but has no queue yet for it. */
interface Policy {
  readonly role: PolicyRole;
  readonly describe: string;
  readonly parameters: z.ZodType;
}

/** A policy of the file. */
export interface ConfiguredPolicy {
  readonly type: string;
  readonly policy: Policy;
  readonly path: Path;
}

/** By instance name. */
export type PolicyTable = ReadonlyMap<string, ConfiguredPolicy>;

const seconds = () => z.number().positive().optional();
const ceiling = () => z.number().min(0).max(1);

function of(role: PolicyRole, describe: string, parameters: z.ZodRawShape = {}): Policy {
  return { role, describe, parameters: z.strictObject(parameters) };
}

const SHEDDABLE = of("eviction policy", "Requests of negative priority may be evicted.");
const LOWEST_FIRST = of("eviction policy", "The lowest priority, then the newest, goes first.");

const POLICIES: ReadonlyMap<string, Policy> = new Map([
  ["fcfs-ordering-policy", of("ordering policy", "First come, first served.")],
  ["edf-ordering-policy", of("ordering policy", "The request that expires first is served first.")],
  ["slo-deadline-ordering-policy", of("ordering policy", "The request whose latency goal ends first is served first.")],
  ["global-strict-fairness-policy", of("fairness policy", "All tenants of a band share one queue.")],
  ["round-robin-fairness-policy", of("fairness policy", "The tenants of a band take turns.")],
  [
    "program-aware-fairness",
    of("fairness policy", "The tenant that was served least is served first.", {
      strategy: z.enum(["las", "turn-priority"]).optional(),
      evictionTtlSeconds: seconds(),
      evictionSweepSeconds: seconds(),
      lasWeightService: z.number().min(0).optional(),
      lasWeightHeadWait: z.number().min(0).optional(),
      lasHalfLifeSeconds: seconds(),
    }),
  ],
  [
    "static-usage-limit-policy",
    of("usage limit policy", "The same ceiling for every priority.", { threshold: z.number().min(0).optional() }),
  ],
  [
    "priority-holdback-policy",
    of("usage limit policy", "The lower the priority, the lower the ceiling.", {
      minCeiling: ceiling(),
      maxCeiling: ceiling().optional(),
      domain: z.enum(["rank", "value"]).optional(),
      shape: z.literal("linear").optional(),
    }),
  ],
  ["soft-reflective-ceiling-policy", of("usage limit policy", "Ceilings fall with the saturation, lower bands first.")],
  ["sheddable-eviction-filter", SHEDDABLE],
  ["priority-then-time-eviction-order-policy", LOWEST_FIRST],
  // The names of v1.5.
  ["eviction-sheddable-filter", SHEDDABLE],
  ["eviction-priority-then-time-ordering", LOWEST_FIRST],
]);

/** Policies that the reference has without an entry (scheduling 4.3). */
const ALWAYS_THERE: ReadonlySet<string> = new Set([
  "fcfs-ordering-policy",
  "global-strict-fairness-policy",
  "static-usage-limit-policy",
]);

/** Returns the policy of a type that the process itself does not know. */
export function policyOf(type: string, registry: PluginRegistry): Policy | undefined {
  return registry.get(type) === undefined ? POLICIES.get(type) : undefined;
}

/** Returns the types of policies that the process itself does not know. */
export function policyTypes(registry: PluginRegistry): string[] {
  return [...POLICIES.keys()].filter((type) => policyOf(type, registry) !== undefined);
}

/** Returns the policy with a name, configured or present without an entry. */
export function policyNamed(name: string, policies: PolicyTable): Policy | undefined {
  return policies.get(name)?.policy ?? (ALWAYS_THERE.has(name) ? POLICIES.get(name) : undefined);
}
