import { type Schema, text } from "./schema.ts";

/** A column of `kubectl get`. */
export interface Column {
  readonly name: string;
  readonly type: "string" | "date";
  readonly jsonPath: string;
}

/** One of our kinds in one of its groups. All are namespaced, have one version and the status subresource. */
export interface Definition {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly shortNames?: readonly string[];
  /** Without any, kubectl shows name and age. */
  readonly columns?: readonly Column[];
  readonly description: string;
  readonly spec?: Schema;
  /** Only the newest kind insists: objects of the others are admitted without (api-resources 1.3). */
  readonly specRequired?: boolean;
  readonly status: Schema;
}

/**
 * The release of the Gateway API Inference Extension that the newest of the kinds is equal to. One for all: its
 * conformance suite refuses a cluster whose definitions carry several (api-resources 5.2, R-2).
 */
const BUNDLE_VERSION = "v1.6.0";

/** The review in which Kubernetes approved the group, without which no API server takes a definition of `*.k8s.io`. */
const APPROVAL = "https://github.com/kubernetes-sigs/gateway-api-inference-extension/pull/1173";

/** A CustomResourceDefinition. */
export function customResourceDefinition(definition: Definition) {
  const { group, version, kind, shortNames, columns, description, spec, specRequired, status } = definition;
  const singular = kind.toLowerCase();
  const plural = `${singular}s`;
  const bundle = group === "llm-d.ai" ? "llm-d.ai/bundle-version" : "inference.networking.k8s.io/bundle-version";
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: {
      name: `${plural}.${group}`,
      annotations: {
        ...(group.endsWith(".k8s.io") && { "api-approved.kubernetes.io": APPROVAL }),
        [bundle]: BUNDLE_VERSION,
      },
    },
    spec: {
      group,
      names: { kind, listKind: `${kind}List`, plural, singular, ...(shortNames && { shortNames }) },
      scope: "Namespaced",
      versions: [
        {
          name: version,
          served: true,
          storage: true,
          subresources: { status: {} },
          ...(columns && { additionalPrinterColumns: columns }),
          schema: {
            openAPIV3Schema: {
              description,
              type: "object",
              ...(specRequired && { required: ["spec"] }),
              properties: { ...ENVELOPE, ...(spec && { spec }), status },
            },
          },
        },
      ],
    },
  };
}

/** What every object has. */
const ENVELOPE: Readonly<Record<string, Schema>> = {
  apiVersion: text("Group and version of the object."),
  kind: text("Kind of the object."),
  metadata: { type: "object" },
};
