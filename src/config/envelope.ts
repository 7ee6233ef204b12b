import { z } from "zod";
import { duration } from "../document/duration.ts";
import { didYouMean } from "../document/nearest.ts";
import { quantity } from "../document/quantity.ts";
import type { PluginRegistry } from "../plugin/registry.ts";
import { INLINE_THRESHOLDS, renamedType } from "./migrate.ts";
import { isPublishedType } from "./published.ts";

/** The current group, then the older one that is still read (scheduling 4.1). */
export const API_VERSIONS = ["llm-d.ai/v1alpha1", "inference.networking.x-k8s.io/v1alpha1"] as const;

/** A key that published releases know and this one doesn't act on: empty it is harmless, with content it is refused. */
function notYet() {
  return z.unknown().refine(isNothing, { error: "is not supported yet" }).optional();
}

function isNothing(value: unknown): boolean {
  if (value === undefined || value === null) return true;
  return typeof value === "object" && Object.keys(value).length === 0;
}

/** A string that must be there, with its own words for when it isn't. */
function required(missing: string) {
  return z
    .string({ error: ({ input }) => (input === undefined || input === null ? missing : undefined) })
    .min(1, { error: missing });
}

function reference(missing: string) {
  return z.strictObject({ pluginRef: required(missing) });
}

/** One of the thresholds of v1.2 to v1.4; the detector that is made of it checks it. */
function inline(what: string) {
  return z.unknown().optional().describe(`Deprecated: ${what}, a parameter of utilization-detector.`);
}

function dataLayer() {
  return z.strictObject({
    discovery: reference("the discovery is missing a pluginRef").nullish(),
    injectDefaults: z
      .unknown()
      .refine((value) => value === true || isNothing(value), { error: "only true is supported yet" })
      .optional(),
    sources: notYet(),
    peerDiscovery: notYet(),
    crossReplicaSyncerPluginRef: notYet(),
    crossReplicaSyncInterval: notYet(),
  });
}

/** Queues of one priority (scheduling 4.2). */
function band() {
  return z.strictObject({
    priority: z.int().nullish(),
    maxBytes: quantity().nullish(),
    maxRequests: quantity().nullish(),
    fairnessPolicyRef: z.string().nullish(),
    orderingPolicyRef: z.string().nullish(),
  });
}

/** A message for a number that isn't there, and none of its own for one that is something else. */
function whole(missing: string) {
  return ({ input }: { readonly input?: unknown }) => (input === undefined || input === null ? missing : undefined);
}

/**
 * The schema of an EndpointPickerConfig (scheduling 4.1, 4.2): every key of every release is known to it, so that a
 * typing error is told apart from something that isn't built yet.
 */
export function envelopeSchema(registry: PluginRegistry) {
  const known = registry.types();
  const pluginType = required("the plugin is missing a type; write for example `type: queue-scorer`").superRefine(
    (type, context) => {
      if (registry.get(type) !== undefined || renamedType(type, registry) !== undefined) return;
      const message = isPublishedType(type)
        ? `plugin type ${type} is not supported yet; known are ${known.join(", ")}`
        : `plugin type ${type} is not registered${didYouMean(type, known) || `; known are ${known.join(", ")}`}`;
      context.addIssue({ code: "custom", message });
    },
  );
  const detector = "saturation detector plugin reference is empty";
  return z.strictObject({
    apiVersion: z.enum(API_VERSIONS),
    kind: z.literal("EndpointPickerConfig"),
    plugins: z
      .array(
        z.strictObject({
          name: z.string().nullish(),
          type: pluginType,
          parameters: z.record(z.string(), z.unknown()).nullish(),
        }),
      )
      .nullish(),
    schedulingProfiles: z
      .array(
        z.strictObject({
          name: required("the scheduling profile is missing a name"),
          plugins: z
            .array(
              z.strictObject({
                pluginRef: required("this entry of the profile is missing a pluginRef"),
                weight: z
                  .number()
                  .min(0, { error: "a weight must not be negative; 0 switches a scorer off" })
                  .nullish(),
              }),
            )
            .nullish(),
        }),
      )
      .nullish(),
    saturationDetector: z
      .strictObject({
        pluginRef: z.string().nullish(),
        queueDepthThreshold: inline("Waiting requests"),
        kvCacheUtilThreshold: inline("KV-cache utilisation"),
        metricsStalenessThreshold: inline("Age of metrics"),
      })
      .superRefine((value, context) => {
        const isInline = INLINE_THRESHOLDS.some((key) => value[key] !== undefined);
        const message =
          value.pluginRef && isInline
            ? "takes a pluginRef or, as from v1.2 to v1.4, thresholds, not both; give the thresholds to the plugin"
            : detector;
        if (Boolean(value.pluginRef) === isInline) context.addIssue({ code: "custom", path: ["pluginRef"], message });
      })
      .nullish()
      .describe("Deprecated: flowControl.saturationDetector."),
    dataLayer: dataLayer().nullish(),
    flowControl: z
      .strictObject({
        saturationDetector: reference(detector).nullish(),
        maxBytes: quantity().nullish(),
        maxRequests: quantity().nullish(),
        defaultRequestTTL: duration().nullish(),
        noEndpointRequestTTL: duration().nullish(),
        defaultPriorityBand: band().nullish(),
        defaultNegativePriorityBand: band().nullish(),
        priorityBands: z
          .array(band().extend({ priority: z.int({ error: whole("the priority band is missing a priority") }) }))
          .nullish(),
        usageLimitPolicyPluginRef: z.string().nullish(),
        enableEviction: z.boolean().nullish(),
      })
      .nullish(),
    featureGates: z.array(z.string()).nullish(),
    requestHandler: z
      .strictObject({
        parsers: z
          .array(reference("this entry of the parsers is missing a pluginRef"))
          .max(MAX_PARSERS, { error: `at most ${MAX_PARSERS} parsers can be configured` })
          .nullish(),
      })
      .nullish(),
    parser: reference("the parser is missing a pluginRef").nullish().describe("Deprecated: requestHandler.parsers."),
    data: dataLayer().nullish().describe("Deprecated: the name of dataLayer in v1.3 and v1.4."),
  });
}

/** More than the types there are: each can be listed once, and a path is matched against all of them. */
const MAX_PARSERS = 64;

/** A structurally valid EndpointPickerConfig. */
export type Envelope = z.output<ReturnType<typeof envelopeSchema>>;
