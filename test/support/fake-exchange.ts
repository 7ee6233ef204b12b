import { type AttemptFailure, type Endpoint, hostPort, UNKNOWN_METRICS } from "../../src/base/inference/endpoint.ts";
import type { HeaderList } from "../../src/base/inference/headers.ts";
import { Rejection } from "../../src/base/inference/outcomes.ts";
import type {
  Decision,
  DynamicMetadata,
  EndCause,
  Exchange,
  Routed,
  SubsetHint,
  Wire,
} from "../../src/picker/exchange/wire.ts";

/** An endpoint on the loopback interface. */
export function loopbackEndpoint(port: number): Endpoint {
  return {
    id: `default/e${port}`,
    slot: 0,
    namespace: "default",
    name: `e${port}`,
    address: "127.0.0.1",
    port,
    hostPort: hostPort("127.0.0.1", port),
    rank: 0,
    labels: {},
    metrics: UNKNOWN_METRICS,
    inFlight: { requests: 0, tokens: 0 },
    state: "up",
    scrapeInterval: 1000,
  };
}

/** How a fake exchange behaves; everything defaults to "route at once to `endpoints`, in order". */
export interface FakePlan {
  readonly endpoints?: readonly Endpoint[];
  /** The answer to a complete request, instead of a route. */
  decide?(exchange: FakeExchange): Decision | Promise<Decision>;
  /** The answer to the headers of a request with a body. */
  atHeaders?(exchange: FakeExchange): Decision | undefined;
  /** The answer to a piece of the body. */
  atChunk?(exchange: FakeExchange, chunk: Uint8Array): Decision | undefined;
  /** Sees each piece of the answer before it is passed on. */
  atAnswer?(exchange: FakeExchange, chunk: Uint8Array): Uint8Array;
  /** What a route says besides its endpoints and body. */
  readonly routed?: Partial<Routed>;
  /** Headers that plugins set on the answer. */
  readonly answerHeaders?: HeaderList;
  /** What a refusal says about the decision. */
  readonly ownHeaders?: HeaderList;
  /** What is left of the answer when its trailers come. */
  readonly tail?: Uint8Array;
  /** What plugins make of the complete answer. */
  readonly answerMetadata?: DynamicMetadata;
  readonly streaming?: boolean;
  readonly rewritesResponse?: boolean;
}

/** Records what a wire does with an exchange, and every breach of the order of calls. */
export class FakeExchange implements Exchange {
  requestId = "";
  requestIdGenerated = false;
  readonly streaming: boolean;
  readonly rewritesResponse: boolean;
  readonly wire: Wire;
  readonly breaches: string[] = [];
  readonly ends: EndCause[] = [];
  readonly failures: { endpoint: Endpoint; failure: AttemptFailure; detail: string }[] = [];
  headers: HeaderList | undefined;
  headersEnded = false;
  body: Uint8Array[] = [];
  bodyEnded = false;
  bodyReleased = 0;
  status: number | undefined;
  answerHeaders: HeaderList | undefined;
  answerBytes = 0;
  answerEnded = false;
  /** The hints that came, in order. */
  readonly subsets: SubsetHint[] = [];
  readonly served: string[] = [];
  /** What came in the namespace `envoy.lb` with the answer's headers. */
  lbMetadata: Readonly<Record<string, unknown>> | undefined;
  decision: Decision | undefined;
  readonly #plan: FakePlan;
  readonly #tried = new Set<Endpoint>();

  constructor(plan: FakePlan, wire: Wire) {
    this.#plan = plan;
    this.wire = wire;
    this.streaming = plan.streaming ?? false;
    this.rewritesResponse = plan.rewritesResponse ?? false;
  }

  /** As the real one: until the end. */
  get holdsResponse(): boolean {
    return !this.answerEnded;
  }

  get ownHeaders(): HeaderList | undefined {
    return this.#plan.ownHeaders;
  }

  get responseMetadata(): DynamicMetadata | undefined {
    return this.answerEnded ? this.#plan.answerMetadata : undefined;
  }

  get text(): string {
    return Buffer.concat(this.body).toString();
  }

