import type { Path } from "../../base/document/document.ts";
import { didYouMean } from "../../base/document/nearest.ts";
import type { Violation } from "../../base/document/validate.ts";
import type { Parity } from "../../base/inference/parity.ts";
import type { PluginKind } from "../../base/plugin/kinds.ts";
import type { PluginRegistry } from "../../base/plugin/registry.ts";
import type { ConfiguredPlugin, EffectiveBand, EffectiveFlowControl } from "./effective.ts";
import type { Envelope } from "./envelope.ts";
import { DETECTOR, type MigrationPlan } from "./migrate.ts";
import { defaultOf, isOfKind, type PluginTable, referencedPlugin } from "./plugins.ts";

type Section = NonNullable<Envelope["flowControl"]>;
type BandEntry = NonNullable<Section["defaultPriorityBand"]>;

/** The kinds of policies in `flowControl`, each with the type that needs no entry in `plugins` (scheduling 4.3). */
const USUAL_POLICIES = {
  "ordering-policy": "fcfs-ordering-policy",
  "fairness-policy": "global-strict-fairness-policy",
  "usage-limit-policy": "static-usage-limit-policy",
} as const satisfies Partial<Record<PluginKind, string>>;

type PolicyKind = keyof typeof USUAL_POLICIES;

/** Whether a kind of plugin has an effect in `flowControl` only. */
export function isPolicy(kind: PluginKind): kind is PolicyKind {
  return Object.hasOwn(USUAL_POLICIES, kind);
}

/** Limits of a band where the file has none, or 0 (scheduling 4.2). */
export const BAND_DEFAULTS = { maxBytes: "1G", maxRequests: 5000 } as const;
const BAND_MAX_BYTES = 1e9;
/** The time to live of requests where the file has none (scheduling 4.2). */
export const DEFAULT_TTL = "60s";

/** Where the file has nothing: the time to live in milliseconds, 0 = none, and the requests of a band (scheduling 4.2, 6.10). */
const STANDARDS: Readonly<Record<Parity, { readonly ttl: number; readonly bandRequests: number }>> = {
  "": { ttl: 60_000, bandRequests: BAND_DEFAULTS.maxRequests },
  "v1.5": { ttl: 0, bandRequests: Number.POSITIVE_INFINITY },
};

/** Keys of `flowControl` that v1.5 does not know (scheduling 6.10). */
const LATER_KEYS = ["noEndpointRequestTTL", "defaultNegativePriorityBand", "enableEviction"] as const;

/** The fairness policy while InferenceModels turn flow control on: their requests share tokens (api-resources 2). */
const MODEL_FAIRNESS = "token-deficit-fairness-policy";

/** What reading `flowControl` needs besides the section. */
export interface FlowControlParts {
  /** Whether the gate is on; undefined = the file does not set it. Unless true, only the detector counts (scheduling 4.4). */
  readonly gate: boolean | undefined;
  readonly parity: Parity;
  readonly table: PluginTable;
  readonly registry: PluginRegistry;
  readonly into: Violation[];
  /** Called for each part that has no effect. */
  readonly warn: (path: Path, text: string) => void;
}

/**
 * Reads `flowControl`, except for the detector, and completes it (scheduling 4.2).
 * @param parts.into receives repeated priorities, and with the gate on references to anything but a policy of the right kind
 * @returns undefined unless the gate is on
 */
export function readFlowControl({ flowControl }: Envelope, parts: FlowControlParts): EffectiveFlowControl | undefined {
  const section: Section = flowControl ?? {};
  checkPriorities(section, parts.into);
  if (parts.gate) {
    if (parts.parity === "v1.5") checkKeys(section, parts.into);
    return new FlowControlReading(section, parts, USUAL_POLICIES).run();
  }
  const keys = Object.entries(section).filter(([, value]) => value !== undefined && value !== null);
  const queueing = keys.map(([key]) => key).find((key) => key !== "saturationDetector");
  if (queueing !== undefined)
    parts.warn(
      ["flowControl", queueing],
      "without the feature gate flowControl, only saturationDetector has an effect in this section",
    );
  return undefined;
}

/**
 * Returns flow control for the time with InferenceModels, where the file does not set the gate: all defaults, and fair shares of
 * tokens. Policies of the file count that are named like a default one.
 * @returns undefined where the file sets the gate, or parity with a release without InferenceModels counts
 */
export function readModelFlowControl(parts: FlowControlParts): EffectiveFlowControl | undefined {
  if (parts.gate !== undefined || parts.parity !== "") return undefined;
  // A plugin that only has the name of a policy is no mistake in a file without flow control.
  const quiet = { ...parts, into: [], warn: () => {} };
  return new FlowControlReading({}, quiet, { ...USUAL_POLICIES, "fairness-policy": MODEL_FAIRNESS }).run();
}

function checkKeys(section: Section, into: Violation[]): void {
  for (const key of LATER_KEYS) {
    const value = section[key];
    if (value === undefined || value === null || value === false) continue;
    into.push({ path: ["flowControl", key], problem: `v1.5 has no ${key}; remove ${key}, or remove --parity v1.5` });
  }
}

