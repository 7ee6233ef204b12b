import { generalNumber } from "./number-text.ts";

type Matchers = Readonly<Record<string, string | undefined>>;

/** Text as a PromQL string literal. */
function quoted(text: string): string {
  const escaped = text
    .replace(/["\\]/g, "\\$&")
    .replaceAll("\n", "\\n")
    // biome-ignore lint/suspicious/noControlCharactersInRegex: PromQL knows these only escaped
    .replace(/[\u0000-\u001f\u007f]/g, (control) => `\\x${control.charCodeAt(0).toString(16).padStart(2, "0")}`);
  return `"${escaped}"`;
}

/** `metric{a="x",b="y"}`: exact matches in alphabetical order; matchers without a value are left out. */
function selector(metric: string, matchers: Matchers): string {
  const texts = Object.entries(matchers)
    .flatMap(([name, text]) => (text === undefined ? [] : [`${name}=${quoted(text)}`]))
    .sort();
  return `${metric}{${texts.join(",")}}`;
}

/** The InferencePool that a query is about. */
export interface PoolSelection {
  readonly pool: string;
  readonly namespace: string | undefined;
}

/** A published expression, and the expression for the time of its samples, as Unix seconds. */
export interface BuiltQuery {
  readonly query: string;
  readonly timestampQuery: string;
}

/** The oldest sample of several selectors: an expression has no time of its own, only its selectors have one. */
function oldest(...selectors: readonly string[]): string {
  return `min(${selectors.map((each) => `timestamp(${each})`).join(" or ")})`;
}

/** 1 - S from the saturation that the EPP publishes (async-processor 3.7). */
export function saturationQuery({ pool, namespace }: PoolSelection): BuiltQuery {
  const saturation = selector("inference_extension_flow_control_pool_saturation", { inference_pool: pool, namespace });
  return { query: `1 - ${saturation}`, timestampQuery: oldest(saturation) };
}

/** The number of ready model servers of the pool; the EPP labels the pool `name` here. */
export function readyPodsQuery({ pool, namespace }: PoolSelection): string {
  return selector("inference_pool_ready_pods", { name: pool, namespace });
}

/** The number of model servers with a queue of their own in the metrics, for an EPP that does not publish the ready ones. */
export function queuedPodsQuery({ pool, namespace }: PoolSelection): string {
  const perPod = selector("inference_pool_per_pod_queue_size", { name: pool, namespace });
  // Several EPP replicas publish each model server; it counts once.
  return `count(count by (model_server_pod) (${perPod}))`;
}

/**
 * The sources of the dispatch budget in the order in which they are tried (async-processor 3.7): requests in the EPP's flow
 * control queues, requests in the model servers' queues, requests that run.
 * @param perPod K, requests per ready pod
 * @param robust true: takes the largest of several series of ready pods. The published form is an error there, for example with
 * two EPP replicas
 */
export function budgetQueries(selection: PoolSelection, perPod: number, robust: boolean): readonly BuiltQuery[] {
  const { pool, namespace } = selection;
  const k = generalNumber(perPod);
  const ready = readyPodsQuery(selection);
  const capacity = `(${robust ? `max(${ready})` : ready} * ${k})`;
  const queued = selector("inference_extension_flow_control_queue_size", { inference_pool: pool, namespace });
  const waiting = selector("inference_pool_per_pod_queue_size", { name: pool, namespace });
  const running = selector("vllm:num_requests_running", { inference_pool: pool, namespace });
  return [
    {
      query: `1 - (sum by (inference_pool) (${queued}) / on() ${capacity})`,
      timestampQuery: oldest(queued, ready),
    },
    { query: `1 - (avg by (name) (${waiting}) / ${k})`, timestampQuery: oldest(waiting) },
    { query: `1 - (sum(${running}) / on() ${capacity})`, timestampQuery: oldest(running, ready) },
  ];
}
