import type { Path } from "../../base/document/document.ts";
import { didYouMean } from "../../base/document/nearest.ts";
import type { Violation } from "../../base/document/validate.ts";
import type { PluginRegistry } from "../../base/plugin/registry.ts";
import type { ConfiguredPlugin } from "./effective.ts";
import type { Envelope } from "./envelope.ts";
import { DETECTOR, type MigrationPlan } from "./migrate.ts";
import { defaultOf, isOfKind, type PluginTable, referencedPlugin } from "./plugins.ts";
import { type PolicyRole, type PolicyTable, policyNamed } from "./policies.ts";

/** The parts of the file, besides the section, that the check of `flowControl` needs. */
export interface FlowControlSurroundings {
  /**
   * The place where the gate is on; undefined = it is off. References to policies must hold only with the gate on (scheduling
   * 4.4).
   */
  readonly gate: Path | undefined;
  readonly table: PluginTable;
  readonly policies: PolicyTable;
}

/**
 * Checks `flowControl`. Sluice does not queue requests yet, so only the detector of the section counts. With the gate on, the
 * file is refused. With the gate off, the rest of the section has no effect, as in the reference, and sluice warns about it.
 * @param into receives the gate, repeated priorities and, with the gate on, references to anything but a policy
 * @param warn called for each part that has no effect with the gate off
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
        : `plugin ${ref} does not implement the policy interface: it is a${article(kind)} ${kind}, this place needs a${article(role)} ${role}`;
    into.push({ path, problem });
  }
}

/**
 * Returns the reason why the gate is refused, and the keys to remove.
 * @param keys those of the section that configure queues
 */
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
 * Returns the saturation detector that the file names, in its present or former place; else the default one (scheduling 4.2,
 * 4.3).
 * @param plan the outdated parts of the file
 * @param into receives a name that no plugin has, or that a plugin of another kind has
 * @param warn called for the former place
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
  // The file may name the default detector without an entry for it.
  const isUsual = ref === undefined || ref === DETECTOR;
  const named = isUsual ? table.get(DETECTOR) : referencedPlugin(ref, path, "saturationDetector", table, into);
  if (named !== undefined && isDetector(named)) return named;
  if (named !== undefined && ref !== undefined)
    into.push({ path: path, problem: `plugin ${ref} is not a SaturationDetector but a ${named.definition.kind}` });
  return defaultOf(DETECTOR, "saturation-detector", registry);
}

const isDetector = isOfKind("saturation-detector");
