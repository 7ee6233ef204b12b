import type { Endpoint } from "../inference/endpoint.ts";
import type { HeaderList } from "../inference/headers.ts";
import type { Rejection } from "../inference/outcomes.ts";
import type { InferenceRequest, ParsedBody } from "../inference/request.ts";

/** Reads the fields that routing needs from the bodies of one API. */
export interface BodyParser {
  /** Name of the API for people. */
  readonly name: string;
  /** The suffixes of the paths that it parses, each beginning with a slash. */
  readonly suffixes: readonly string[];
  /** The whole paths that it parses, each beginning with a slash. They win over suffixes. */
  readonly paths?: readonly string[];
  /**
   * Never throws: a fault of the body becomes the client's answer.
   * @param body complete, as received; not copied, must stay unchanged while its ranges are in use
   * @param path without query string
   */
  parse(body: Uint8Array, path: string): ParsedBody | Rejection;
}

/** `http` = HTTP/1.1, `kubernetes.io/h2c` = HTTP/2 without TLS, which gRPC needs (api-resources 1.5). */
export type AppProtocol = "http" | "kubernetes.io/h2c";

/** A family of parsers that a configuration names as one. */
export interface RequestParser {
  readonly parsers: readonly BodyParser[];
  /** For paths that no configured parser claims. Of several fallbacks the first counts. */
  readonly fallback?: BodyParser;
  /** Protocols of model servers that this family supports, by `appProtocol` of pools; absent = both. */
  readonly protocols?: readonly AppProtocol[];
  /** The same, where this family is the only configured one. */
  readonly aloneFallback?: BodyParser;
}

/** A request that was routed. */
export interface PreRequestContext {
  readonly request: InferenceRequest;
  /** In order of preference. */
  readonly endpoints: readonly Endpoint[];
  /**
   * The endpoints of each profile that ran, in order of preference, by name of the profile. Those of the primary one are
   * `endpoints`.
   */
  readonly profiles: ReadonlyMap<string, readonly Endpoint[]>;
  /** Sets a header of the forwarded request. @param value one character per byte, as in `HeaderList` */
  setHeader(name: string, value: string): void;
  /**
   * Removes a header from the forwarded request, also one that another hook or the client set. A `setHeader` of the same name
   * wins.
   */
  removeHeader(name: string): void;
  /** Adds an entry of dynamic metadata; the destination's own entry cannot be overwritten. */
  setMetadata(namespace: string, key: string, value: string | number | boolean): void;
}

export interface ResponseReceivedContext {
  /** Undefined when the proxy showed no request phase. */
  readonly request: InferenceRequest | undefined;
  /** The endpoint that serves, as far as known. */
  readonly endpoint: Endpoint | undefined;
  readonly status: number;
  readonly headers: HeaderList;
  /** The metadata that the proxy attached in the namespace `envoy.lb`; undefined when the namespace is missing. */
  readonly metadata: Readonly<Record<string, unknown>> | undefined;
  /** Sets a header of the response. @param value one character per byte, as in `HeaderList` */
  setHeader(name: string, value: string): void;
}

/** Token counts of an answer; NaN where the answer gives none. */
export interface TokenUsage {
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly totalTokens: number;
  readonly cachedTokens: number;
}

export interface ResponseCompleteContext {
  readonly request: InferenceRequest | undefined;
  readonly endpoint: Endpoint | undefined;
  readonly status: number;
  readonly usage: TokenUsage | undefined;
  /** `natural` = the whole answer passed. */
  readonly cause: "natural" | "client-disconnect" | "evicted" | "error";
  /** Adds an entry of dynamic metadata to the last message of the response; without effect unless `cause` is natural. */
  setMetadata(namespace: string, key: string, value: string | number | boolean): void;
}

/** Follows the stages of a routed exchange (scheduling 3.2). Synchronous. An error that it throws is reported and ignored. */
export interface RequestHook {
  preRequest?(context: PreRequestContext): void;
  responseReceived?(context: ResponseReceivedContext): void;
  /** Called once per exchange that was scheduled, at any end of it. A request without a body is not scheduled. */
  responseComplete?(context: ResponseCompleteContext): void;
}

/** A hook of the process itself, besides those of its configuration. */
export interface OwnHook {
  readonly name: string;
  readonly type: string;
  readonly plugin: RequestHook;
}
