import type { HeaderList } from "../../base/inference/headers.ts";

/** Path of the one method of the service (envoy-data-plane 1.1). */
export const PROCESS_PATH = "/envoy.service.ext_proc.v3.ExternalProcessor/Process";

/** `BodySendMode`: how the data plane sends a body (envoy-data-plane 1.2.2). */
export const BODY_MODE = {
  none: 0,
  streamed: 1,
  buffered: 2,
  bufferedPartial: 3,
  fullDuplexStreamed: 4,
  grpc: 5,
} as const;

/** Which member of the oneof a request holds; "none" is legal and must be ignored (envoy-data-plane 1.2.4). */
export type RequestKind =
  | "none"
  | "request_headers"
  | "response_headers"
  | "request_body"
  | "response_body"
  | "request_trailers"
  | "response_trailers";

/** `ProtocolConfiguration`: the body modes in force, in the first message of a stream since Envoy 1.34. */
export interface ProtocolConfig {
  /** A number of `BODY_MODE`, or one added to the API later. */
  readonly requestBodyMode: number;
  readonly responseBodyMode: number;
  readonly sendBodyWithoutWaitingForHeaderResponse: boolean;
}

/** `ProcessingRequest`: one message from the proxy. */
export interface ProcessingRequest {
  readonly kind: RequestKind;
  /** The headers or trailers, for the kinds that carry them; undefined for the other kinds. */
  readonly headers: HeaderList | undefined;
  /**
   * The header map within `message`, where each header has its name in lower case, then its raw value, and nothing else: a reply can
   * repeat its bytes. Both are 0 for every other map.
   */
  readonly plainFrom: number;
  readonly plainTo: number;
  /** The body, a view of `message`, for the body kinds; empty for the other kinds. */
  readonly body: Uint8Array;
  /** For headers and bodies: true when nothing follows in this direction. Always false for trailers. */
  readonly endOfStream: boolean;
  /** The proxy wants no replies on this stream. */
  readonly observabilityMode: boolean;
  readonly protocolConfig: ProtocolConfig | undefined;
  /** The whole message as received. Envoy repeats metadata on every chunk, so only `metadataOf` decodes it, on demand. */
  readonly message: Uint8Array;
}

/** A `google.protobuf.Value` as a plain value. Maps have no prototype, so no key is special. */
export type StructValue = null | number | string | boolean | readonly StructValue[] | Struct;

/** A `google.protobuf.Struct`. */
export interface Struct {
  readonly [key: string]: StructValue;
}

/** A struct that is encoded once and sent many times. */
export class EncodedStruct {
  /** The encoded fields of the struct. */
  readonly fields: Uint8Array;

  constructor(fields: Uint8Array) {
    this.fields = fields;
  }
}

/** Which direction of the exchange a reply answers. */
export type Phase = "request" | "response";

/** Received headers that a reply repeats as they came: entries of a header map, in order. */
export interface EchoedHeaders {
  readonly bytes: Uint8Array;
  /** Beginning and end of each entry in turn. Valid until the next mutation is made. */
  readonly ranges: Int32Array;
  readonly count: number;
}

/** Header changes of one reply. Names must be lower case; values hold one character per byte. */
export interface HeaderChanges {
  /** Replaces or adds; `append` stays unset, which Envoy's filter reads as "overwrite" (epp-protocol 1.1). */
  readonly set?: HeaderList | undefined;
  /** Sets headers to what they are, after those of `set`. */
  readonly echoed?: EchoedHeaders | undefined;
  readonly remove?: readonly string[] | undefined;
  /** Writes `append_action: OVERWRITE_IF_EXISTS_OR_ADD` for proxies that follow the enum literally. */
  readonly literalAppendAction?: boolean | undefined;
}

/** The reply to headers, or to a whole body. In the mode BUFFERED no other reply can still change headers. */
export interface CommonReply extends HeaderChanges {
  /** Asks Envoy to choose the route again. Envoy obeys only next to a header change, and not in the response phase. */
  readonly clearRouteCache?: boolean | undefined;
  /** By namespace. Envoy requires a struct for each; v0.3 without a namespace wrote a string at the top level. */
  readonly dynamicMetadata?: Struct | EncodedStruct | undefined;
}

/** An answer in place of the model server's answer. */
export interface ImmediateReply extends HeaderChanges {
  /** A member of `type.v3.StatusCode`, which is not every HTTP status (418 and 499 are none). */
  readonly status: number;
  readonly body: Uint8Array;
}
