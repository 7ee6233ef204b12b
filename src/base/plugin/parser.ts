import type { Rejection } from "../inference/outcomes.ts";
import type { ParsedBody } from "../inference/request.ts";

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
