import { didYouMean } from "../../base/document/nearest.ts";
import { type Endpoint, type EndpointState, hostPort, UNKNOWN_METRICS } from "../../base/inference/endpoint.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";

/** A model server in a test. Missing values are those of an idle one with fresh metrics. */
export interface EndpointSketch {
  /** Unique among the endpoints of the test. */
  readonly name: string;
  /** Requests that wait in the engine; default 0, NaN = not on its metrics page. */
  readonly waiting?: number;
  /** Requests that run in the engine; default 0. */
  readonly running?: number;
  /** KV-cache utilisation, 0..1; default 0. */
  readonly kvUsage?: number;
  readonly labels?: Readonly<Record<string, string>>;
  /** Requests sent from this process and not yet answered, or those and their prompt tokens; default 0. */
  readonly inFlight?: number | { readonly requests: number; readonly tokens: number };
  readonly lora?: {
    readonly running?: readonly string[];
    readonly waiting?: readonly string[];
    /** The number of adapters that fit in a batch. */
    readonly max?: number;
  };
  /** Tokens per KV block. */
  readonly blockSize?: number;
  /** KV blocks on the device. */
  readonly blocks?: number;
  /** Attributes from pages besides the metrics page, by `attribute/producer`. */
  readonly attributes?: Readonly<Record<string, number>>;
  /** Name of the node of its pod. */
  readonly node?: string;
  /** Milliseconds since the last scrape; default 0, Infinity = never. Above 200 the metrics are stale. */
  readonly metricsAge?: number;
  readonly state?: EndpointState;
  readonly namespace?: string;
  readonly address?: string;
  readonly port?: number;
  readonly rank?: number;
}

/** All keys of a sketch. */
export type Keys<T> = Readonly<Record<keyof T, true>>;

/**
 * Refuses a key with a typing error, which would leave the default in place: tests may run without a check of their types.
 * @param what the sketch, as the message names it
 * @throws Error that names an unknown key and the nearest known one
 */
export function refuseUnknownKeys<T extends object>(sketch: T, known: Keys<T>, what: string): void {
  for (const key of Object.keys(sketch))
    if (!Object.hasOwn(known, key))
      throw new Error(`${what}: unknown key \`${key}\`${didYouMean(key, Object.keys(known))}`);
}

const ENDPOINT_KEYS: Keys<EndpointSketch> = {
  ...{ name: true, waiting: true, running: true, kvUsage: true, labels: true, inFlight: true, lora: true },
  ...{ blockSize: true, blocks: true, attributes: true, node: true, metricsAge: true, state: true },
  ...{ namespace: true, address: true, port: true, rank: true },
};

/**
 * Returns an endpoint as plugins see it, at monotonic 0.
 * @param slot its number, from 0 up, different for each endpoint of a test
 * @throws Error for an unknown key
 */
export function endpointOf(sketch: EndpointSketch, slot = 0): Endpoint {
  refuseUnknownKeys(sketch, ENDPOINT_KEYS, `the endpoint ${sketch.name}`);
  const { name, namespace = "default", address = `10.0.${slot >> 8}.${slot & 255}`, port = 8000 } = sketch;
  const { waiting = 0, running = 0, kvUsage = 0, metricsAge = 0, lora = {}, inFlight = 0 } = sketch;
  const { blockSize = Number.NaN, blocks = Number.NaN } = sketch;
  const read = {
    ...{ waiting, running, kvUsage, blockSize, blocks, scrapedAt: -metricsAge },
    maxLora: lora.max ?? Number.NaN,
    loraRunning: new Set(lora.running),
    loraWaiting: new Set(lora.waiting),
  };
  return {
    id: `${namespace}/${name}`,
    ...{ slot, namespace, name, address, port },
    hostPort: hostPort(address, port),
    rank: sketch.rank ?? 0,
    labels: sketch.labels ?? {},
    metrics: metricsAge === Number.POSITIVE_INFINITY ? UNKNOWN_METRICS : read,
    inFlight: typeof inFlight === "number" ? { requests: inFlight, tokens: 0 } : inFlight,
    ...(sketch.attributes === undefined ? {} : { attributes: new Map(Object.entries(sketch.attributes)) }),
    ...(sketch.node === undefined ? {} : { node: sketch.node }),
    state: sketch.state ?? "up",
    scrapeInterval: 50,
  };
}

/** A request in a test. Missing values are the usual ones. */
export interface RequestSketch {
  /** Text of the prompt; default "". */
  readonly prompt?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** The model that the client asks for; default `model`. */
  readonly model?: string;
  /** The target model; default: the same. */
  readonly targetModel?: string;
  /** Below 0 the request is sheddable; default 0. */
  readonly priority?: number;
  /** Name of the InferenceObjective. */
  readonly objective?: string;
  readonly fairnessId?: string;
  readonly streaming?: boolean;
  /** Default: the request has no limit. */
  readonly maxTokens?: number;
  readonly cacheSalt?: string;
  readonly id?: string;
}

const REQUEST_KEYS: Keys<RequestSketch> = {
  ...{ prompt: true, headers: true, model: true, targetModel: true, priority: true, objective: true },
  ...{ fairnessId: true, streaming: true, maxTokens: true, cacheSalt: true, id: true },
};

/** Returns a request as plugins see it. @throws Error for an unknown key */
export function requestOf(sketch: RequestSketch = {}): InferenceRequest {
  refuseUnknownKeys(sketch, REQUEST_KEYS, "the request");
  const { prompt = "", headers = {}, model = "model", priority = 0 } = sketch;
  const body = new TextEncoder().encode(prompt);
  return {
    id: sketch.id ?? "test-request",
    headers: HeaderList.of(Object.entries(headers)),
    ...{ body, model, priority },
    targetModel: sketch.targetModel ?? model,
    modelRange: undefined,
    modelInsertAt: -1,
    answerFormat: "http",
    objective: sketch.objective ?? "",
    shedAt: priority < 0 ? 1 : Number.POSITIVE_INFINITY,
    fairnessId: sketch.fairnessId ?? "default-flow",
    streaming: sketch.streaming ?? false,
    cacheSalt: sketch.cacheSalt ?? "",
    prompts: prompt === "" ? [] : [[{ start: 0, end: body.length }]],
    maxTokens: sketch.maxTokens ?? Number.NaN,
  };
}
