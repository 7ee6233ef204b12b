import type { Endpoint } from "../inference/endpoint.ts";
import type { HeaderList } from "../inference/headers.ts";
import type { Rejection } from "../inference/outcomes.ts";
import type { InferenceRequest, ParsedBody } from "../inference/request.ts";

/** Reads out of the bodies of one API what routing needs. */
export interface BodyParser {
  /** As people name it. */
  readonly name: string;
  /** The paths it is for: those that end in one of these, each beginning with a slash. */
  readonly suffixes: readonly string[];
  /** Paths it is for only as a whole, each beginning with a slash; they win over suffixes. */
  readonly paths?: readonly string[];
  /**
   * Never throws: whatever is wrong with the body becomes the client's answer.
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
  /** For paths that no configured parser claims; of several the first counts. */
  readonly fallback?: BodyParser;
  /** How the servers speak that it can be used with, by `appProtocol` of pools; absent = either way. */
  readonly protocols?: readonly AppProtocol[];
  /** The same, where this family is the only one that is configured. */
  readonly aloneFallback?: BodyParser;
}

/** What happens to a routed request. */
export interface PreRequestContext {
  readonly request: InferenceRequest;
  /** In order of preference. */
  readonly endpoints: readonly Endpoint[];
  /** What each profile that ran chose, in order of preference, by name of the profile; the primary one's is `endpoints`. */
  readonly profiles: ReadonlyMap<string, readonly Endpoint[]>;
  /** Sets a header of the forwarded request. @param value one character per byte, as in `HeaderList` */
  setHeader(name: string, value: string): void;
  /** Leaves a header out of the forwarded request, whoever set it; a `setHeader` of the same name wins. */
  removeHeader(name: string): void;
  /** Adds an entry of dynamic metadata; the destination's own entry cannot be overwritten. */
  setMetadata(namespace: string, key: string, value: string | number | boolean): void;
}

export interface ResponseReceivedContext {
  /** Undefined when the proxy showed no request phase. */
  readonly request: InferenceRequest | undefined;
  /** Who serves, as far as known. */
  readonly endpoint: Endpoint | undefined;
  readonly status: number;
  readonly headers: HeaderList;
  /** What the proxy attached in the namespace `envoy.lb`; undefined when the namespace is missing. */
  readonly metadata: Readonly<Record<string, unknown>> | undefined;
  /** Sets a header of the response. @param value one character per byte, as in `HeaderList` */
  setHeader(name: string, value: string): void;
}

/** Token counts of an answer; NaN where it does not say. */
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
  /** `natural` = the whole answer passed by. */
  readonly cause: "natural" | "client-disconnect" | "evicted" | "error";
  /** Adds an entry of dynamic metadata to the last message of the response; without effect unless `cause` is natural. */
  setMetadata(namespace: string, key: string, value: string | number | boolean): void;
}

/** Is told of the stations of a routed exchange (scheduling 3.2); synchronous. What it throws is reported and ignored. */
export interface RequestHook {
  preRequest?(context: PreRequestContext): void;
  responseReceived?(context: ResponseReceivedContext): void;
  /** Once per exchange that was scheduled, however it ends: a request without a body is not. */
  responseComplete?(context: ResponseCompleteContext): void;
}

/** A hook that a process has besides those of its configuration. */
export interface OwnHook {
  readonly name: string;
  readonly type: string;
  readonly plugin: RequestHook;
}