  get ended(): boolean {
    return this.ends.length > 0;
  }

  requestHeaders(headers: HeaderList, end: boolean, subset?: SubsetHint): Decision | undefined {
    if (subset !== undefined) this.subsets.push(subset);
    if (this.headers !== undefined) this.breaches.push("requestHeaders twice");
    this.headers = headers;
    this.headersEnded = end;
    this.requestId = headers.get("x-request-id") ?? "generated-id";
    this.requestIdGenerated = headers.get("x-request-id") === undefined;
    if (end) {
      const decision = this.#plan.decide?.(this) ?? this.route();
      if (decision instanceof Promise) throw new Error("a request without a body is decided at once");
      return decision;
    }
    return this.#plan.atHeaders?.(this);
  }

  requestBody(chunk: Uint8Array, end: boolean, subset?: SubsetHint): Decision | Promise<Decision> | undefined {
    if (subset !== undefined) this.subsets.push(subset);
    if (this.headers === undefined) this.breaches.push("requestBody before requestHeaders");
    if (this.headersEnded || this.bodyEnded) this.breaches.push("requestBody after the end");
    if (this.ended) this.breaches.push("requestBody after end()");
    if (chunk.length > 0) this.body.push(chunk);
    this.bodyEnded = end;
    const early = this.#plan.atChunk?.(this, chunk);
    if (early !== undefined) return early;
    return end ? (this.#plan.decide?.(this) ?? this.route()) : undefined;
  }

  /** A route to the endpoints of the plan with the body received. */
  route(endpoints: readonly Endpoint[] = this.#plan.endpoints ?? []): Routed {
    const bodyLength = this.body.reduce((sum, part) => sum + part.length, 0);
    return {
      kind: "routed",
      endpoints,
      offered: 1,
      body: this.body,
      bodyLength,
      record: undefined,
      headers: undefined,
      metadata: undefined,
      scores: undefined,
      skipResponse: false,
      ...this.#plan.routed,
    };
  }

  releaseBody(): void {
    this.bodyReleased++;
    this.body = [];
  }

  attemptFailed(endpoint: Endpoint, failure: AttemptFailure, detail: string): Endpoint | Rejection {
    if (this.status !== undefined) this.breaches.push("attemptFailed after responseHeaders");
    if (this.ended) this.breaches.push("attemptFailed after end()");
    this.failures.push({ endpoint, failure, detail });
    this.#tried.add(endpoint);
    const next = (this.#plan.endpoints ?? []).find((candidate) => !this.#tried.has(candidate));
    return next ?? new Rejection("upstream_connect", `no endpoint answered: ${detail}`);
  }

  servedBy(hostPort: string): void {
    this.served.push(hostPort);
  }

  responseHeaders(
    status: number,
    headers: HeaderList,
    end: boolean,
    metadata?: Readonly<Record<string, unknown>>,
  ): HeaderList | undefined {
    this.lbMetadata = metadata;
    if (this.status !== undefined) this.breaches.push("responseHeaders twice");
    if (this.ended) this.breaches.push("responseHeaders after end()");
    this.status = status;
    this.answerHeaders = headers;
    this.answerEnded = end;
    return this.#plan.answerHeaders;
  }

  responseBody(chunk: Uint8Array, end: boolean): Uint8Array {
    if (this.status === undefined) this.breaches.push("responseBody before responseHeaders");
    if (this.answerEnded) this.breaches.push("responseBody after the end");
    if (this.ended) this.breaches.push("responseBody after end()");
    this.answerBytes += chunk.length;
    this.answerEnded = end;
    return this.#plan.atAnswer?.(this, chunk) ?? chunk;
  }

  responseTrailers(): Uint8Array {
    if (this.answerEnded) this.breaches.push("responseTrailers after the end");
    this.answerEnded = true;
    return this.#plan.tail ?? new Uint8Array(0);
  }

  end(cause: EndCause): void {
    this.ends.push(cause);
    if (this.ends.length > 1) this.breaches.push("end() twice");
    if (cause === "complete" && !this.answerEnded) this.breaches.push("complete without the end of the answer");
  }
}
