import { z } from "zod";
import type { Path } from "../../base/document/document.ts";
import type { Violation } from "../../base/document/validate.ts";
import { defineKind, type Kind, servicePort, uniquePorts } from "./kind.ts";
import { GROUP } from "./objects.ts";
import {
  defaulting,
  group,
  kindName,
  labels,
  mapping,
  objectName,
  optional,
  PATTERN,
  port,
  type UnknownKeys,
} from "./scalars.ts";

/** The common fields of `extensionRef` and `endpointPickerRef`. */
const pickerShape = () => ({
  group: defaulting(group(), ""),
  kind: defaulting(kindName(), "Service"),
  name: objectName("the name of the Endpoint Picker's Service"),
  failureMode: defaulting(z.enum(["FailOpen", "FailClose"]), "FailClose"),
});

const SELECTOR_MISSING = "the labels of the model server pods";

function experimentalSpec(unknownKeys: UnknownKeys) {
  return mapping(
    {
      selector: labels(`${SELECTOR_MISSING}, for example \`selector: {app: llama}\``),
      targetPortNumber: port("the port of the model servers, for example 8000"),
      extensionRef: mapping(
        { ...pickerShape(), portNumber: optional(port()) },
        unknownKeys,
        "the Service of the Endpoint Picker, for example `extensionRef: {name: llama-epp}`",
      ),
    },
    unknownKeys,
  );
}

/** InferencePool v1alpha2 (api-resources 1.3). */
export const experimentalPool: Kind = defineKind({
  kind: "InferencePool",
  group: GROUP.experimental,
  version: "v1alpha2",
  specRequired: false,
  schema: experimentalSpec,
  warnings: (spec) => impossibleLabels(spec.selector, ["spec", "selector"]),
  hints: {
    "spec.selector.matchLabels": "v1alpha2 takes the labels directly: `selector: {app: llama}`",
    "spec.targetPorts": `v1alpha2 has one \`targetPortNumber: 8000\`; for several ports write apiVersion ${GROUP.stable}/v1`,
    "spec.endpointPickerRef": "v1alpha2 calls it `extensionRef`",
    "spec.extensionRef.port": "v1alpha2 calls it `portNumber: 9002`",
  },
  object: (meta, { selector, targetPortNumber, extensionRef: { portNumber, ...picker } }) => ({
    kind: "InferencePool",
    group: GROUP.experimental,
    meta,
    selector,
    targetPorts: [targetPortNumber],
    appProtocol: "http",
    picker: { ...picker, port: portNumber },
  }),
});

const APP_PROTOCOL = z.enum(["http", "kubernetes.io/h2c"]);

const MATCH_LABELS = `${SELECTOR_MISSING}, for example \`selector: {matchLabels: {app: llama}}\``;

function stableSpec(unknownKeys: UnknownKeys) {
  const matchLabels = labels(MATCH_LABELS).superRefine((found, context) => {
    const count = Object.keys(found).length;
    // v1.0 had no such limit.
    if (count < 1 && unknownKeys !== "stored")
      context.addIssue({ code: "custom", message: `must have at least 1 label: ${MATCH_LABELS}` });
    if (count > 64) context.addIssue({ code: "custom", message: `must have at most 64 labels, has ${count}` });
  });
  const targetPort = mapping(
    { number: port("the port of the model servers, for example 8000") },
    unknownKeys,
    "write for example `{number: 8000}`",
  );
  return mapping(
    {
      selector: mapping({ matchLabels }, unknownKeys, MATCH_LABELS),
      targetPorts: z
        .array(targetPort, {
          error: ({ input }) =>
            input === undefined || input === null
              ? "is missing; the ports of the model servers, for example `targetPorts: [{number: 8000}]`"
              : undefined,
        })
        .min(1)
        .max(8),
      // Servers fill in the default. An object without the field is of a release that did not know it, and states no protocol.
      appProtocol: unknownKeys === "stored" ? optional(APP_PROTOCOL) : defaulting(APP_PROTOCOL, "http"),
      endpointPickerRef: optional(
        mapping(
          {
            ...pickerShape(),
            port: optional(mapping({ number: port("the port of the Service, for example 9002") }, unknownKeys)),
          },
          unknownKeys,
        ),
      ),
    },
    unknownKeys,
    "a pool needs `selector` and `targetPorts`",
  );
}

/** InferencePool v1, by the rules of its newest release (api-resources 1.5). */
export const stablePool: Kind = defineKind({
  kind: "InferencePool",
  group: GROUP.stable,
  version: "v1",
  specRequired: true,
  schema: stableSpec,
  rules: (spec) => [
    ...uniquePorts(
      spec.targetPorts.map(({ number }) => number),
      ["spec", "targetPorts"],
    ),
    ...servicePort(spec.endpointPickerRef, ["spec", "endpointPickerRef"]),
  ],
  warnings: (spec) => impossibleLabels(spec.selector.matchLabels, ["spec", "selector", "matchLabels"]),
  hints: {
    "spec.targetPortNumber": "v1 has a list: `targetPorts: [{number: 8000}]`",
    "spec.extensionRef": "v1 calls it `endpointPickerRef: {name: llama-epp, port: {number: 9002}}`",
    "spec.endpointPickerRef.port": "write `port: {number: 9002}`",
    "spec.endpointPickerRef.portNumber": "v1 writes `port: {number: 9002}`",
  },
  object: (meta, { selector, targetPorts, appProtocol, endpointPickerRef: picker }) => ({
    kind: "InferencePool",
    group: GROUP.stable,
    meta,
    selector: selector.matchLabels,
    targetPorts: targetPorts.map(({ number }) => number),
    appProtocol,
    picker: picker && { ...picker, port: picker.port?.number },
  }),
});

/** Labels that no pod can carry, although the API server admits them in a selector (api-resources 8.2, P17). */
function impossibleLabels(selector: Readonly<Record<string, string>>, at: Path): Violation[] {
  return Object.keys(selector)
    .filter((key) => key.length > 317 || !PATTERN.labelKey.test(key))
    .map((key) => ({
      path: [...at, key],
      problem: "no pod can have a label with this key, so the pool selects no pod",
    }));
}
