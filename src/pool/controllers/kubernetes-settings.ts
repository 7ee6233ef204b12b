import type { ResolverOptions } from "../resources/resolve.ts";

/** What of a cluster a picker serves, and how it takes part. */
export interface KubernetesSettings extends Pick<ResolverOptions, "matching" | "standardShedAt" | "legacyCriticality"> {
  readonly namespace: string;
  /** Which pods serve: those of an InferencePool, or those that a label selector picks (api-resources 3.1). */
  readonly members:
    | { readonly kind: "pool"; readonly name: string; readonly group: string | undefined }
    | { readonly kind: "selector"; readonly selector: string; readonly ports: readonly number[] };
  /** A kubeconfig file; undefined = the service account of the pod, else the file that KUBECONFIG names. */
  readonly kubeconfig: string | undefined;
  readonly leaderElection: boolean;
  /** TokenReview and SubjectAccessReview guard the metrics port. */
  readonly metricsAuth: boolean;
  readonly writeModelStatus: boolean;
}
