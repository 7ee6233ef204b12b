import type { Path } from "../../base/document/document.ts";
import { type ConfiguredPlugin, type EffectiveBand, type EffectiveFlowControl, policiesOf } from "./effective.ts";
import { BAND_DEFAULTS, DEFAULT_TTL } from "./flow-control.ts";
import { gateName } from "./gates.ts";
import type { LoadedConfig } from "./load.ts";

/** The access to the file and to the explanation that this part needs. */
export interface ExplanationParts {
  readonly loaded: LoadedConfig;
  /** The value of the file at a path, as written. */
  readonly raw: (path: Path) => unknown;
  /** Names the line of a path. */
  readonly line: (path: Path) => string;
  /** Receives the origin of a value. */
  readonly note: (path: Path, origin: string) => void;
}

/**
 * Completes `flowControl`, except for the detector, and `featureGates`. With the gate off only that; nothing where the file does
 * not set it.
 */
export function explainFlowControl({ loaded, raw, line, note }: ExplanationParts): Readonly<Record<string, unknown>> {
  const { config, envelope, table } = loaded;
  const gate = (envelope.featureGates ?? []).findIndex((text) => gateName(text) === "flowControl");
  if (config.flowControl === undefined) {
    if (gate < 0) return {};
    note(["featureGates", 0], line(["featureGates", gate]));
    return { featureGates: ["flowControl=false"] };
  }
  const { bands, defaultPriorityBand, defaultNegativePriorityBand, usageLimitPolicy }: EffectiveFlowControl =
    config.flowControl;
  const section = envelope.flowControl ?? {};
  const top = (key: string): Path => ["flowControl", key];
  const set = <T>(path: Path, value: T, origin: string): T => {
    note(path, origin);
    return value;
  };
  /** The value of the file, as written, or a default. @param counts whether the value of the file counts */
  const given = (path: Path, counts: boolean, standard: unknown, origin = "default"): unknown =>
    counts ? set(path, raw(path), line(path)) : set(path, standard, origin);
  const policy = (path: Path, ref: string | null | undefined, name: string): string =>
    set(path, name, ref ? line(path) : table.has(name) ? "default: the plugin of that name" : "default");
  const waits = typeof section.defaultRequestTTL === "number";
  const ttl = (path: Path, own: number | null | undefined): unknown =>
    given(
      path,
      typeof own === "number",
      waits ? raw(top("defaultRequestTTL")) : DEFAULT_TTL,
      waits ? "default: defaultRequestTTL" : "default",
    );
  const band = (
    path: Path,
    entry: NonNullable<typeof section.defaultPriorityBand>,
    { orderingPolicy, fairnessPolicy }: EffectiveBand,
  ): Record<string, unknown> => {
    const limit = (key: "maxBytes" | "maxRequests"): unknown => {
      const isZero = entry[key] === 0;
      const origin = isZero ? `default: 0 in ${line([...path, key])} counts as not set` : "default";
      return given([...path, key], Boolean(entry[key]), BAND_DEFAULTS[key], origin);
    };
    const at = (key: string): Path => [...path, key];
    return {
      maxBytes: limit("maxBytes"),
      maxRequests: limit("maxRequests"),
      defaultRequestTTL: ttl(at("defaultRequestTTL"), entry.defaultRequestTTL),
      orderingPolicyRef: policy(at("orderingPolicyRef"), entry.orderingPolicyRef, orderingPolicy.name),
      fairnessPolicyRef: policy(at("fairnessPolicyRef"), entry.fairnessPolicyRef, fairnessPolicy.name),
    };
  };
  const other = band(top("defaultPriorityBand"), section.defaultPriorityBand ?? {}, defaultPriorityBand);
  const negative = section.defaultNegativePriorityBand
    ? band(top("defaultNegativePriorityBand"), section.defaultNegativePriorityBand, defaultNegativePriorityBand)
    : { ...other };
  if (!section.defaultNegativePriorityBand)
    for (const key of Object.keys(negative))
      note([...top("defaultNegativePriorityBand"), key], "default: the value of defaultPriorityBand");
  const listed = (section.priorityBands ?? []).map((entry, index) => {
    const path = [...top("priorityBands"), index];
    const priority = set([...path, "priority"], entry.priority, line([...path, "priority"]));
    return { priority, ...band(path, entry, bands.get(priority)!) };
  });
  return {
    featureGates: [set(["featureGates", 0], "flowControl", line(["featureGates", gate]))],
    flowControl: {
      maxBytes: given(top("maxBytes"), typeof section.maxBytes === "number", 0, "default: no limit"),
      maxRequests: given(top("maxRequests"), typeof section.maxRequests === "number", 0, "default: no limit"),
      defaultRequestTTL: given(top("defaultRequestTTL"), waits, DEFAULT_TTL),
      noEndpointRequestTTL: ttl(top("noEndpointRequestTTL"), section.noEndpointRequestTTL),
      ...(listed.length === 0 ? {} : { priorityBands: listed }),
      defaultPriorityBand: other,
      defaultNegativePriorityBand: negative,
      usageLimitPolicyPluginRef: policy(
        top("usageLimitPolicyPluginRef"),
        section.usageLimitPolicyPluginRef,
        usageLimitPolicy.name,
      ),
      enableEviction: given(top("enableEviction"), typeof section.enableEviction === "boolean", false),
    },
  };
}

/** Returns the policies in force, each with the reason why the file need not name it. */
export function explainPolicies({ config }: LoadedConfig): readonly {
  readonly plugin: ConfiguredPlugin;
  readonly because: string;
}[] {
  return policiesOf(config).map((plugin) => ({
    plugin,
    because: `flowControl names no other ${plugin.definition.kind.replaceAll("-", " ")}`,
  }));
}
