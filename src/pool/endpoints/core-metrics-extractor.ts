import { z } from "zod";
import { didYouMean } from "../../base/document/nearest.ts";
import { messageOf } from "../../base/inference/errors.ts";
import { defineExtractor } from "../../base/plugin/define.ts";
import type { EngineSpecification } from "../../base/plugin/kinds.ts";
import { ENGINE_LABEL } from "./dialects/dialects.ts";
import { ENGINES, VLLM } from "./dialects/engines.ts";
import { parseSpecification } from "./dialects/specification.ts";

const TYPE = "core-metrics-extractor";

const BUILT_IN: readonly string[] = ENGINES.map(({ name }) => name);

/** The reference means the default engine by this name, so no engine can have it. */
const RESERVED = "default";

/** Each engine holds tables of 64 KiB. */
const MAX_ENGINES = 64;

/** Each is a number for every endpoint. */
const MAX_CUSTOM_METRICS = 64;

const customMetric = z.strictObject({
  attributeKey: z
    .string("attributeKey must be a string")
    .trim()
    .min(1, "attributeKey is empty; name the attribute")
    .max(256, "attributeKey must not be longer than 256 characters"),
  metricSpec: specification("The metric.").refine((text) => text.trim() !== "", "metricSpec is empty; name the metric"),
});

const engineConfig = z.strictObject({
  name: z
    .string({ error: ({ input }) => (input === undefined ? "engine name is empty" : "engine name must be a string") })
    .trim()
    .min(1, "engine name is empty")
    .refine((name) => name !== RESERVED, `engine name ${RESERVED} is reserved; choose another one`)
    .describe("Value of the engine label on endpoints of this engine. A built-in name replaces the built-in engine."),
  queuedRequestsSpec: specification("Requests waiting."),
  runningRequestsSpec: specification("Requests executing."),
  kvUsageSpec: specification("KV-cache utilisation, 0 to 1."),
  loraSpec: specification("LoRA adapters, in the labels of vllm:lora_requests_info."),
  cacheInfoSpec: specification("A metric with the tokens per KV block and the number of blocks as labels."),
  cacheBlockSizeLabelName: labelName("Label of cacheInfoSpec with the tokens per block; empty = `block_size`."),
  cacheNumBlocksLabelName: labelName("Label of cacheInfoSpec with the number of blocks; empty = `num_gpu_blocks`."),
  cacheBlockSizeSpec: specification("Metric with tokens per KV block as its value; wins over the label."),
  cacheNumBlocksSpec: specification("Metric with the number of KV blocks as its value; wins over the label."),
  customMetrics: z
    .array(customMetric, "customMetrics must be a list")
    .max(MAX_CUSTOM_METRICS, `at most ${MAX_CUSTOM_METRICS} custom metrics`)
    .nullish()
    .describe("Further numbers, `{attributeKey, metricSpec}` each, for endpoint-attribute-scorer and -filter."),
});

type EngineConfig = z.output<typeof engineConfig>;

