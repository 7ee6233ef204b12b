import type { MetricTable } from "./metric-table.ts";

/** Following the objects of a cluster, of `sluice epp` with a pool of Kubernetes only; `kind` as in `pods` or `inferencepools.GROUP`. */
export const KUBERNETES_METRICS = {
  kubernetesHeardAge: {
    type: "gauge",
    name: "sluice_kubernetes_heard_age_seconds",
    help: "Seconds since the API server last said anything about a kind; before its first word, since the start. Routing goes on by what was known then. Absent where the kind does not exist or may not be read.",
    labels: ["kind"],
  },
  kubernetesObjects: {
    type: "gauge",
    name: "sluice_kubernetes_objects",
    help: "Objects of a kind that are known.",
    labels: ["kind"],
  },
  kubernetesListsTotal: {
    type: "counter",
    name: "sluice_kubernetes_lists_total",
    help: "Times that all objects of a kind were read; one that rises without end is a watch that cannot be resumed.",
    labels: ["kind"],
  },
  kubernetesFailuresTotal: {
    type: "counter",
    name: "sluice_kubernetes_failures_total",
    help: "Lists and watches of a kind that failed.",
    labels: ["kind"],
  },
} as const satisfies MetricTable;

/** Of replicas that elect a leader. */
export const ELECTION_METRICS = {
  kubernetesLeader: {
    type: "gauge",
    name: "sluice_kubernetes_leader",
    help: "1 while this replica leads, 0 while another one may.",
    labels: [],
  },
} as const satisfies MetricTable;