function checkPriorities({ priorityBands }: Section, into: Violation[]): void {
  const priorities = new Set<number>();
  priorityBands?.forEach(({ priority }, at) => {
    const path = ["flowControl", "priorityBands", at, "priority"];
    if (priorities.has(priority)) into.push({ path, problem: `duplicate priority level ${priority}` });
    priorities.add(priority);
  });
}

class FlowControlReading {
  readonly #section: Section;
  readonly #parts: FlowControlParts;
  readonly #usual: Readonly<Record<PolicyKind, string>>;

  /** @param usual the types of policies that the section does not name */
  constructor(section: Section, parts: FlowControlParts, usual: Readonly<Record<PolicyKind, string>>) {
    this.#section = section;
    this.#parts = parts;
    this.#usual = usual;
  }

  run(): EffectiveFlowControl {
    const section = this.#section;
    const defaultPriorityBand = this.#template("defaultPriorityBand") ?? this.#band({}, []);
    return {
      eviction: section.enableEviction ?? false,
      parity: this.#parts.parity,
      maxBytes: orUnlimited(section.maxBytes),
      maxRequests: orUnlimited(section.maxRequests),
      noEndpointRequestTTL: this.#ttl(section.noEndpointRequestTTL),
      bands: new Map(
        (section.priorityBands ?? []).map((entry, at) => [
          entry.priority,
          this.#band(entry, ["flowControl", "priorityBands", at]),
        ]),
      ),
      defaultPriorityBand,
      defaultNegativePriorityBand: this.#template("defaultNegativePriorityBand") ?? defaultPriorityBand,
      usageLimitPolicy: this.#policy("usage-limit-policy", section.usageLimitPolicyPluginRef, [
        "flowControl",
        "usageLimitPolicyPluginRef",
      ]),
    };
  }

  #template(key: "defaultPriorityBand" | "defaultNegativePriorityBand"): EffectiveBand | undefined {
    const entry = this.#section[key];
    if (!entry) return undefined;
    const path = ["flowControl", key];
    if (typeof entry.priority === "number")
      this.#parts.warn(
        [...path, "priority"],
        `the priority of ${key} has no effect: this band is for all priorities that have no own band`,
      );
    return this.#band(entry, path);
  }

  #band(entry: BandEntry, path: Path): EffectiveBand {
    return {
      maxBytes: entry.maxBytes || BAND_MAX_BYTES,
      maxRequests: entry.maxRequests || STANDARDS[this.#parts.parity].bandRequests,
      defaultRequestTTL: this.#ttl(entry.defaultRequestTTL),
      orderingPolicy: this.#policy("ordering-policy", entry.orderingPolicyRef, [...path, "orderingPolicyRef"]),
      fairnessPolicy: this.#policy("fairness-policy", entry.fairnessPolicyRef, [...path, "fairnessPolicyRef"]),
    };
  }

  /** @param own what a band, or the time without endpoints, has of its own; the time of the whole section counts else */
  #ttl(own: number | null | undefined): number {
    const ms = own ?? this.#section.defaultRequestTTL ?? STANDARDS[this.#parts.parity].ttl;
    return ms === 0 ? Number.POSITIVE_INFINITY : ms;
  }

  /** Returns the policy that a reference names, or the usual one of its kind. */
  #policy<K extends PolicyKind>(kind: K, given: string | null | undefined, path: Path): ConfiguredPlugin<K> {
    const { table, registry, into } = this.#parts;
    const usual = this.#usual[kind];
    const ref = given || usual;
    const plugin = table.get(ref);
    if (plugin !== undefined && isOfKind(kind)(plugin)) return plugin;
    if (plugin !== undefined) {
      const is = words(plugin.definition.kind);
      const problem = `plugin ${ref} does not implement the policy interface: it is ${is}, this place needs ${words(kind)}`;
      into.push({ path: given ? path : plugin.path, problem });
    } else if (ref !== usual) into.push({ path, problem: `plugin ${ref} not found${this.#remedy(ref, kind)}` });
    return defaultOf(usual, kind, registry);
  }

  #remedy(ref: string, kind: PolicyKind): string {
    const { table, registry } = this.#parts;
    if (registry.get(ref)?.kind === kind) return `; add \`- type: ${ref}\` to plugins`;
    return didYouMean(ref, table.keys()) || `; add a plugin of this name; it must be ${words(kind)}`;
  }
}

/** @param limit 0 or none = unlimited */
function orUnlimited(limit: number | null | undefined): number {
  return limit || Number.POSITIVE_INFINITY;
}

/** Returns a kind as a noun with its article. */
function words(kind: PluginKind): string {
  return `a${/^[aeio]/.test(kind) ? "n" : ""} ${kind.replaceAll("-", " ")}`;
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
        ? "saturationDetector has no effect: flowControl.saturationDetector overrides it"
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
