import type { Schema } from "./schema.ts";

/** A kind that is served. */
export interface Kind {
  readonly group: string;
  readonly plural: string;
  readonly singular: string;
  readonly kind: string;
  readonly shortNames: readonly string[];
  readonly namespaced: boolean;
  /** Served versions, the stored one first. */
  readonly versions: readonly KindVersion[];
  /** From a CustomResourceDefinition: its lists name the kind of each item, and a PUT needs a resourceVersion. */
  readonly custom: boolean;
  /** A PUT without resourceVersion overwrites whatever there is. */
  readonly unconditionalUpdate: boolean;
  /** A PUT of what does not exist makes it. */
  readonly createOnUpdate: boolean;
  /** Counts changes of anything but metadata and status in `metadata.generation`. */
  readonly generation: boolean;
  /** Fields besides the name and the namespace that a field selector may name. */
  readonly fieldLabels: readonly string[];
}

export interface KindVersion {
  readonly name: string;
  readonly schema: Schema;
  /** Has the subresource `status`. */
  readonly status: boolean;
}

/** Under what the objects of a kind are stored. */
export function resourceOf(kind: Pick<Kind, "group" | "plural">): string {
  return `${kind.group}/${kind.plural}`;
}

/** `v1`, `coordination.k8s.io/v1` */
export function apiVersionOf(group: string, version: string): string {
  return group === "" ? version : `${group}/${version}`;
}

const condition: Schema = { type: "object", "x-kubernetes-preserve-unknown-fields": true };
const conditions: Schema = {
  type: "array",
  "x-kubernetes-list-type": "map",
  "x-kubernetes-list-map-keys": ["type"],
  items: { ...condition, required: ["type", "status"] },
};
const open = (properties: Record<string, Schema> = {}, required: readonly string[] = []): Schema => ({
  type: "object",
  "x-kubernetes-preserve-unknown-fields": true,
  properties,
  ...(required.length === 0 ? {} : { required }),
});
const byKey = (key: string, items: Schema, more: Schema = {}): Schema => ({
  type: "array",
  "x-kubernetes-list-type": "map",
  "x-kubernetes-list-map-keys": [key],
  items,
  ...more,
});
const microTime: Schema = { type: "string", format: "micro-time" };

function builtIn(
  [group, version, plural, kind]: readonly [string, string, string, string],
  schema: Schema,
  options: Partial<Omit<Kind, "versions">> & { readonly status?: boolean } = {},
): Kind {
  const { status = false, ...rest } = options;
  return {
    group,
    plural,
    kind,
    singular: kind.toLowerCase(),
    shortNames: [],
    namespaced: true,
    versions: [{ name: version, schema, status }],
    custom: false,
    unconditionalUpdate: true,
    createOnUpdate: false,
    generation: false,
    fieldLabels: [],
    ...rest,
  };
}

/** Built-in kinds, as far as anything here depends on them: what is not named in a schema is kept as it is. */
export const BUILT_IN: readonly Kind[] = [
  builtIn(
    ["", "v1", "pods", "Pod"],
    open(
      {
        spec: open({ containers: byKey("name", open({ name: { type: "string" } }, ["name"]), { minItems: 1 }) }, [
          "containers",
        ]),
        status: open({ conditions }),
      },
      ["spec"],
    ),
    {
      status: true,
      shortNames: ["po"],
      fieldLabels: ["spec.nodeName", "status.phase", "status.podIP", "spec.serviceAccountName"],
    },
  ),
  builtIn(["", "v1", "namespaces", "Namespace"], open(), { status: true, shortNames: ["ns"], namespaced: false }),
  builtIn(
    ["", "v1", "services", "Service"],
    open({ spec: open({ ports: byKey("port", open({}, ["port"])) }), status: open({ conditions }) }),
    { status: true, shortNames: ["svc"] },
  ),
  builtIn(["", "v1", "serviceaccounts", "ServiceAccount"], open(), {
    shortNames: ["sa"],
    unconditionalUpdate: false,
  }),
  builtIn(["", "v1", "configmaps", "ConfigMap"], open(), { shortNames: ["cm"] }),
  builtIn(
    ["", "v1", "events", "Event"],
    {
      ...open({ involvedObject: open(), eventTime: { ...microTime, nullable: true } }, ["involvedObject"]),
      "x-kubernetes-validations": [
        {
          rule: "(has(self.involvedObject.namespace) ? self.involvedObject.namespace : 'default') == self.metadata.namespace",
          fieldPath: "involvedObject.namespace",
          message: "does not match event.namespace",
        },
      ],
    },
    {
      shortNames: ["ev"],
      createOnUpdate: true,
      fieldLabels: ["involvedObject.kind", "involvedObject.name", "involvedObject.uid", "reason", "type"],
    },
  ),
  builtIn(
    ["coordination.k8s.io", "v1", "leases", "Lease"],
    open({
      spec: open({
        holderIdentity: { type: "string", nullable: true },
        leaseDurationSeconds: { type: "integer", minimum: 1, nullable: true },
        leaseTransitions: { type: "integer", minimum: 0, nullable: true },
        acquireTime: { ...microTime, nullable: true },
        renewTime: { ...microTime, nullable: true },
      }),
    }),
    { unconditionalUpdate: false, createOnUpdate: true },
  ),
  ...(["Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"] as const).map((kind) =>
    builtIn(["rbac.authorization.k8s.io", "v1", `${kind.toLowerCase()}s`, kind], open(), {
      namespaced: !kind.startsWith("Cluster"),
    }),
  ),
  builtIn(["apps", "v1", "deployments", "Deployment"], open({ status: open({ conditions }) }), {
    status: true,
    shortNames: ["deploy"],
    generation: true,
  }),
  builtIn(["policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget"], open({ status: open({ conditions }) }), {
    status: true,
    shortNames: ["pdb"],
    generation: true,
  }),
];

/** The kind by which kinds are added. */
export const CRD_KIND: Kind = builtIn(
  ["apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition"],
  open({ status: open({ conditions }) }),
  { status: true, shortNames: ["crd", "crds"], namespaced: false, generation: true, unconditionalUpdate: false },
);
