import type { Definition } from "./definition.ts";
import {
  ATOMIC,
  choice,
  conditions,
  controllerName,
  group,
  keyedBy,
  kindName,
  labels,
  list,
  namespace,
  object,
  objectName,
  pending,
  port,
  rule,
  type Schema,
} from "./schema.ts";

/** What both pools say of their Endpoint Picker besides its port. */
const pickerName = { name: objectName("Its name; it is in the namespace of the pool.") };
const pickerMore = {
  group: group("API group of the referent; empty for the core group.", ""),
  kind: kindName("Kind of the referent. Services of type ExternalName are not supported.", "Service"),
  failureMode: choice(
    "What a data plane does with requests while the Endpoint Picker does not answer: send them to any pod of the pool, or refuse them.",
    ["FailOpen", "FailClose"],
    { default: "FailClose" },
  ),
};

const parentRef = object(
  "The parent that the entry is about.",
  { name: objectName("Name of the parent.") },
  {
    group: group("API group of the parent.", "gateway.networking.k8s.io"),
    kind: kindName("Kind of the parent.", "Gateway"),
    namespace: namespace("Namespace of the parent; that of the pool when left out."),
  },
);

const PARENT = "What one parent makes of the pool.";
const PARENT_CONDITIONS = "What the parent says of the pool. Known types: Accepted, ResolvedRefs";

const stableParent: Schema = object(
  PARENT,
  { parentRef },
  {
    controllerName: controllerName("The controller that wrote the entry, such as example.com/gateway-controller."),
    conditions: conditions(`${PARENT_CONDITIONS}, Exported.`),
  },
);

/** InferencePool v1, by its newest release (api-resources 1.5). */
export const stablePool: Definition = {
  group: "inference.networking.k8s.io",
  version: "v1",
  kind: "InferencePool",
  shortNames: ["infpool"],
  description: "Pods that serve the same models, and the Endpoint Picker that chooses among them.",
  specRequired: true,
  spec: object(
    "Which pods, and who picks.",
    {
      selector: object("The pods of the pool, all in its namespace.", {
        matchLabels: labels("Labels that a pod must all have.", { minProperties: 1, maxProperties: 64 }),
      }),
      targetPorts: list(
        "Ports of the model servers. Every port of a pod is an endpoint of its own.",
        object("One port.", { number: port("Number of the port on the pods.") }),
        {
          minItems: 1,
          maxItems: 8,
          ...ATOMIC,
          ...rule("self.all(p1, self.exists_one(p2, p1.number==p2.number))", "port number must be unique"),
        },
      ),
    },
    {
      appProtocol: choice(
        "What the model servers speak on all ports: HTTP/1.1, or HTTP/2 without TLS.",
        ["http", "kubernetes.io/h2c"],
        { default: "http" },
      ),
      endpointPickerRef: object(
        "The Endpoint Picker of the pool.",
        pickerName,
        {
          ...pickerMore,
          port: object("Its port; needed when it is a Service.", {
            number: port("Number of the port of the Service, not of its pods."),
          }),
        },
        rule(
          "self.kind != 'Service' || has(self.port)",
          "port is required when kind is 'Service' or unspecified (defaults to 'Service')",
        ),
      ),
    },
  ),
  status: object(
    "What the parents of the pool make of it.",
    {},
    { parents: list("One entry per parent, most often a Gateway.", stableParent, { maxItems: 32, ...ATOMIC }) },
  ),
};

const accepted = [pending("Accepted")];

/** InferencePool v1alpha2, by its newest release (api-resources 1.3). */
export const experimentalPool: Definition = {
  group: "inference.networking.x-k8s.io",
  version: "v1alpha2",
  kind: "InferencePool",
  shortNames: ["xinfpool"],
  description: "Pods that serve the same models, and the Endpoint Picker that chooses among them.",
  spec: object("Which pods, and who picks.", {
    selector: labels("Labels that a pod must all have. Only pods of the pool's namespace are looked at."),
    targetPortNumber: port("Port of the model servers on all pods."),
    extensionRef: object("The Endpoint Picker of the pool.", pickerName, {
      ...pickerMore,
      portNumber: port("Port of the Service; 9002 is assumed for a Service when left out."),
    }),
  }),
  status: object(
    "What the parents of the pool make of it.",
    {},
    {
      parent: list(
        "One entry per parent, most often a Gateway.",
        object(PARENT, { parentRef }, { conditions: conditions(`${PARENT_CONDITIONS}.`, { default: accepted }) }),
        { maxItems: 32 },
      ),
    },
    { default: { parent: [{ parentRef: { kind: "Status", name: "default" }, conditions: accepted }] } },
  ),
};

/** InferencePoolImport v1alpha1 (api-resources 1.9). */
export const poolImport: Definition = {
  group: "inference.networking.x-k8s.io",
  version: "v1alpha1",
  kind: "InferencePoolImport",
  shortNames: ["infpimp"],
  description:
    "An InferencePool of other clusters, under its name and namespace there. Controllers write it, not people.",
  status: object("Where the pool comes from and who uses it.", {
    controllers: list(
      "One entry per controller that exports or imports the pool.",
      object(
        "What one controller says.",
        {
          name: controllerName("The controller, such as example.com/multi-cluster."),
        },
        {
          exportingClusters: list(
            "Clusters that export the pool, as this controller knows them.",
            object("A cluster.", { name: objectName("Name of the cluster, unique in the set of clusters.") }),
          ),
          parents: list("Local parents, most often Gateways, that use the import.", stableParent, ATOMIC),
          conditions: conditions("What the controller says of the import. Known type: Accepted."),
        },
      ),
      { maxItems: 8, ...keyedBy("name") },
    ),
  }),
};
