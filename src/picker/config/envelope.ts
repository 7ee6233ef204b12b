import { z } from "zod";
import { duration } from "../../base/document/duration-schema.ts";
import { didYouMean, nearestFew } from "../../base/document/nearest.ts";
import { quantity } from "../../base/document/quantity.ts";
import type { PluginRegistry } from "../../base/plugin/registry.ts";
import { renamedType, TYPES_WITHOUT_EFFECT, whyNoEffect, whyNoMore, whyNotYet } from "./published.ts";

/** The version that Sluice writes, then the others that it reads (scheduling 4.1). */
export const API_VERSIONS = ["llm-d.ai/v1alpha1", "llm-d.ai/v1", "inference.networking.x-k8s.io/v1alpha1"] as const;

/** In this version, `discovery` has a member for endpoints and one for other replicas; otherwise it equals its alpha. */
export const V1 = API_VERSIONS[1];

/** Whether Sluice reads files of a version without a warning. */
export function isCurrent(version: (typeof API_VERSIONS)[number]): boolean {
  return version !== API_VERSIONS[2];
}

/** Thresholds that were in `saturationDetector` itself from v1.2 to v1.4 (scheduling appendix C). */
export const INLINE_THRESHOLDS = ["queueDepthThreshold", "kvCacheUtilThreshold", "metricsStalenessThreshold"] as const;

/**
 * Returns the schema of a key that published releases know and this one does not support: empty it is accepted, with content it
 * is refused.
 */
function notYet() {
  const error = "is not supported: replicas share through the store of --peers; remove it";
  return z.unknown().refine(isNothing, { error }).optional();
}

function isNothing(value: unknown): boolean {
  if (value === undefined || value === null) return true;
  return typeof value === "object" && Object.keys(value).length === 0;
}

/** Returns the schema of a required string, with its own message for a missing one. */
function required(missing: string) {
  return z
    .string({ error: ({ input }) => (input === undefined || input === null ? missing : undefined) })
    .min(1, { error: missing });
}

function reference(missing: string) {
  return z.strictObject({ pluginRef: required(missing) }, { error: asMapping });
}

/** Returns the message for a name in the place of a mapping with that name; none of its own for other values. */
function asMapping({ code, input }: { readonly code?: string | undefined; readonly input?: unknown }) {
  const isName = code === "invalid_type" && typeof input === "string";
  return isName ? `expected a mapping, got a name; write \`pluginRef: ${input.slice(0, 60)}\`` : undefined;
}

/** Returns the schema of one of the thresholds of v1.2 to v1.4; the detector made from it checks its value. */
function inline(what: string) {
  return z.unknown().optional().describe(`Deprecated: ${what}. Now a parameter of utilization-detector.`);
}

function dataLayer() {
  return z.strictObject({
    discovery: discovery().nullish(),
    injectDefaults: z.boolean().nullish().describe("Whether Sluice adds the default source when the list has none."),
    sources: z
      .array(
        reference("the data source is missing a pluginRef").extend({
          extractors: z.array(reference("the extractor is missing a pluginRef")).nullish(),
        }),
      )
      .max(MAX_SOURCES, { error: `at most ${MAX_SOURCES} sources can be listed` })
      .nullish(),
    peerDiscovery: notYet(),
    crossReplicaSyncerPluginRef: notYet(),
    crossReplicaSyncInterval: notYet(),
    crossReplicaPublishTimeout: notYet(),
    crossReplica: notYet(),
  });
}

/** Returns the schema of the discovery: a reference, which is one level deeper in v1. */
function discovery() {
  const missing = "the discovery is missing a pluginRef";
  return z
    .strictObject(
      { pluginRef: z.string().nullish(), endpoints: reference(missing).nullish(), peers: notYet() },
      { error: asMapping },
    )
    .superRefine(({ pluginRef, endpoints, peers }, context) => {
      if (!pluginRef && !endpoints && peers === undefined)
        context.addIssue({ code: "custom", path: ["pluginRef"], message: missing });
    });
}

/** Returns the schema of the queues of one priority (scheduling 4.2). */
function band() {
  return z.strictObject({
    priority: z.int().nullish(),
    maxBytes: quantity().nullish(),
    maxRequests: quantity().nullish(),
    defaultRequestTTL: duration().nullish(),
    fairnessPolicyRef: z.string().nullish(),
    orderingPolicyRef: z.string().nullish(),
  });
}

/** Returns the message for a missing number; none of its own for another value. */
function whole(missing: string) {
  return ({ input }: { readonly input?: unknown }) => (input === undefined || input === null ? missing : undefined);
}

/**
 * Returns the schema of an EndpointPickerConfig (scheduling 4.1, 4.2). It knows every key of every release, so that a typing
 * error differs from a key that is not supported yet.
 */
