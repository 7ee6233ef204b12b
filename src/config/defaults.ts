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

/** The built-in configuration as if it had been read from a file. */
export function defaultDocument(): Document {
  return parseDocument(DEFAULT_CONFIG, { file: "built-in configuration" });
}
