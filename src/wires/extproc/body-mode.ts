import { Rejection } from "../../base/inference/outcomes.ts";
import { BODY_MODE, type ProtocolConfig } from "./messages.ts";
import type { DefaultBodyMode, WireOptions } from "./wire-options.ts";

/** The body modes in force on a stream, as numbers of `BODY_MODE`. */
export interface BodyModes {
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
 * What the proxy announced in the first message of the stream, else what the options presume (epp-protocol 2, data-plane
 * 1.4(2)).
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
