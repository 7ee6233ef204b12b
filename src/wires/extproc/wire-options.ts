/** The body modes that can be presumed (`BodySendMode`). */
export type DefaultBodyMode = "full-duplex" | "buffered" | "streamed" | "none";

/** How the picker speaks to the proxy; the defaults are the protocol's (epp-protocol 19, spec/decisions.md). */
export interface WireOptions {
  /** Header and metadata key of the destination. */
  readonly destinationKey: string;
  /** Metadata namespace of the destination; "" = the key stands at the top level. */
  readonly destinationNamespace: string;
  /** How endpoints after the first are offered: in the same list, in v0.3's key of their own, or not at all. */
  readonly fallbackMode: "list" | "legacy-key" | "none";
  /** `ip` = ports in a subset hint are ignored, as v1.5 does. */
  readonly subsetMatch: "exact" | "ip";
  /** Sends `x-llm-d-request-dropped-reason` with drops. */
  readonly emitDroppedReason: boolean;
  /** Tells the request id in the headers of a refusal. */
  readonly emitRequestId: boolean;
  /** False = a mutation names changed headers only. */
  readonly echoUnchangedHeaders: boolean;
  /** Removes control headers that a client sent. */
  readonly removeControlHeaders: boolean;
  /** Writes `append_action: OVERWRITE_IF_EXISTS_OR_ADD`, for proxies that take the enum literally. */
  readonly literalAppendAction: boolean;
  /** Which body mode holds where the proxy does not announce one. */
  readonly defaultBodyMode: DefaultBodyMode;
  /** The same for response bodies alone; absent = as `defaultBodyMode`. */
  readonly defaultResponseBodyMode?: DefaultBodyMode | undefined;
  /** Refuses modes other than FULL_DUPLEX_STREAMED instead of making the best of them. */
  readonly strictBodyMode: boolean;
  /** Ends the stream after the request phase where nothing is read from the response. */
  readonly closeEarly: boolean;
  /** Answers header-only requests to an empty pool with 500, as v1.5 does, instead of 503. */
  readonly legacyHeaderOnly500: boolean;
  /**
   * Milliseconds the proxy waits for one reply where it does wait (not in FULL_DUPLEX_STREAMED); when a decision takes
   * longer, more time is asked for once. 0 = never asked.
   */
  readonly messageTimeoutHint: number;
  /**
   * Milliseconds asked for then, at least 1: the proxy's `max_message_timeout`, above which it ignores the question.
   * Absent = ten times the hint.
   */
  readonly messageTimeoutMax?: number | undefined;
}

export const DEFAULT_WIRE_OPTIONS: WireOptions = {
  destinationKey: "x-gateway-destination-endpoint",
  destinationNamespace: "envoy.lb",
  fallbackMode: "list",
  subsetMatch: "exact",
  emitDroppedReason: true,
  emitRequestId: true,
  echoUnchangedHeaders: true,
  removeControlHeaders: true,
  literalAppendAction: false,
  defaultBodyMode: "full-duplex",
  strictBodyMode: false,
  closeEarly: false,
  legacyHeaderOnly500: false,
  messageTimeoutHint: 0,
};
