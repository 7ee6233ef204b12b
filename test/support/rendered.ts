import { parseAllDocuments } from "yaml";

/** An object of a manifest: what tests look at. */
export interface Rendered {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
  // biome-ignore lint/suspicious/noExplicitAny: manifests of many kinds, looked into by tests.
  readonly [field: string]: any;
}

interface Rule {
  readonly apiGroups?: readonly string[];
  readonly resources?: readonly string[];
  readonly nonResourceURLs?: readonly string[];
  readonly verbs: readonly string[];
}

/** The objects of a YAML text; fails on what is no object with a kind and a name. */
export function objectsOf(text: string): Rendered[] {
  return parseAllDocuments(text).flatMap((document) => {
    if (document.errors.length > 0) throw document.errors[0];
    const object = document.toJS() as Rendered | null;
    if (object === null) return [];
    if (!object.kind || !object.apiVersion || !object.metadata?.name) throw new Error(`not an object: ${document}`);
    return [object];
  });
}

/** The only object of a kind, or the one of that name. */
export function one(objects: readonly Rendered[], kind: string, name?: string): Rendered {
  const found = objects.filter((each) => each.kind === kind && (name === undefined || each.metadata.name === name));
  if (found.length !== 1) throw new Error(`${found.length} objects of kind ${kind}`);
  return found[0]!;
}

/** What the Roles or ClusterRoles among the objects allow, one `group/resource: verbs` each, sorted. */
export function grantsOf(objects: readonly Rendered[], kind: "Role" | "ClusterRole"): string[] {
  const rules = objects.filter((object) => object.kind === kind).flatMap((object) => object["rules"] as Rule[]);
  return rules
    .flatMap(({ apiGroups = [], resources = [], nonResourceURLs = [], verbs }) => [
      ...apiGroups.flatMap((group) => resources.map((resource) => `${group}/${resource}: ${verbs.join(" ")}`)),
      ...nonResourceURLs.map((url) => `${url}: ${verbs.join(" ")}`),
    ])
    .sort();
}

/** The rights of api-resources 3.8, each for its purpose. */
export const RIGHTS = {
  pods: ["/pods: get list watch"],
  pool: [
    "inference.networking.k8s.io/inferencepools: get list watch",
    "inference.networking.x-k8s.io/inferencepools: get list watch",
  ],
  models: ["inference.networking.x-k8s.io/inferencemodels: get list watch"],
  objectives: ["inference.networking.x-k8s.io", "llm-d.ai"].flatMap((group) =>
    ["inferenceobjectives", "inferencemodelrewrites"].map((resource) => `${group}/${resource}: get list watch`),
  ),
  leases: ["coordination.k8s.io/leases: get list watch create update patch delete"],
  events: ["/events: create patch"],
  modelStatus: ["inference.networking.x-k8s.io/inferencemodels/status: get update patch"],
  reviews: ["authentication.k8s.io/tokenreviews: create", "authorization.k8s.io/subjectaccessreviews: create"],
  scraper: ["/metrics: get"],
} as const;

/** Some of them, sorted as {@link grantsOf} sorts. */
export function rights(...purposes: readonly (keyof typeof RIGHTS)[]): string[] {
  return purposes.flatMap((purpose) => [...RIGHTS[purpose]]).sort();
}

/** What every Deployment of ours has to look like, whatever made it (api-resources 6B.2). */
export function podOf(deployment: Rendered) {
  const { spec } = deployment["spec"].template;
  return { spec, container: spec.containers.find(({ name }: { name: string }) => name === "epp") };
}
