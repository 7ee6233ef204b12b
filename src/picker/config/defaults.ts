import type { Document } from "../../base/document/document.ts";
import { parseDocument } from "../../base/document/parse.ts";

/**
 * The configuration in force when none is given (docs/adr/0015 and 0017, `node bench/routing.ts`).
 *
 * Requests and tokens in flight are known at once, so they weigh more than scraped values. Only requests without a first byte
 * of their answer have tokens in flight. 16,384 tokens are one point; the scale ends at 1,048,576, where a server has more than
 * 20 s of prefill before it.
 *
 * A prefix must not weigh more than the number of requests. Otherwise, where metrics are unreadable, a hot prefix would never
 * leave its server.
 *
 * LoRA weighs more because a missing adapter waits seconds for a slot. It must not weigh still more: a free slot also draws
 * requests for the base model, where only some servers have slots.
 */
export const DEFAULT_CONFIG = `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: queue-scorer
- type: kv-cache-utilization-scorer
- type: prefix-cache-scorer
- type: lora-affinity-scorer
- type: active-request-scorer
- type: token-load-scorer
  parameters: {queueThresholdTokens: 1048576}
- type: max-score-picker
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: queue-scorer, weight: 1}
  - {pluginRef: kv-cache-utilization-scorer, weight: 1}
  - {pluginRef: prefix-cache-scorer, weight: 3}
  - {pluginRef: lora-affinity-scorer, weight: 4}
  - {pluginRef: active-request-scorer, weight: 3}
  - {pluginRef: token-load-scorer, weight: 64}
  - {pluginRef: max-score-picker}
`;

/**
 * Keeps prompts with the endpoints that hold them until those are saturated, at 1.4 times their fair share of the requests
 * (docs/adr/0015). Only load decides among the endpoints that are left; 10,923 tokens are one point.
 */
export const STICKY_CONFIG = `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: bounded-load-filter
- type: prefix-cache-affinity-filter
- type: queue-scorer
- type: kv-cache-utilization-scorer
- type: lora-affinity-scorer
- type: active-request-scorer
- type: token-load-scorer
  parameters: {queueThresholdTokens: 1048576}
- type: max-score-picker
schedulingProfiles:
- name: sticky-until-saturated
  plugins:
  - pluginRef: bounded-load-filter
  - pluginRef: prefix-cache-affinity-filter
  - {pluginRef: queue-scorer, weight: 1}
  - {pluginRef: kv-cache-utilization-scorer, weight: 1}
  - {pluginRef: lora-affinity-scorer, weight: 6}
  - {pluginRef: active-request-scorer, weight: 2}
  - {pluginRef: token-load-scorer, weight: 96}
  - pluginRef: max-score-picker
`;

/** The scheduler of v0.3, which had no configuration (scheduling 2). */
const LEGACY_CONFIG = `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: decision-tree-filter
- type: random-picker
- type: never-saturated-detector
schedulingProfiles:
- name: legacy-v0.3
  plugins:
  - pluginRef: decision-tree-filter
  - pluginRef: random-picker
flowControl:
  saturationDetector: {pluginRef: never-saturated-detector}
`;

/** The configurations that need no file, by the name of their profile. */
const BUILT_IN: ReadonlyMap<string, string> = new Map([
  ["default", DEFAULT_CONFIG],
  ["sticky-until-saturated", STICKY_CONFIG],
  ["legacy-v0.3", LEGACY_CONFIG],
]);

/** The names that `builtInDocument` knows. */
export const BUILT_IN_PROFILES: readonly string[] = [...BUILT_IN.keys()];

/** Returns a built-in configuration as a document, as if read from a file; undefined when no configuration has that name. */
export function builtInDocument(profile: string): Document | undefined {
  const text = BUILT_IN.get(profile);
  if (text === undefined) return undefined;
  return parseDocument(text, { file: profile === "default" ? "built-in configuration" : `built-in ${profile}` });
}