const parameters = z
  .strictObject({
    engineLabelKey: z
      .string("engineLabelKey must be a string")
      .trim()
      .min(1, "engineLabelKey is empty; leave it out for the default")
      .default(ENGINE_LABEL)
      .describe(
        "Label of an endpoint that names its engine; inference.networking.k8s.io/engine-type where it is absent.",
      ),
    defaultEngine: z
      .string("defaultEngine must be a string")
      .trim()
      .default(VLLM.name)
      .describe("Engine of endpoints without that label, or with a value that names no engine."),
    engineConfigs: z
      .array(engineConfig, "engineConfigs must be a list")
      .max(MAX_ENGINES, `at most ${MAX_ENGINES} engines`)
      .default([])
      .describe(
        "Further engines: a name, and metric specifications NAME or NAME{label=value,...}: queuedRequestsSpec, runningRequestsSpec, kvUsageSpec, loraSpec, cacheInfoSpec with cacheBlockSizeLabelName and cacheNumBlocksLabelName, cacheBlockSizeSpec, cacheNumBlocksSpec; and customMetrics, a list of `{attributeKey, metricSpec}`.",
      ),
  })
  .superRefine(({ defaultEngine, engineConfigs }, context) => {
    const names = engineConfigs.map(({ name }) => name);
    for (const [at, name] of names.entries())
      if (names.indexOf(name) < at)
        context.addIssue({
          code: "custom",
          path: ["engineConfigs", at, "name"],
          message: `duplicate engine name ${name}; keep one of the two`,
        });
    for (const [at, { customMetrics }] of engineConfigs.entries()) {
      const keys = (customMetrics ?? []).map(({ attributeKey }) => attributeKey);
      for (const [index, key] of keys.entries())
        if (keys.indexOf(key) < index)
          context.addIssue({
            code: "custom",
            path: ["engineConfigs", at, "customMetrics", index, "attributeKey"],
            message: `duplicate attributeKey ${key}; keep one of the two`,
          });
    }
    const known = new Set([...BUILT_IN, ...names]);
    if (known.has(defaultEngine)) return;
    const hint = didYouMean(defaultEngine, known) || `; there are ${[...known].join(", ")}`;
    context.addIssue({
      code: "custom",
      path: ["defaultEngine"],
      message: `defaultEngine ${JSON.stringify(defaultEngine)} is neither built in nor in engineConfigs${hint}`,
    });
  });

/** scheduling 1.4, 1.5, 1.8 */
export const coreMetricsExtractor = defineExtractor({
  type: TYPE,
  describe: "Reads load, LoRA adapters and cache sizes from metrics pages, by the names of each endpoint's engine.",
  parameters,
  notes: ({ engineConfigs }) => engineConfigs.flatMap(notesOf),
  endpointAttributes: ({ engineConfigs }) =>
    engineConfigs.flatMap(({ customMetrics }) =>
      (customMetrics ?? []).map(({ attributeKey }) => customKey(attributeKey)),
    ),
  create: ({ engineLabelKey, defaultEngine, engineConfigs }) => ({
    engineLabelKey,
    defaultEngine,
    engines: engineConfigs.map(
      ({ customMetrics, ...engine }): EngineSpecification => ({
        ...engine,
        customMetrics: (customMetrics ?? []).map(({ attributeKey, metricSpec }) => ({
          attributeKey: customKey(attributeKey),
          metricSpec,
        })),
        cacheBlockSizeLabelName: engine.cacheBlockSizeLabelName || VLLM.blockSizeLabel,
        cacheNumBlocksLabelName: engine.cacheNumBlocksLabelName || VLLM.blocksLabel,
      }),
    ),
  }),
});

/** The key of a custom metric among the attributes of an endpoint. */
function customKey(attribute: string): string {
  return `${attribute}/${TYPE}`;
}

function specification(what: string) {
  return z
    .string("must be a metric specification: NAME or NAME{label=value,...}")
    .default("")
    .superRefine((text, context) => {
      try {
        parseSpecification(text);
      } catch (error) {
        context.addIssue({ code: "custom", message: messageOf(error) });
      }
    })
    .describe(what);
}

function labelName(what: string) {
  return z
    .string("must be the name of a label")
    .regex(/^$|^[a-zA-Z_][a-zA-Z0-9_]*$/, "must be the name of a label: letters, digits and underscores")
    .default("")
    .describe(what);
}

function notesOf(engine: EngineConfig): readonly string[] {
  const { name, cacheInfoSpec, cacheBlockSizeLabelName, cacheNumBlocksLabelName } = engine;
  const labels = cacheBlockSizeLabelName + cacheNumBlocksLabelName;
  const notes: string[] = [];
  if (cacheInfoSpec === "" && labels !== "")
    notes.push(
      `engine ${name}: cacheBlockSizeLabelName and cacheNumBlocksLabelName have no effect without cacheInfoSpec`,
    );
  const specifications = Object.entries(engine).filter(([key]) => key.endsWith("Spec"));
  if (specifications.every(([, text]) => text === "") && (engine.customMetrics ?? []).length === 0)
    notes.push(`engine ${name} names no metric, so Sluice does not know the load of its endpoints`);
  return notes;
}
