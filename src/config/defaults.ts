import type { Document } from "../document/document.ts";
import { parseDocument } from "../document/parse.ts";

/**
 * What is in force when no configuration is given. Weights 2, 2, 3 are those of the reference (scheduling 3.18);
 * active-request-scorer is ours: the requests sent since the last scrape are known here and nowhere else.
 */
export const DEFAULT_CONFIG = `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: queue-scorer
- type: kv-cache-utilization-scorer
- type: prefix-cache-scorer
- type: active-request-scorer
- type: max-score-picker
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: queue-scorer, weight: 2}
  - {pluginRef: kv-cache-utilization-scorer, weight: 2}
  - {pluginRef: prefix-cache-scorer, weight: 3}
  - {pluginRef: active-request-scorer, weight: 2}
  - {pluginRef: max-score-picker}
`;

/**
 * Prompts stay with the endpoints that hold them until those are saturated, which they are with two requests waiting
 * (docs/adr/0012). The detector has a name of its own, so that the other one, by whose measure requests are shed, stays as
 * it is.
 */
export const STICKY_CONFIG = `apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- name: unsaturated
  type: utilization-detector
  parameters: {queueDepthThreshold: 2}
- type: prefix-cache-affinity-filter
- type: active-request-scorer
- type: max-score-picker
schedulingProfiles:
- name: sticky-until-saturated
  plugins:
  - pluginRef: unsaturated
  - pluginRef: prefix-cache-affinity-filter
  - pluginRef: active-request-scorer
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

/** Names that `builtInDocument` knows. */
export const BUILT_IN_PROFILES: readonly string[] = [...BUILT_IN.keys()];

/** A built-in configuration as if it had been read from a file; undefined when there is none of that name. */
export function builtInDocument(profile: string): Document | undefined {
  const text = BUILT_IN.get(profile);
  if (text === undefined) return undefined;
  return parseDocument(text, { file: profile === "default" ? "built-in configuration" : `built-in ${profile}` });
}
