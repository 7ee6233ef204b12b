import { SluiceError } from "../../base/inference/errors.ts";
import { deploymentName, type KubernetesSettings } from "../../pool/controllers/kubernetes-settings.ts";
import type { ResourceCounting } from "../../pool/resources/resource-settings.ts";
import type { FlagValues, ParsedFlags } from "../common/go-flags.ts";
import type { EPP_FLAGS } from "./epp-flag-table.ts";

type Values = FlagValues<typeof EPP_FLAGS>;

/**
 * What of a cluster is to be served; undefined where a file names the endpoints, or nothing names a pool.
 * @param counting how API objects count, as other flags say
 */
export function kubernetesOf(
  { values, explicit }: ParsedFlags<typeof EPP_FLAGS>,
  counting: ResourceCounting,
): KubernetesSettings | undefined {
  const name = values["pool-name"];
  const selector = values["endpoint-selector"];
  if (values.endpoints || values.resources || (!name && !selector)) return undefined;
  return {
    namespace: values["pool-namespace"] || "default",
    members: selector
      ? { kind: "selector", selector, ports: [...new Set(values["endpoint-target-ports"].map(Number))] }
      : { kind: "pool", name, group: explicit.has("pool-group") ? values["pool-group"] : undefined },
    kubeconfig: values.kubeconfig || undefined,
    leaderElection: values["ha-enable-leader-election"],
    metricsAuth: values["metrics-endpoint-auth"],
    writeModelStatus: values["write-model-status"],
    ...counting,
  };
}

/** The pool's name in labels; that of the Deployment where a selector takes its place. @throws SluiceError POD_NAME */
export function poolNameOf(
  values: Values,
  kubernetes: KubernetesSettings | undefined,
  env: Readonly<Record<string, string | undefined>>,
): string {
  if (kubernetes?.members.kind === "selector") return deploymentName(env);
  return values["pool-name"] || "epp";
}

/** Flags that are about Kubernetes while a file names the endpoints, and have no effect then. */
export function effectlessOf(values: Values, kubernetes: KubernetesSettings | undefined): string[] {
  if (kubernetes !== undefined) return [];
  const given: readonly [flag: string, isGiven: boolean][] = [
    ["endpoint-selector", values["endpoint-selector"] !== ""],
    ["endpoint-target-ports", values["endpoint-target-ports"].length > 0],
    ["kubeconfig", values.kubeconfig !== ""],
    ["ha-enable-leader-election", values["ha-enable-leader-election"]],
    ["write-model-status", values["write-model-status"]],
  ];
  return given.flatMap(([flag, isGiven]) =>
    isGiven ? [`--${flag} has no effect: the endpoints come from a file`] : [],
  );
}

/** What to say when nothing names endpoints. */
export function missingEndpoints(): SluiceError {
  return new SluiceError(
    "ENDPOINTS_MISSING",
    "nothing says where the endpoints are: give --pool-name or --endpoint-selector in Kubernetes, else --endpoints FILE, or a --config-file with a file-discovery in dataLayer.discovery",
  );
}
