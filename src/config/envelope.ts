import { z } from "zod";
import { didYouMean } from "../document/nearest.ts";
import type { PluginRegistry } from "../plugin/registry.ts";
import { isPublishedType } from "./published.ts";

/** The current group, then the older one that is still read (scheduling 4.1). */
export const API_VERSIONS = ["llm-d.ai/v1alpha1", "inference.networking.x-k8s.io/v1alpha1"] as const;

/** A key that published releases know and this one doesn't act on: empty it is harmless, with content it is refused. */
function notYet(hint = "") {
  return z
    .unknown()
    .refine(isNothing, { error: `is not supported yet${hint}` })
    .optional();
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

/**
 * The schema of an EndpointPickerConfig (scheduling 4.1, 4.2): every key of every release is known to it, so that a
 * typing error is told apart from something that isn't built yet.
 */
export function envelopeSchema(registry: PluginRegistry) {
  const known = registry.types();
  const pluginType = required("the plugin is missing a type; write for example `type: queue-scorer`").superRefine(
    (type, context) => {
      if (registry.get(type) !== undefined) return;
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
        pluginRef: required(detector),
        queueDepthThreshold: notYet(INLINE_DETECTOR),
        kvCacheUtilThreshold: notYet(INLINE_DETECTOR),
        metricsStalenessThreshold: notYet(INLINE_DETECTOR),
      })
      .nullish(),
    dataLayer: z
      .strictObject({
        discovery: reference("the discovery is missing a pluginRef").nullish(),
        injectDefaults: notYet(),
        sources: notYet(),
        peerDiscovery: notYet(),
        crossReplicaSyncerPluginRef: notYet(),
        crossReplicaSyncInterval: notYet(),
      })
      .nullish(),
    flowControl: z
      .strictObject({
        saturationDetector: reference(detector).nullish(),
        maxBytes: notYet(),
        maxRequests: notYet(),
        defaultRequestTTL: notYet(),
        noEndpointRequestTTL: notYet(),
        defaultPriorityBand: notYet(),
        defaultNegativePriorityBand: notYet(),
        priorityBands: notYet(),
        usageLimitPolicyPluginRef: notYet(),
        enableEviction: notYet(),
      })
      .nullish(),
    featureGates: notYet(),
    requestHandler: z
      .strictObject({
        parsers: z
          .array(reference("this entry of the parsers is missing a pluginRef"))
          .max(MAX_PARSERS, { error: `at most ${MAX_PARSERS} parsers can be configured` })
          .nullish(),
      })
      .nullish(),
    parser: reference("the parser is missing a pluginRef").nullish(),
    data: notYet(),
  });
}

/** More than the types there are: each can be listed once, and a path is matched against all of them. */
const MAX_PARSERS = 64;

const INLINE_DETECTOR =
  "; configure a plugin of type utilization-detector with this parameter and name it in `pluginRef`";

/** A structurally valid EndpointPickerConfig. */
export type Envelope = z.output<ReturnType<typeof envelopeSchema>>;
