import { Rejection } from "../../base/inference/outcomes.ts";
import { BODY_MODE, type ProtocolConfig } from "./messages.ts";

/** The body modes that an operator can presume (`BodySendMode`). */
type DefaultBodyMode = "full-duplex" | "buffered" | "streamed" | "none";

/** How the picker speaks to the proxy; the defaults are the protocol's (epp-protocol 19, docs/spec/decisions.md). */
export interface WireOptions {
  /** Header and metadata key of the destination. */
  readonly destinationKey: string;
  /** Metadata namespace of the destination; "" = the key is at the top level. */
  readonly destinationNamespace: string;
  /** How the picker offers endpoints after the first: in the same list, in v0.3's separate key, or not at all. */
  readonly fallbackMode: "list" | "legacy-key" | "none";
  /** `ip` = the picker ignores ports in a subset hint, as v1.5 does. */
  readonly subsetMatch: "exact" | "ip";
  /** Sends `x-llm-d-request-dropped-reason` with refusals. */
  readonly emitDroppedReason: boolean;
  /** Sends the request id in the headers of a refusal. */
  readonly emitRequestId: boolean;
  /** False = a mutation names changed headers only. */
  readonly echoUnchangedHeaders: boolean;
  /** Removes control headers that a client sent. */
  readonly removeControlHeaders: boolean;
  /** Writes `append_action: OVERWRITE_IF_EXISTS_OR_ADD`, for proxies that take the enum literally. */
  readonly literalAppendAction: boolean;
  /** The body mode when the proxy does not announce one. */
  readonly defaultBodyMode: DefaultBodyMode;
  /** The mode of response bodies alone when the proxy does not announce one; absent = `defaultBodyMode`. */
  readonly defaultResponseBodyMode?: DefaultBodyMode | undefined;
  /** Refuses modes other than FULL_DUPLEX_STREAMED. By default the picker works with them as far as they allow. */
  readonly strictBodyMode: boolean;
  /** Ends the stream after the request phase when no plugin reads the response. */
  readonly closeEarly: boolean;
  /** Answers header-only requests to an empty pool with 500, as v1.5 does, instead of 503. */
  readonly legacyHeaderOnly500: boolean;
  /**
   * Milliseconds that the proxy waits for one reply; FULL_DUPLEX_STREAMED has no such limit. When a decision takes half as
   * long, the picker asks once for more time. 0 = it never asks.
   */
  readonly messageTimeoutHint: number;
  /**
   * Milliseconds that the picker asks for, at least 1: the proxy's `max_message_timeout`. The proxy ignores a higher number.
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
 * The modes that the proxy announced in the first message of the stream, else the modes of the options (epp-protocol 2,
 * envoy-data-plane 1.4(2)).
 * @returns a rejection for modes that strict options forbid, and for unknown modes: a reply in the wrong form gives the client
 *   a 500 or a damaged body
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
