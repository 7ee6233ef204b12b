import type { ConfigDocument, Findings } from "../../async/dispatch/config/config-document.ts";
import type { Path } from "../../base/document/document.ts";
import { isObject } from "../../base/document/json-object.ts";

type Values = Readonly<Record<string, unknown>>;

const PROBE = ["initialDelaySeconds", "periodSeconds", "timeoutSeconds", "failureThreshold"];

/** The keys of the reference's chart under `ap`, by their place there. */
const KNOWN: Readonly<Record<string, readonly string[]>> = {
  "": [
    ...["igwBaseURL", "affinity", "securityContext", "resources", "image", "imagePullPolicy", "imagePullSecrets"],
    ...["imagePullSecret", "concurrency", "drainTimeout", "prometheusURL", "prometheusCacheTTL", "workerPools"],
    ...["transformConfig", "requestMergePolicyConfig", "otel", "health", "metrics", "messageQueueImpl", "gcpPubSub"],
    ...["tls", "redis", "podMonitor", "prometheusRule", "grafana", "modelServerMonitor", "logging"],
  ],
  redis: [
    ...["enabled", "url", "secretName", "secretKey", "requestPathURL", "requestQueueName", "resultQueueName"],
    ...["pollIntervalMs", "batchSize", "gateType", "gateParams", "queuesConfig"],
  ],
  gcpPubSub: ["enabled", "projectId", "requestSubscriberId", "resultTopicId", "requestPathURL", "topicsConfig"],
  metrics: ["enabled", "port", "secure"],
  otel: ["endpoint", "insecure", "sampler", "samplerArg", "redisTracing"],
  health: ["port", "livenessProbe", "readinessProbe", "startupProbe"],
  "health.livenessProbe": PROBE,
  "health.readinessProbe": PROBE,
  "health.startupProbe": PROBE,
  tls: ["secretName", "insecureSkipVerify", "caCertKey", "certKey", "keyKey"],
};

/** Whether a file has the values of the reference's chart. */
export function isChartValues(value: unknown): boolean {
  return isObject(value) && isObject(value["ap"]);
}

/** A value of the chart, and its place there. */
interface Given {
  readonly value: unknown;
  readonly at: Path;
}

/**
 * The dispatch.yaml that says what the reference's chart renders from its values, with the places of the values.
 * @param findings gets what the chart refuses, keys that it does not have, and what another file of values must have
 */