export function envelopeSchema(registry: PluginRegistry) {
  const known = registry.types();
  const near = [...known, ...TYPES_WITHOUT_EFFECT];
  const pluginType = required("the plugin is missing a type; write for example `type: queue-scorer`").superRefine(
    (type, context) => {
      if (registry.get(type) !== undefined || renamedType(type, registry) !== undefined) return;
      if (whyNoEffect(type) !== undefined) return;
      const [notYet, noMore] = [whyNotYet(type), whyNoMore(type)];
      const reason =
        (notYet && `is not supported yet: ${notYet}`) ??
        (noMore && `is not supported any more: ${noMore}`) ??
        `is not registered${didYouMean(type, near) || `; the nearest types are ${nearestFew(type, known, NEAREST).join(", ")}, and docs/reference/plugins.md lists all; for your own type, add \`module\`, the path of its file`}`;
      context.addIssue({ code: "custom", message: `plugin type ${type} ${reason}` });
    },
  );
  const detector = "saturation detector plugin reference is empty";
  const empty = `the file is empty; begin it with \`apiVersion: ${API_VERSIONS[0]}\` and \`kind: EndpointPickerConfig\``;
  return z.strictObject(
    {
      apiVersion: z.enum(API_VERSIONS),
      kind: z.literal("EndpointPickerConfig", {
        error: ({ input }) =>
          input === "ConfigMap"
            ? "this is a ConfigMap: save the text under the key of its `data` as a separate file"
            : undefined,
      }),
      plugins: z
        .array(
          z.strictObject({
            name: z.string().refine(isPrintable, { error: PRINTABLE }).max(MAX_NAME, { error: SHORT }).nullish(),
            type: pluginType,
            module: z
              .string()
              .min(1, { error: "name the file that defines the plugin type, or remove the key" })
              .nullish()
              .describe("Your file that defines the type, in the folder of the configuration."),
            weight: z
              .never({ error: "move the weight to schedulingProfiles, beside the pluginRef of a scorer" })
              .optional(),
            pluginRef: z
              .never({ error: "write `type` here; only profiles and other sections refer to a plugin by pluginRef" })
              .optional(),
            parameters: z.record(z.string(), z.unknown()).nullish(),
          }),
        )
        .nullish(),
      schedulingProfiles: z
        .array(
          z.strictObject({
            name: required("the scheduling profile is missing a name")
              .refine(isPrintable, { error: PRINTABLE })
              .max(MAX_NAME, { error: SHORT }),
            plugins: z
              .array(
                reference("this entry of the profile is missing a pluginRef").extend({
                  weight: z
                    .number()
                    .min(0, { error: "a weight must not be negative; 0 switches a scorer off" })
                    .nullish(),
                  parameters: z
                    .never({ error: "move the parameters to plugins, to the entry that pluginRef names" })
                    .optional(),
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
              ? "cannot be combined with the thresholds of v1.2 to v1.4; move the thresholds to the parameters of the plugin"
              : detector;
          if (Boolean(value.pluginRef) === isInline) context.addIssue({ code: "custom", path: ["pluginRef"], message });
        })
        .nullish()
        .describe("Deprecated: use flowControl.saturationDetector."),
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
            .max(MAX_BANDS, { error: `at most ${MAX_BANDS} priority bands can be configured` })
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
          propagatePriority: z
            .boolean()
            .refine((value) => !value, {
              error: "is not supported yet: model servers do not receive the priority of a request; remove it",
            })
            .nullish(),
        })
        .nullish(),
      parser: reference("the parser is missing a pluginRef")
        .nullish()
        .describe("Deprecated: use requestHandler.parsers."),
      data: dataLayer().nullish().describe("Deprecated: the name of dataLayer in v1.3 and v1.4."),
    },
    { error: ({ input }) => (input === null ? empty : undefined) },
  );
}

/** The number of plugin types in the message for an unknown type that resembles none. */
const NEAREST = 3;

/** The most characters of a name, as for Kubernetes objects. */
const MAX_NAME = 253;
const SHORT = `a name has at most ${MAX_NAME} characters`;
const PRINTABLE = "a name must not contain line breaks or other control characters";

/** Names appear in log lines, metrics, headers and on terminals. */
function isPrintable(name: string): boolean {
  return !/[\p{Cc}\u2028\u2029]/u.test(name);
}

/** The most sources: Sluice fetches each one from every endpoint. */
const MAX_SOURCES = 16;

/** The most bands of the file: fewer than the bands that flow control holds, which objectives may add to. */
const MAX_BANDS = 512;

/** The most parsers: more than there are types. Each type can be listed once, and each path is compared with all of them. */
const MAX_PARSERS = 64;

/** A structurally valid EndpointPickerConfig. */
export type Envelope = z.output<ReturnType<typeof envelopeSchema>>;
