import type { ErrorRow } from "./row.ts";

/** Errors of endpoints, of API objects, and of the connection to Kubernetes. */
export const POOL_ERRORS = {
  ENDPOINTS_MISSING: {
    exit: 1,
    cause: "Neither the flags nor the configuration say where the model servers are.",
    remedy: "Give --endpoints FILE or dataLayer.discovery, or in Kubernetes --pool-name or --endpoint-selector.",
  },
  DISCOVERY_DNS: {
    exit: 1,
    cause: "DNS has no addresses for a name in the changed gateway.yaml.",
    remedy: "Correct the name or the DNS server, and save the file again.",
  },
  ENGINE_UNKNOWN: {
    exit: 1,
    cause: "The default engine is not one of the known engines.",
    remedy: "Name one of the engines that the message lists.",
  },
  METRIC_SPECIFICATION: {
    exit: 1,
    cause: "The name of a metric of model servers has the wrong form.",
    remedy: "Write NAME or NAME{label=value,...}.",
  },
  POD_NAME: {
    exit: 1,
    cause: "The environment variable POD_NAME does not hold the name of a pod of a Deployment.",
    remedy: "Set POD_NAME from metadata.name in the pod's spec.",
  },
  LABEL_SELECTOR: {
    exit: 1,
    cause: "A label selector cannot be used.",
    remedy: "Correct the requirement that the message names.",
  },
  POOL_AMBIGUOUS: {
    exit: 1,
    cause: "Several InferencePools match the flags.",
    remedy: "Name one pool with --pool-name and --pool-namespace.",
  },
  POOL_WITHOUT_PICKER: {
    exit: 1,
    cause: "The InferencePool names no endpoint picker, which the version v1alpha2 requires.",
    remedy: "Add endpointPickerRef to the pool.",
  },
  POOL_NOT_STORABLE: {
    exit: 1,
    cause: "The InferencePool has values that the version v1 does not allow.",
    remedy: "Correct the fields of the pool that the message names.",
  },
  RESOURCES_FOLDER: {
    exit: 1,
    cause: "The folder of manifests cannot be read.",
    remedy: "Name a folder that exists, and let the user of the process read it.",
  },
  RESOURCES_FILE: {
    exit: 1,
    cause: "A manifest in the folder is wrong.",
    remedy: "Correct the manifest at the place in the message.",
  },
  RESOURCE_TWICE: {
    exit: 1,
    cause: "The manifests contain the same object twice.",
    remedy: "Remove one of the two objects.",
  },
  RESOURCE_LIMIT: {
    exit: 1,
    cause: "There are more API objects, manifests or objectives than Sluice keeps.",
    remedy: "Remove objects that nothing uses.",
    hint: true,
  },
  KUBERNETES_ACCESS: {
    exit: 1,
    cause: "The process needs Kubernetes, but does not run in a pod and has no kubeconfig.",
    remedy: "Run the process in a pod, name a file with --kubeconfig, or give --endpoints FILE.",
  },
  KUBERNETES_API: {
    exit: 1,
    cause: "The Kubernetes API server refused a request or cannot be reached.",
    remedy: "Check the connection to the API server, and the rights (RBAC) of the account.",
    hint: true,
  },
  KUBERNETES_TOKEN: {
    exit: 1,
    cause: "The token for the API server has characters that are not allowed in an HTTP header.",
    remedy: "Write the token as one line of printable characters.",
  },
  IN_CLUSTER_ACCOUNT: {
    exit: 1,
    cause: "The pod has no usable ServiceAccount.",
    remedy: "Set automountServiceAccountToken: true in the pod's spec.",
  },
  KUBECONFIG_CONTEXT: {
    exit: 1,
    cause: "The kubeconfig lacks the context, the cluster or the user to connect with.",
    remedy: "Add the missing entry, or name an existing context.",
  },
  KUBECONFIG_UNSUPPORTED: {
    exit: 1,
    cause: "The kubeconfig uses a setting that Sluice does not support.",
    remedy: "Use a context with a token, a client certificate or a credential plugin, and without a proxy.",
  },
  CREDENTIAL_PLUGIN: {
    exit: 1,
    cause: "The credential plugin of the kubeconfig gave no usable credentials.",
    remedy: "Run the command of the credential plugin in a shell, and correct what fails.",
    hint: true,
  },
  ACCESS_REVIEW_BUSY: {
    exit: 1,
    cause: "Too many clients of the admin port wait until the API server has checked their tokens.",
    remedy: "Try again later, or let fewer clients read the admin port.",
  },
} as const satisfies Record<string, ErrorRow>;