export function chartAsDispatch(document: ConfigDocument, findings: Findings): ConfigDocument {
  const ap = (document.value as Values)["ap"] as Values;
  const part = (name: string): Values => (isObject(ap[name]) ? ap[name] : {});
  for (const [name, keys] of Object.entries(KNOWN)) {
    const path = name === "" ? [] : name.split(".");
    const value = path.reduce<unknown>((found, key) => (isObject(found) ? found[key] : undefined), ap);
    findings.warnOfUnknown(document, ["ap", ...path], value, keys);
  }
  const of = (value: unknown, ...at: Path): Given => ({ value, at: ["ap", ...at] });
  const [redis, pubsub] = [part("redis"), part("gcpPubSub")];
  const sections: Record<string, Placed> = {
    concurrency: of(ap["concurrency"], "concurrency"),
    "drain-timeout": of(ap["drainTimeout"], "drainTimeout"),
    "prometheus-url": of(ap["prometheusURL"], "prometheusURL"),
    "prometheus-cache-ttl": of(ap["prometheusCacheTTL"], "prometheusCacheTTL"),
    "pool-config": of(ap["workerPools"], "workerPools"),
    "request-merge-policy-config": of(ap["requestMergePolicyConfig"], "requestMergePolicyConfig"),
    "transform-config": of(ap["transformConfig"], "transformConfig"),
    "health-port": of(part("health")["port"], "health", "port"),
    "metrics-port": of(part("metrics")["port"], "metrics", "port"),
    "metrics-endpoint-auth": of(part("metrics")["secure"], "metrics", "secure"),
  };
  if (redis["enabled"] === true) {
    const isSortedSet = ap["messageQueueImpl"] === "redis-sortedset";
    if (isSortedSet && isGiven(redis["queuesConfig"]) && isGiven(redis["gateType"]))
      findings.refuse(
        document,
        ["ap", "redis", "gateType"],
        "is not allowed beside queuesConfig: give each queue its gate_type",
      );
    if (!isGiven(redis["url"]) && !isGiven(redis["secretName"]))
      findings.warn(
        document,
        ["ap", "redis"],
        "names no server: this or another file of values must set url or secretName",
      );
    const single: Record<string, Given> = {
      igw_base_url: of(ap["igwBaseURL"], "igwBaseURL"),
      request_path_url: of(redis["requestPathURL"], "redis", "requestPathURL"),
      ...(isSortedSet
        ? {
            queue_name: of(redis["requestQueueName"] || "request-sortedset", "redis", "requestQueueName"),
            gate_type: of(redis["gateType"], "redis", "gateType"),
            gate_params: of(redis["gateParams"], "redis", "gateParams"),
          }
        : { queue_name: of("request-queue", "messageQueueImpl") }),
    };
    sections["transport"] = of(isSortedSet ? "redis-sortedset" : "redis-pubsub", "messageQueueImpl");
    sections["transport-config"] = mapping(["ap", "redis"], {
      url: of(redis["url"], "redis", "url"),
      queues: listOf(of(redis["queuesConfig"], "redis", "queuesConfig"), single, ["ap", "redis"]),
      ...(isSortedSet
        ? {
            result_queue_name: of(redis["resultQueueName"], "redis", "resultQueueName"),
            poll_interval_ms: of(redis["pollIntervalMs"], "redis", "pollIntervalMs"),
            batch_size: of(redis["batchSize"], "redis", "batchSize"),
          }
        : {}),
    });
  } else if (pubsub["enabled"] === true) {
    const single = {
      subscriber_id: of(pubsub["requestSubscriberId"], "gcpPubSub", "requestSubscriberId"),
      igw_base_url: of(ap["igwBaseURL"], "igwBaseURL"),
      request_path_url: of(pubsub["requestPathURL"], "gcpPubSub", "requestPathURL"),
    };
    sections["transport"] = of("gcp-pubsub", "gcpPubSub");
    sections["transport-config"] = mapping(["ap", "gcpPubSub"], {
      project_id: of(pubsub["projectId"], "gcpPubSub", "projectId"),
      result_topic_id: of(pubsub["resultTopicId"], "gcpPubSub", "resultTopicId"),
      topics: listOf(of(pubsub["topicsConfig"], "gcpPubSub", "topicsConfig"), single, ["ap", "gcpPubSub"]),
    });
  } else findings.warn(document, ["ap"], "enables no transport: another file of values must enable redis or gcpPubSub");
  const { value } = mapping(["ap"], sections);
  return { ...document, value, positionOf: (path) => document.positionOf(placeOf(sections, path, ["ap"])) };
}

/** Values that have a place of their own each. */
interface Placed extends Given {
  readonly members?: Readonly<Record<string, Placed>>;
}

/** A mapping of what is given: the chart leaves out what is empty. */
function mapping(at: Path, members: Readonly<Record<string, Placed>>): Placed {
  const given = Object.entries(members).filter(([, { value }]) => isGiven(value));
  return { value: Object.fromEntries(given.map(([key, { value }]) => [key, value])), at, members };
}

/** The list of queues, or the one queue that the single values describe. */
function listOf(list: Given, single: Readonly<Record<string, Given>>, at: Path): Placed {
  if (isGiven(list.value)) return list;
  const entry = mapping(at, single);
  return { value: [entry.value], at, members: { 0: entry } };
}

/** The place in the values of a path in the dispatch.yaml. @param fallback place of what is not there */
function placeOf(members: Readonly<Record<string, Placed>>, [first, ...rest]: Path, fallback: Path): Path {
  const placed = first === undefined ? undefined : members[String(first)];
  if (placed === undefined) return fallback;
  return placed.members === undefined ? [...placed.at, ...rest] : placeOf(placed.members, rest, placed.at);
}

/** As for Helm, empty texts, lists and mappings are absent. 0 and false are not: a port or a switch may have them. */
function isGiven(value: unknown): boolean {
  if (typeof value === "object" && value !== null) return Object.keys(value).length > 0;
  return value !== undefined && value !== null && value !== "";
}
