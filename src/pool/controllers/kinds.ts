import type { ResourceType } from "../kubernetes/api-client.ts";
import { GROUP, type ResourceObject } from "../resources/objects.ts";

const type = (group: string, version: string, plural: string, kind: string): ResourceType => ({
  group,
  version,
  plural,
  kind,
});

/** A kind of Sluice's API, with the groups that may hold it, the best first. */
interface WatchedKind {
  readonly kind: ResourceObject["kind"];
  readonly types: readonly ResourceType[];
}

/** Both groups of pools are read side by side. When both hold the pool, api-resources 3.1 decides which one counts. */
export const POOL_TYPES: readonly ResourceType[] = [
  type(GROUP.stable, "v1", "inferencepools", "InferencePool"),
  type(GROUP.experimental, "v1alpha2", "inferencepools", "InferencePool"),
];

export const MODEL_TYPE = type(GROUP.experimental, "v1alpha2", "inferencemodels", "InferenceModel");

/** The kinds that refer to a pool. Of a kind that exists in two groups the first one counts (api-resources 3.2). */
export const DEPENDANT_KINDS: readonly WatchedKind[] = [
  {
    kind: "InferenceModel",
    types: [MODEL_TYPE],
  },
  {
    kind: "InferenceObjective",
    types: [
      type(GROUP.llmd, "v1alpha2", "inferenceobjectives", "InferenceObjective"),
      type(GROUP.experimental, "v1alpha2", "inferenceobjectives", "InferenceObjective"),
    ],
  },
  {
    kind: "InferenceModelRewrite",
    types: [
      type(GROUP.llmd, "v1alpha2", "inferencemodelrewrites", "InferenceModelRewrite"),
      type(GROUP.experimental, "v1alpha2", "inferencemodelrewrites", "InferenceModelRewrite"),
    ],
  },
];
