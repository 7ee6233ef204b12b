import { builtInDocument } from "../../picker/config/defaults.ts";
import type { ConfigSource } from "../../picker/core/config-source.ts";

/** The parts of the default profile that count here. */
interface DefaultProfile {
  readonly plugins: readonly { readonly type: string }[];
  readonly schedulingProfiles: readonly { readonly plugins: readonly { readonly pluginRef: string }[] }[];
}

const { plugins: PLUGINS, schedulingProfiles: PROFILES } = builtInDocument("default")!.value as DefaultProfile;
/** No workload of servers with roles has adapters. */
const LEFT_OUT = "lora-affinity-scorer";

/** Entries of a list of YAML, a line each. */
const entries = (list: readonly object[], indent = ""): string =>
  list.map((entry) => `${indent}- ${JSON.stringify(entry)}\n`).join("");

/** The default profile for servers with roles: the same scorers choose in both stages (scheduling 3.7.1). */
const DISAGGREGATED = `plugins:
- {type: disagg-profile-handler, parameters: {deciders: {prefill: always-disagg-pd-decider}}}
- type: always-disagg-pd-decider
- type: prefill-filter
- type: decode-filter
${entries(PLUGINS.filter(({ type }) => type !== LEFT_OUT))}`;
const STAGES = ["prefill", "decode"].map(
  (stage) => `- name: ${stage}
  plugins:
  - pluginRef: ${stage}-filter
${entries(
  PROFILES[0]!.plugins.filter(({ pluginRef }) => pluginRef !== LEFT_OUT),
  "  ",
)}`,
);

/** What one policy adds to flow control with its defaults. */
interface Addition {
  /** Entries of `plugins`, one to a line. */
  readonly plugins?: string;
  /** Keys of `flowControl`, one to a line. */
  readonly keys?: string;
}

/** The default profile with flow control. @param roles whether servers have roles */
function withFlowControl({ plugins = "", keys = "" }: Addition, roles: boolean): ConfigSource {
  const head = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nfeatureGates: [flowControl]\n";
  const scheduling = roles ? `schedulingProfiles:\n${STAGES.join("")}` : "";
  const listed = roles ? DISAGGREGATED + plugins : plugins === "" ? "" : `plugins:\n${plugins}`;
  const flowControl = keys === "" ? "" : `flowControl:\n${keys}`;
  return { configText: head + listed + scheduling + flowControl, allowExperimental: true };
}

/** A policy with flow control. */
interface FlowPolicy {
  readonly name: string;
  readonly about: string;
  readonly source: ConfigSource;
  readonly disaggregated: ConfigSource;
}

function policy(name: string, about: string, addition: Addition): FlowPolicy {
  return {
    name,
    about,
    source: withFlowControl(addition, false),
    disaggregated: withFlowControl(addition, true),
  };
}

/** `default` for servers with roles: without flow control. */
export const DEFAULT_WITH_ROLES: ConfigSource = {
  configText: `apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n${DISAGGREGATED}schedulingProfiles:\n${STAGES.join("")}`,
};

/** The default profile with flow control, and with one thing more each. */
export const FLOW_CONTROL_POLICIES: readonly FlowPolicy[] = [
  policy("flow-control", "the default profile with flow control and its defaults: one queue for each priority", {}),
  policy(
    "holdback",
    "the same as `flow-control`, and the lowest priority leaves 40 % of the saturation to the others",
    {
      plugins: "- {type: priority-holdback-policy, parameters: {minCeiling: 0.6}}\n",
      keys: "  usageLimitPolicyPluginRef: priority-holdback-policy\n",
    },
  ),
  policy(
    "eviction",
    "the same as `flow-control`, and sheddable requests in flight end when requests of higher priority wait",
    {
      keys: "  enableEviction: true\n",
    },
  ),
  policy("token-fairness", "the same as `flow-control`, and fairness IDs share the tokens of each priority", {
    plugins: "- type: token-deficit-fairness-policy\n",
    keys: "  defaultPriorityBand: {fairnessPolicyRef: token-deficit-fairness-policy}\n",
  }),
];
