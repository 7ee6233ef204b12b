/**
 * What section 1 of the API resources says of every field, written down a second time: the golden table that the files
 * in deploy/crds/ are compared with. Paths as in the section; `[]` is an entry of a list, `{}` a value of a map.
 */
export interface Field {
  readonly type: string;
  readonly required?: true;
  readonly [keyword: string]: unknown;
}
export type Fields = Readonly<Record<string, Field>>;

/** A definition without its schema. */
export interface Expected {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly plural: string;
  readonly shortNames?: readonly string[];
  /** Name, type and JSON path of each. */
  readonly columns?: readonly (readonly [string, string, string])[];
  readonly fields: Fields;
}

const required = (field: Field): Field => ({ ...field, required: true });

const OBJECT: Field = { type: "object" };
const LIST: Field = { type: "array" };
const TEXT: Field = { type: "string" };
const ATOMIC = { "x-kubernetes-list-type": "atomic" };
const mapBy = (key: string) => ({ "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key] });
const cel = (rule: string, message: string) => ({ "x-kubernetes-validations": [{ rule, message }] });

// 1.1
const GROUP: Field = {
  type: "string",
  maxLength: 253,
  pattern: String.raw`^$|^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`,
};
const KIND: Field = {
  type: "string",
  minLength: 1,
  maxLength: 63,
  pattern: "^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$",
};
const NAME: Field = required({ type: "string", minLength: 1, maxLength: 253 });
const NAMESPACE: Field = { type: "string", minLength: 1, maxLength: 63, pattern: "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" };
const PORT: Field = { type: "integer", format: "int32", minimum: 1, maximum: 65_535 };
const LABEL_VALUE: Field = { type: "string", maxLength: 63, pattern: "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$" };
const CONTROLLER: Field = {
  type: "string",
  minLength: 1,
  maxLength: 253,
  pattern: String.raw`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/[A-Za-z0-9\/\-._~%!$&'()*+,;=:]+$`,
};
const WEIGHT: Field = { type: "integer", format: "int32", minimum: 1, maximum: 1_000_000 };

const ENVELOPE: Fields = { apiVersion: TEXT, kind: TEXT, metadata: OBJECT };

// 1.2
const CONDITION_TYPE = String.raw`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$`;
const CONDITION_REASON = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";
const waiting = (type: string) => ({
  type,
  status: "Unknown",
  reason: "Pending",
  message: "Waiting for controller",
  lastTransitionTime: "1970-01-01T00:00:00Z",
});

/** @param first type of the condition in the default; undefined: there is no default */
const conditions = (at: string, first?: string): Fields => ({
  [at]: { ...LIST, maxItems: 8, ...mapBy("type"), ...(first !== undefined && { default: [waiting(first)] }) },
  [`${at}[]`]: OBJECT,
  [`${at}[].type`]: required({ type: "string", maxLength: 316, pattern: CONDITION_TYPE }),
  [`${at}[].status`]: required({ type: "string", enum: ["True", "False", "Unknown"] }),
  [`${at}[].reason`]: required({ type: "string", minLength: 1, maxLength: 1024, pattern: CONDITION_REASON }),
  [`${at}[].message`]: required({ type: "string", maxLength: 32_768 }),
  [`${at}[].lastTransitionTime`]: required({ type: "string", format: "date-time" }),
  [`${at}[].observedGeneration`]: { type: "integer", format: "int64", minimum: 0 },
});

const parentRef = (at: string): Fields => ({
  [at]: required(OBJECT),
  [`${at}.group`]: { ...GROUP, default: "gateway.networking.k8s.io" },
  [`${at}.kind`]: { ...KIND, default: "Gateway" },
  [`${at}.name`]: NAME,
  [`${at}.namespace`]: NAMESPACE,
});

/** What an entry of `status.parents` of v1 and of an import holds. */
const stableParents = (at: string): Fields => ({
  [`${at}[]`]: OBJECT,
  ...parentRef(`${at}[].parentRef`),
  ...conditions(`${at}[].conditions`),
  [`${at}[].controllerName`]: CONTROLLER,
});

const picker = (at: string): Fields => ({
  [`${at}.group`]: { ...GROUP, default: "" },
  [`${at}.kind`]: { ...KIND, default: "Service" },
  [`${at}.name`]: NAME,
  [`${at}.failureMode`]: { type: "string", enum: ["FailOpen", "FailClose"], default: "FailClose" },
});

const poolRef = (group: string): Fields => ({
  "spec.poolRef": required(OBJECT),
  "spec.poolRef.group": { ...GROUP, default: group },
  "spec.poolRef.kind": { ...KIND, default: "InferencePool" },
  "spec.poolRef.name": NAME,
});

const X = "inference.networking.x-k8s.io";
const GA = "inference.networking.k8s.io";
const LLMD = "llm-d.ai";

// 1.3
const experimentalPool: Expected = {
  group: X,
  version: "v1alpha2",
  kind: "InferencePool",
  plural: "inferencepools",
  shortNames: ["xinfpool"],
  fields: {
    ...ENVELOPE,
    spec: OBJECT,
    "spec.selector": required(OBJECT),
    "spec.selector{}": LABEL_VALUE,
    "spec.targetPortNumber": required(PORT),
    "spec.extensionRef": required(OBJECT),
    ...picker("spec.extensionRef"),
    "spec.extensionRef.portNumber": PORT,
    status: {
      ...OBJECT,
      default: { parent: [{ parentRef: { kind: "Status", name: "default" }, conditions: [waiting("Accepted")] }] },
    },
    "status.parent": { ...LIST, maxItems: 32 },
    "status.parent[]": OBJECT,
    ...parentRef("status.parent[].parentRef"),
    ...conditions("status.parent[].conditions", "Accepted"),
  },
};

// 1.4
const model: Expected = {
  group: X,
  version: "v1alpha2",
  kind: "InferenceModel",
  plural: "inferencemodels",
  columns: [
    ["Model Name", "string", ".spec.modelName"],
    ["Inference Pool", "string", ".spec.poolRef.name"],
    ["Criticality", "string", ".spec.criticality"],
    ["Age", "date", ".metadata.creationTimestamp"],
  ],
  fields: {
    ...ENVELOPE,
    spec: OBJECT,
    "spec.modelName": required({
      type: "string",
      maxLength: 256,
      ...cel("self == oldSelf", "modelName is immutable"),
    }),
    "spec.criticality": { type: "string", enum: ["Critical", "Standard", "Sheddable"] },
    "spec.targetModels": {
      ...LIST,
      maxItems: 10,
      ...cel(
        "self.all(model, has(model.weight)) || self.all(model, !has(model.weight))",
        "Weights should be set for all models, or none of the models.",
      ),
    },
    "spec.targetModels[]": OBJECT,
    "spec.targetModels[].name": required({ type: "string", maxLength: 253 }),
    "spec.targetModels[].weight": WEIGHT,
    ...poolRef(X),
    status: OBJECT,
    ...conditions("status.conditions", "Ready"),
  },
};

// 1.5
const stablePool: Expected = {
  group: GA,
  version: "v1",
  kind: "InferencePool",
  plural: "inferencepools",
  shortNames: ["infpool"],
  fields: {
    ...ENVELOPE,
    spec: required(OBJECT),
    "spec.selector": required(OBJECT),
    "spec.selector.matchLabels": required({ type: "object", minProperties: 1, maxProperties: 64 }),
    "spec.selector.matchLabels{}": LABEL_VALUE,
    "spec.targetPorts": required({
      type: "array",
      minItems: 1,
      maxItems: 8,
      ...ATOMIC,
      ...cel("self.all(p1, self.exists_one(p2, p1.number==p2.number))", "port number must be unique"),
    }),
    "spec.targetPorts[]": OBJECT,
    "spec.targetPorts[].number": required(PORT),
    "spec.appProtocol": { type: "string", enum: ["http", "kubernetes.io/h2c"], default: "http" },
    "spec.endpointPickerRef": {
      ...OBJECT,
      ...cel(
        "self.kind != 'Service' || has(self.port)",
        "port is required when kind is 'Service' or unspecified (defaults to 'Service')",
      ),
    },
    ...picker("spec.endpointPickerRef"),
    "spec.endpointPickerRef.port": OBJECT,
    "spec.endpointPickerRef.port.number": required(PORT),
    status: OBJECT,
    "status.parents": { ...LIST, maxItems: 32, ...ATOMIC },
    ...stableParents("status.parents"),
  },
};

// 1.7
const objective = (group: string, priority: Field): Expected => ({
  group,
  version: "v1alpha2",
  kind: "InferenceObjective",
  plural: "inferenceobjectives",
  columns: [
    ["Inference Pool", "string", ".spec.poolRef.name"],
    ["Priority", "string", ".spec.priority"],
    ["Age", "date", ".metadata.creationTimestamp"],
  ],
  fields: {
    ...ENVELOPE,
    spec: OBJECT,
    "spec.priority": priority,
    ...poolRef(GA),
    status: OBJECT,
    ...conditions("status.conditions", "Ready"),
  },
});

// 1.8
const rewrite = (group: string): Expected => ({
  group,
  version: "v1alpha2",
  kind: "InferenceModelRewrite",
  plural: "inferencemodelrewrites",
  columns: [
    ["Inference Pool", "string", ".spec.poolRef.name"],
    ["Age", "date", ".metadata.creationTimestamp"],
  ],
  fields: {
    ...ENVELOPE,
    spec: OBJECT,
    ...poolRef(GA),
    "spec.rules": required(LIST),
    "spec.rules[]": OBJECT,
    "spec.rules[].matches": LIST,
    "spec.rules[].matches[]": OBJECT,
    "spec.rules[].matches[].model": required(OBJECT),
    "spec.rules[].matches[].model.type": { type: "string", enum: ["Exact"], default: "Exact" },
    "spec.rules[].matches[].model.value": required({ type: "string", minLength: 1 }),
    "spec.rules[].targets": { ...LIST, minItems: 1 },
    "spec.rules[].targets[]": OBJECT,
    "spec.rules[].targets[].modelRewrite": required(TEXT),
    "spec.rules[].targets[].weight": WEIGHT,
    status: OBJECT,
    ...conditions("status.conditions", "Accepted"),
  },
});

// 1.9
const poolImport: Expected = {
  group: X,
  version: "v1alpha1",
  kind: "InferencePoolImport",
  plural: "inferencepoolimports",
  shortNames: ["infpimp"],
  fields: {
    ...ENVELOPE,
    status: OBJECT,
    "status.controllers": required({ type: "array", maxItems: 8, ...mapBy("name") }),
    "status.controllers[]": OBJECT,
    "status.controllers[].name": required(CONTROLLER),
    "status.controllers[].exportingClusters": LIST,
    "status.controllers[].exportingClusters[]": OBJECT,
    "status.controllers[].exportingClusters[].name": NAME,
    "status.controllers[].parents": { ...LIST, ...ATOMIC },
    ...stableParents("status.controllers[].parents"),
    ...conditions("status.controllers[].conditions"),
  },
};

export const EXPECTED: readonly Expected[] = [
  experimentalPool,
  model,
  stablePool,
  objective(X, { type: "integer" }),
  objective(LLMD, { type: "integer", format: "int32" }),
  rewrite(X),
  rewrite(LLMD),
  poolImport,
];
