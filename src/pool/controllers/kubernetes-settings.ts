import { SluiceError } from "../../base/inference/errors.ts";
import type { ResolverOptions } from "../resources/resolve.ts";

/** The part of a cluster that a picker serves, and how the picker takes part. */
export interface KubernetesSettings extends Pick<ResolverOptions, "matching" | "standardShedAt" | "legacyCriticality"> {
  readonly namespace: string;
  /** The source of the serving pods: an InferencePool, or a label selector (api-resources 3.1). */
  readonly members:
    | { readonly kind: "pool"; readonly name: string; readonly group: string | undefined }
    | { readonly kind: "selector"; readonly selector: string; readonly ports: readonly number[] };
  /** A kubeconfig file; undefined = the files that KUBECONFIG names, else the service account of the pod. */
  readonly kubeconfig: string | undefined;
  readonly leaderElection: boolean;
  /** TokenReview and SubjectAccessReview guard the metrics port. */
  readonly metricsAuth: boolean;
  readonly writeModelStatus: boolean;
}

/**
 * The name that replaces the pool's where a selector takes its place: that of the Deployment, cut out of the pod's name
 * (api-resources 3.1).
 * @throws SluiceError POD_NAME
 */
export function deploymentName(env: Readonly<Record<string, string | undefined>>): string {
  const pod = env["POD_NAME"] ?? "";
  const found = /^(.+)-[a-z0-9]+-[a-z0-9]+$/.exec(pod)?.[1];
  if (found !== undefined) return found;
  const problem =
    pod === ""
      ? "is not set; set it from metadata.name of the pod"
      : `is ${JSON.stringify(pod.slice(0, 100))} but must have the form NAME-HASH-HASH`;
  throw new SluiceError(
    "POD_NAME",
    `--endpoint-selector takes the name of the Deployment from the environment variable POD_NAME, which ${problem}`,
  );
}
