import { ruleProblem } from "./cel.ts";
import type { Kind } from "./kind.ts";
import { type ApiObject, isObject } from "./object.ts";
import type { Cause } from "./refusal.ts";
import { fieldSchema, type Schema } from "./schema.ts";

interface Definition {
  readonly group: string;
  readonly scope: "Namespaced" | "Cluster";
  readonly names: {
    readonly kind: string;
    readonly plural: string;
    readonly singular?: string;
    readonly listKind?: string;
    readonly shortNames?: readonly string[];
  };
  readonly versions: readonly {
    readonly name: string;
    readonly served: boolean;
    readonly storage: boolean;
    readonly subresources?: { readonly status?: object };
    readonly schema?: { readonly openAPIV3Schema?: Schema };
  }[];
}

/** The kind that a CustomResourceDefinition adds. */
export function kindOf(crd: ApiObject): Kind {
  const { group, names, scope, versions } = crd["spec"] as Definition;
  const served = versions.filter((version) => version.served);
  const sorted = [...served.filter(({ storage }) => storage), ...served.filter(({ storage }) => !storage)];
  return {
    group,
    plural: names.plural,
    singular: names.singular ?? names.kind.toLowerCase(),
    kind: names.kind,
    shortNames: names.shortNames ?? [],
    namespaced: scope === "Namespaced",
    versions: sorted.map(({ name, schema, subresources }) => ({
      name,
      schema: schema!.openAPIV3Schema!,
      status: subresources?.status !== undefined,
    })),
    custom: true,
    unconditionalUpdate: false,
    createOnUpdate: false,
    generation: true,
    fieldLabels: [],
  };
}

/** What a definition must have before the server takes it, as far as ours could get it wrong. */
export function crdProblems(crd: ApiObject): Cause[] {
  const causes: Cause[] = [];
  const bad = (field: string, message: string, reason = "FieldValueInvalid"): void => {
    causes.push({ reason, field, message });
  };
  if (!isObject(crd["spec"])) return [{ reason: "FieldValueRequired", field: "spec", message: "Required value" }];
  const { group, names, versions } = crd["spec"] as unknown as Definition;
  if (crd.metadata.name !== `${names.plural}.${group}`) {
    bad("metadata.name", `Invalid value: "${crd.metadata.name}": must be spec.names.plural+"."+spec.group`);
  }
  const approval = crd.metadata.annotations?.["api-approved.kubernetes.io"];
  if (/(^|\.)(k8s|kubernetes)\.io$/.test(group) && approval === undefined) {
    bad(
      "metadata.annotations[api-approved.kubernetes.io]",
      'Required value: protected groups must have approval annotation "api-approved.kubernetes.io", see ' +
        "https://github.com/kubernetes/enhancements/pull/1111",
      "FieldValueRequired",
    );
  }
  if (versions.filter(({ storage }) => storage).length !== 1) {
    bad("spec.versions", "Invalid value: must have exactly one version marked as storage version");
  }
  for (const [at, { schema }] of versions.entries()) {
    const path = `spec.versions[${at}].schema.openAPIV3Schema`;
    if (schema?.openAPIV3Schema === undefined) bad(path, "Required value: schemas are required", "FieldValueRequired");
    else structural(schema.openAPIV3Schema, path, bad);
  }
  return causes;
}

/** Structural: every place has a type, keys of lists are always there, rules compile. */
function structural(
  schema: Schema,
  path: string,
  bad: (field: string, message: string, reason?: string) => void,
): void {
  if (
    schema.type === undefined &&
    !schema["x-kubernetes-int-or-string"] &&
    !schema["x-kubernetes-preserve-unknown-fields"]
  ) {
    bad(`${path}.type`, "Required value: must not be empty for specified object fields", "FieldValueRequired");
  }
  if (schema.type === "array" && schema.items === undefined)
    bad(`${path}.items`, "Required value", "FieldValueRequired");
  for (const key of schema["x-kubernetes-list-map-keys"] ?? []) {
    const item = fieldSchema(schema.items, key);
    if (item === undefined || (!schema.items?.required?.includes(key) && item.default === undefined)) {
      bad(
        `${path}.items.properties[${key}].default`,
        "Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
        "FieldValueRequired",
      );
    }
  }
  for (const [at, rule] of (schema["x-kubernetes-validations"] ?? []).entries()) {
    const problem = ruleProblem(rule);
    if (problem !== undefined) {
      bad(
        `${path}.x-kubernetes-validations[${at}].rule`,
        `Invalid value: ${JSON.stringify(rule.rule)}: compilation failed: ${problem}`,
      );
    }
  }
  if (schema.uniqueItems)
    bad(`${path}.uniqueItems`, "Forbidden: uniqueItems cannot be set to true", "FieldValueForbidden");
  if (path.endsWith("openAPIV3Schema") && schema.type !== "object") {
    bad(`${path}.type`, `Invalid value: "${schema.type}": must be object at the root`);
  }
  for (const [name, inner] of Object.entries(schema.properties ?? {}))
    structural(inner, `${path}.properties[${name}]`, bad);
  if (schema.items !== undefined) structural(schema.items, `${path}.items`, bad);
  if (typeof schema.additionalProperties === "object")
    structural(schema.additionalProperties, `${path}.additionalProperties`, bad);
}

/** What the server tells of a definition that it has taken. */
export function establishedStatus(crd: ApiObject, time: string): object {
  const { names, versions } = crd["spec"] as Definition;
  const condition = (type: string, reason: string, message: string) => ({
    type,
    status: "True",
    reason,
    message,
    lastTransitionTime: time,
  });
  return {
    conditions: [
      condition("NamesAccepted", "NoConflicts", "no conflicts found"),
      condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
    ],
    acceptedNames: names,
    storedVersions: versions.filter(({ storage }) => storage).map(({ name }) => name),
  };
}
