import type { Path } from "../../base/document/document.ts";
import { didYouMean } from "../../base/document/nearest.ts";
import type { Violation } from "../../base/document/validate.ts";
import type { PluginRegistry } from "../../base/plugin/registry.ts";
import type { ConfiguredPlugin } from "./effective.ts";
import type { Envelope } from "./envelope.ts";
import { DETECTOR, type MigrationPlan } from "./migrate.ts";
import { defaultOf, isOfKind, type PluginTable, referencedPlugin } from "./plugins.ts";
import { type PolicyRole, type PolicyTable, policyNamed } from "./policies.ts";

/** What the check of `flowControl` looks at besides the section. */
export interface FlowControlSurroundings {
  /** Where the gate is switched on: only then references to policies have to hold (scheduling 4.4); undefined = it is off. */
  readonly gate: Path | undefined;
  readonly table: PluginTable;
  readonly policies: PolicyTable;
}

/**
 * Checks `flowControl`. Requests are not queued yet: of the section only the detector counts. With the gate on the file is
 * refused; with the gate off the rest of the section means nothing, here as with the reference, and is warned about.
 * @param into receives the gate, priorities that are given twice, and with the gate on references to what is no policy
 * @param warn told of all that has no effect with the gate off
 */
export function checkFlowControl(
  { flowControl }: Envelope,
  { gate, table, policies }: FlowControlSurroundings,
  into: Violation[],
  warn: (path: Path, text: string) => void,
): void {
  const keys = Object.entries(flowControl ?? {}).filter(([, value]) => value !== undefined && value !== null);
  const queueing = keys.map(([key]) => key).filter((key) => key !== "saturationDetector");
  if (gate !== undefined) into.push({ path: gate, problem: notSupported(queueing, policies) });
  else {
    if (queueing[0] !== undefined)
      warn(
        ["flowControl", queueing[0]],
        "without the feature gate flowControl nothing of this section counts but saturationDetector",
      );
    for (const [name, { path, policy }] of policies)
      warn(
        path,
        `plugin ${name} has no effect: it is a${article(policy.role)} ${policy.role}, and requests are not queued yet`,
      );
  }
  const priorities = new Set<number>();
  flowControl?.priorityBands?.forEach(({ priority }, at) => {
    const path = ["flowControl", "priorityBands", at, "priority"];
    if (priorities.has(priority)) into.push({ path, problem: `duplicate priority level ${priority}` });
    priorities.add(priority);
  });
  if (gate === undefined) return;
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

/** Why the gate is refused, and what its author has to remove. @param keys those of the section that are about queues */
function notSupported(keys: readonly string[], policies: PolicyTable): string {
  const sections = keys.map((key) => `flowControl.${key}`);
  const plugins = policies.size === 0 ? [] : [`the plugins ${[...policies.keys()].join(", ")}`];
  const rest = [...sections, ...plugins];
  return `feature gate flowControl is not supported yet: requests are not queued, they are admitted by priority and saturation alone; remove the gate${rest.length === 0 ? "" : `, and with it ${rest.join(", ")}`}`;
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

/**
 * The saturation detector that the file names, here or in its former place; else the usual one (scheduling 4.2, 4.3).
 * @param plan what of the file would be written otherwise today
 * @param into receives a name of nothing, or of another kind of plugin
 * @param warn told of the former place
 */
export function readDetector(
  envelope: Envelope,
  plan: MigrationPlan,
  table: PluginTable,
  registry: PluginRegistry,
  into: Violation[],
  warn: (path: Path, text: string) => void,
): ConfiguredPlugin<"saturation-detector"> {
  const old = plan.detector === undefined ? envelope.saturationDetector : { pluginRef: plan.detector.name };
  const current = envelope.flowControl?.saturationDetector;
  if (old && plan.detector === undefined)
    warn(
      ["saturationDetector"],
      current
        ? "saturationDetector has no effect: flowControl.saturationDetector wins"
        : "saturationDetector is deprecated here; move it to flowControl.saturationDetector",
    );
  const ref = (current ?? old)?.pluginRef ?? undefined;
  const path = current ? ["flowControl", "saturationDetector", "pluginRef"] : ["saturationDetector", "pluginRef"];
  // The one there always is may be named without an entry of its own.
  const isUsual = ref === undefined || ref === DETECTOR;
  const named = isUsual ? table.get(DETECTOR) : referencedPlugin(ref, path, "saturationDetector", table, into);
  if (named !== undefined && isDetector(named)) return named;
  if (named !== undefined && ref !== undefined)
    into.push({ path: path, problem: `plugin ${ref} is not a SaturationDetector but a ${named.definition.kind}` });
  return defaultOf(DETECTOR, "saturation-detector", registry);
}

const isDetector = isOfKind("saturation-detector");
