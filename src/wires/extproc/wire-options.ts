import { Rejection } from "../../base/inference/outcomes.ts";
import { BODY_MODE, type ProtocolConfig } from "./messages.ts";

/** The body modes that can be presumed (`BodySendMode`). */
type DefaultBodyMode = "full-duplex" | "buffered" | "streamed" | "none";

/** How the picker speaks to the proxy; the defaults are the protocol's (epp-protocol 19, docs/spec/decisions.md). */
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

/** The body modes in force on a stream, as numbers of `BODY_MODE`. */
interface BodyModes {
  readonly request: number;
  readonly response: number;
}

const FULL_DUPLEX: BodyModes = { request: BODY_MODE.fullDuplexStreamed, response: BODY_MODE.fullDuplexStreamed };

const DEFAULTS: Record<DefaultBodyMode, number> = {
  "full-duplex": BODY_MODE.fullDuplexStreamed,
  buffered: BODY_MODE.buffered,
  streamed: BODY_MODE.streamed,
  none: BODY_MODE.none,
};

const NAMES: Record<number, string> = { 0: "NONE", 1: "STREAMED", 2: "BUFFERED", 3: "BUFFERED_PARTIAL", 5: "GRPC" };

/**
 * What the proxy announced in the first message of the stream, else what the options presume (epp-protocol 2,
 * envoy-data-plane 1.4(2)).
 * @returns a rejection for modes that strict options forbid, and for those whose dialect is not known: an answer in the
 * wrong one is a 500 for the client, or a damaged body
 */
export function bodyModesOf(config: ProtocolConfig | undefined, options: WireOptions): BodyModes | Rejection {
  const modes = config === undefined ? presumedModes(options) : announcedModes(config);
  if (modes === FULL_DUPLEX) return modes;
  return refusalOf("request", modes.request, options) ?? refusalOf("response", modes.response, options) ?? modes;
}

/** Whether one message holds the whole body. */
export function isBuffered(mode: number): boolean {
  return mode === BODY_MODE.buffered || mode === BODY_MODE.bufferedPartial;
}

function announcedModes({ requestBodyMode, responseBodyMode }: ProtocolConfig): BodyModes {
  if (requestBodyMode === FULL_DUPLEX.request && responseBodyMode === FULL_DUPLEX.response) return FULL_DUPLEX;
  return { request: requestBodyMode, response: responseBodyMode };
}

function presumedModes({ defaultBodyMode, defaultResponseBodyMode = defaultBodyMode }: WireOptions): BodyModes {
  if (defaultBodyMode === "full-duplex" && defaultResponseBodyMode === "full-duplex") return FULL_DUPLEX;
  return { request: DEFAULTS[defaultBodyMode], response: DEFAULTS[defaultResponseBodyMode] };
}

function refusalOf(direction: string, mode: number, { strictBodyMode }: WireOptions): Rejection | undefined {
  if (mode === BODY_MODE.fullDuplexStreamed) return undefined;
  const known = mode <= BODY_MODE.fullDuplexStreamed;
  if (known && !strictBodyMode) return undefined;
  const name = NAMES[mode] ?? String(mode);
  return new Rejection(
    "not_supported",
    `${direction} body mode ${name} is not ${known ? "allowed here" : "supported"}; configure FULL_DUPLEX_STREAMED`,
  );
}
