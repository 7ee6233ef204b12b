import type { Path } from "../document/document.ts";
import { didYouMean } from "../document/nearest.ts";
import type { Violation } from "../document/validate.ts";
import type { Envelope } from "./envelope.ts";
import type { PluginTable } from "./plugins.ts";
import { type PolicyRole, type PolicyTable, policyNamed } from "./policies.ts";

/** What the check of `flowControl` looks at besides the section. */
export interface FlowControlSurroundings {
  /** Whether the gate is on: only then references to policies have to hold (scheduling 4.4). */
  readonly isOn: boolean;
  readonly table: PluginTable;
  readonly policies: PolicyTable;
}

/**
 * Checks `flowControl`: requests are not queued yet, so nothing of it counts but its detector; what stands beside that is
 * checked all the same.
 * @param into receives priorities that are given twice, and with the gate on references to what is no policy
 * @param warn told of all that has no effect
 */
export function checkFlowControl(
  { flowControl }: Envelope,
  { isOn, table, policies }: FlowControlSurroundings,
  into: Violation[],
  warn: (path: Path, text: string) => void,
): void {
  const keys = Object.entries(flowControl ?? {}).filter(([, value]) => value !== undefined && value !== null);
  const [ignored] = keys.find(([key]) => key !== "saturationDetector") ?? [];
  if (ignored !== undefined)
    warn(
      ["flowControl", ignored],
      isOn
        ? "requests are not queued yet: nothing of this section counts but saturationDetector"
        : "without the feature gate flowControl nothing of this section counts but saturationDetector",
    );
  for (const [name, { path, policy }] of policies)
    warn(
      path,
      `plugin ${name} has no effect: it is a${article(policy.role)} ${policy.role}, and requests are not queued yet`,
    );
  const priorities = new Set<number>();
  flowControl?.priorityBands?.forEach(({ priority }, at) => {
    const path = ["flowControl", "priorityBands", at, "priority"];
    if (priorities.has(priority)) into.push({ path, problem: `duplicate priority level ${priority}` });
    priorities.add(priority);
  });
  if (!isOn) return;
  for (const { ref, path, role } of policyReferences(flowControl)) {
    const policy = policyNamed(ref, policies);
    if (policy?.role === role) continue;
    const kind = policy?.role ?? table.get(ref)?.definition.kind;
    const problem =
      kind === undefined
        ? `plugin ${ref} not found${didYouMean(ref, policies.keys()) || `; add a plugin of that name, which must be a${article(role)} ${role}`}`
        : `plugin ${ref} does not implement the policy interface: it is a${article(kind)} ${kind}, here stands a${article(role)} ${role}`;
    into.push({ path, problem });
  }
}

interface PolicyReference {
  readonly ref: string;
  readonly path: Path;
  readonly role: PolicyRole;
}

function* policyReferences(section: Envelope["flowControl"]): Generator<PolicyReference> {
  const bands = [
    [["defaultPriorityBand"], section?.defaultPriorityBand],
    [["defaultNegativePriorityBand"], section?.defaultNegativePriorityBand],
    ...(section?.priorityBands ?? []).map((band, at) => [["priorityBands", at], band] as const),
  ] as const;
  for (const [place, band] of bands) {
    const path = ["flowControl", ...place];
    const { fairnessPolicyRef, orderingPolicyRef } = band ?? {};
    if (fairnessPolicyRef)
      yield { ref: fairnessPolicyRef, path: [...path, "fairnessPolicyRef"], role: "fairness policy" };
    if (orderingPolicyRef)
      yield { ref: orderingPolicyRef, path: [...path, "orderingPolicyRef"], role: "ordering policy" };
  }
  const ref = section?.usageLimitPolicyPluginRef;
  if (ref) yield { ref, path: ["flowControl", "usageLimitPolicyPluginRef"], role: "usage limit policy" };
}

function article(noun: string): string {
  return /^[aeio]/.test(noun) ? "n" : "";
}
