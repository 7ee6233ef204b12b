import type { ConfigDocument, Findings } from "../../async/dispatch/config/config-document.ts";
import type { TransportName } from "../../async/dispatch/config/transport-fields.ts";
import type { Path } from "../../base/document/document.ts";
import { isObject } from "../../base/document/json-object.ts";
import { chartAsDispatch, isChartValues } from "./chart-values.ts";
import { FILE_FLAGS } from "./dispatch-settings.ts";

/**
 * A dispatch.yaml, the values of the reference's chart, or one of the reference's files: of a transport, its bare list of queues or
 * of topics, worker pools, merge policy, transforms.
 */
export type DispatchContent =
  | "dispatch"
  | "chart"
  | "transport"
  | "queues"
  | "topics"
  | "pools"
  | "merge"
  | "transforms";

const SECTIONS = ["transport-config", "pool-config", "request-merge-policy-config", "transform-config"];

/** What the content of a file is; undefined = nothing that `sluice dispatch` reads. */
export function dispatchContentOf(value: unknown): DispatchContent | undefined {
  if (Array.isArray(value)) return listContentOf(value);
  if (!isObject(value)) return undefined;
  if (isChartValues(value)) return "chart";
  const keys = Object.keys(value);
  const has = (...names: readonly string[]): boolean => names.some((name) => keys.includes(name));
  if (has("transport", ...SECTIONS, ...SECTIONS.map((name) => `${name}-file`))) return "dispatch";
  if (has("requestTransforms")) return "transforms";
  const { queues, topics, type } = value;
  if (Array.isArray(queues ?? topics)) return "transport";
  if (type === "random-robin" || type === "tier-priority") return "merge";
  return keys.length > 0 && keys.every((key) => FILE_FLAGS.some(({ name }) => name === key)) ? "dispatch" : undefined;
}

/** A key that one entry has is enough: another entry may have it mistyped. */
function listContentOf(entries: readonly unknown[]): DispatchContent | undefined {
  const has = (key: string): boolean =>
    entries.some((entry) => typeof entry === "object" && entry !== null && Object.hasOwn(entry, key));
  if (has("subscriber_id")) return "topics";
  if (has("queue_name") || has("igw_base_url")) return "queues";
  return has("workers") ? "pools" : undefined;
}

/** A file in the form in which its parts are read. */
export interface ReadableContent {
  readonly content: "dispatch" | "transport" | "pools" | "merge" | "transforms";
  readonly whole: ConfigDocument;
  /** True: other files or flags may give what it lacks. */
  readonly isPart: boolean;
}

/** Brings values of a chart and bare lists into the form of the other files, with the places of their values. */
export function readable(document: ConfigDocument, findings: Findings): ReadableContent {
  const content = dispatchContentOf(document.value) ?? "dispatch";
  switch (content) {
    case "chart":
      return { content: "dispatch", whole: chartAsDispatch(document, findings), isPart: true };
    case "queues":
      return { content: "transport", whole: inside(document, "queues", {}), isPart: true };
    case "topics":
      // Flags give both.
      return {
        content: "transport",
        whole: inside(document, "topics", { project_id: "-", result_topic_id: "-" }),
        isPart: true,
      };
    default:
      return { content, whole: document, isPart: content !== "dispatch" };
  }
}

/** A list as the member of a transport's configuration. */
function inside(document: ConfigDocument, key: string, others: object): ConfigDocument {
  const positionOf = ([first, ...rest]: Path) => document.positionOf(first === key ? rest : []);
  return { ...document, value: { ...others, [key]: document.value }, positionOf };
}

/** The transport of a file of the reference, by its content. Both of Redis look alike; the one that keeps messages counts. */
export function transportFor(value: unknown): TransportName {
  const keys = Object.keys(value as object);
  if (keys.includes("topics") || keys.includes("project_id")) return "gcp-pubsub";
  return keys.includes("path") ? "sqlite" : "redis-sortedset";
}
