import type { Endpoint } from "../inference/endpoint.ts";
import type { InferenceRequest } from "../inference/request.ts";
import type { DecisionContext } from "./candidates.ts";
import type { AttributeKey } from "./keys.ts";

export interface ProduceContext extends DecisionContext {
  /** What `prepare` resolved to for this request; undefined when it failed, took too long or does not exist. */
  readonly prepared: unknown;
  /** Attaches a value to the request. @throws SluiceError DATA_UNDECLARED for a key the producer does not declare */
  setAttribute<T>(key: AttributeKey<T>, value: T): void;
}

/** Computes columns and request attributes before anything else is decided, and is told what became of the request. */
export interface Producer {
  produce(context: ProduceContext): void;
  /**
   * What has to wait, before the decision: the only asynchronous step. A producer that fails here or exceeds its budget
   * is reported, and `produce` gets nothing from it; the request goes on (scheduling 3.2).
   */
  prepare?(request: InferenceRequest, signal: AbortSignal): Promise<unknown>;
  /** Milliseconds that `prepare` may take; default 400. */
  readonly prepareBudget?: number;
  /**
   * The request was routed to `endpoint`, the first of the primary profile's list.
   * @param others the first endpoints of the other profiles that ran, by name of the profile
   * @param primary name of the primary profile
   */
  routed?(request: InferenceRequest, endpoint: Endpoint, others: ReadonlyMap<string, Endpoint>, primary?: string): void;
  /** Called instead of `routed`, for a request that `produce` has seen and that is refused after all: forget it. */
  refused?(request: InferenceRequest): void;
  /**
   * Called right before `routed` where the request may yet end up elsewhere: returns what to call with the endpoint that
   * served after all. It must not keep the request, whose body is long gone by then.
   */
  follow?(request: InferenceRequest): ((served: Endpoint) => void) | undefined;
  /**
   * Of a producer of `UNCACHED_TOKENS`: what it says includes tokens that are yet to be generated, so the endpoint has them until
   * the end of the answer instead of its first byte (scheduling 3.12).
   */
  readonly estimatesOutput?: boolean;
  /** The endpoint has left the pool: forget it. */
  endpointRemoved?(endpoint: Endpoint): void;
  /** What it knows, as JSON, bounded, without prompt text or ids that clients chose: for `/debug/plugins/state`. */
  debugState?(): unknown;
}
