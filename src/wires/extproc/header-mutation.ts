import { CONTROL_HEADERS, HEADER, HeaderList, HOP_BY_HOP_HEADERS } from "../../base/inference/headers.ts";
import type { EchoedHeaders, HeaderChanges, ProcessingRequest } from "./messages.ts";
import type { WireOptions } from "./wire-options.ts";

/** The header changes of a reply: entries to set in order, and names to remove. */
export interface HeaderMutation extends HeaderChanges {
  readonly set: HeaderList;
  readonly remove: readonly string[];
}

/** Where the headers came from: a reply repeats their bytes, if it can. */
export type Received = Pick<ProcessingRequest, "message" | "plainFrom" | "plainTo">;

/** The changes that plugins ask for. */
type Changes = Pick<RequestMutation, "added" | "removed">;

/** Envoy refuses a mutation with more entries than its connection manager allows headers. */
const MAX_ENTRIES = 100;

const NOTHING_REMOVED: readonly string[] = [];
const CONTENT_LENGTH_REMOVED: readonly string[] = ["content-length"];

/** The legal characters of a header name (RFC 9110 5.6.2), lower case. */
const NAME = /^:?[!#$%&'*+.^_`|~0-9a-z-]+$/;

export interface RequestMutation {
  readonly destination: string;
  /** Bytes of the forwarded body; 0 writes no `Content-Length`. */
  readonly contentLength: number;
  /** The generated request id, when the client sent none. */
  readonly requestId: string | undefined;
  /** Headers that plugins set. They replace received headers, but not the destination. */
  readonly added: HeaderList | undefined;
  /** Names of received headers, lower case, that plugins remove; at most 64. */
  readonly removed?: readonly string[] | undefined;
}

/**
 * The mutation of a routed request: destination, length, request id, headers that plugins set, then every header that may be
 * echoed. It removes control headers that a client sent. Source: epp-protocol 3.4, E-20 to E-27, D-26.
 * @param echoes whether the mutation repeats unchanged headers: the value of the option, but false for the mode BUFFERED
 *   (epp-protocol 3.9)
 * @param received the message with the headers; absent = an echo is in `set`
 */
export function requestMutation(
  headers: HeaderList,
  values: RequestMutation,
  options: WireOptions,
  echoes: boolean = options.echoUnchangedHeaders,
  received?: Received | undefined,
): HeaderMutation {
  const { added, requestId } = values;
  const destinationKey = options.destinationKey.toLowerCase();
  const remove = removals(headers, values, options, destinationKey);
  const limit = MAX_ENTRIES - remove.length;
  const set = new HeaderList();
  append(set, options.destinationKey, values.destination);
  if (values.contentLength > 0) append(set, "Content-Length", String(values.contentLength));
  const ownRequestId = requestId !== undefined && added?.get(HEADER.requestId) === undefined;
  if (ownRequestId) append(set, HEADER.requestId, requestId);
  if (added !== undefined) addAll(added, set, limit, destinationKey, ":path");
  const echoed = echoes ? echo(headers, set, limit, values, destinationKey, ownRequestId, received) : undefined;
  return { set, echoed, remove, literalAppendAction: options.literalAppendAction };
}

/**
 * The mutation of response headers: the debug marker, then the headers that plugins set, then the echo. Source: epp-protocol
 * 4.2, E-60, E-61.
 * @param lengthChanges the body may change later, so the declared length may be wrong
 * @param received as of `requestMutation`
 */
export function responseMutation(
  headers: HeaderList,
  added: HeaderList | undefined,
  lengthChanges: boolean,
  options: WireOptions,
  received?: Received | undefined,
): HeaderMutation {
  const remove = lengthChanges ? CONTENT_LENGTH_REMOVED : NOTHING_REMOVED;
  const limit = MAX_ENTRIES - remove.length;
  const set = new HeaderList();
  append(set, HEADER.debug, "true");
  if (added !== undefined) addAll(added, set, limit, HEADER.debug, ":status");
  const echoed = options.echoUnchangedHeaders
    ? echo(headers, set, limit, { added }, HEADER.debug, false, received)
    : undefined;
  return { set, echoed, remove, literalAppendAction: options.literalAppendAction };
}

/**
 * The control headers of a request, and the headers that plugins remove. The destination stays: the picker overwrites it, and
 * an ORIGINAL_DST cluster reads it later.
 */
function removals(
  headers: HeaderList,
  { added, removed }: Changes,
  { removeControlHeaders }: WireOptions,
  destinationKey: string,
): readonly string[] {
  if (!removeControlHeaders && removed === undefined) return NOTHING_REMOVED;
  const remove: string[] = [];
  for (const key of headers.keys) {
    const unwanted =
      (removeControlHeaders && CONTROL_HEADERS.has(key)) || (removed?.includes(key) === true && isRemovable(key));
    if (unwanted && key !== destinationKey && !remove.includes(key) && !added?.keys.includes(key)) remove.push(key);
  }
  return remove;
}

/** False for headers that frame the message, belong to the connection or to Envoy, and for the request id. */
function isRemovable(key: string): boolean {
  if (key.charCodeAt(0) === 0x3a || key.startsWith("x-envoy-") || HOP_BY_HOP_HEADERS.has(key)) return false;
  return key !== "host" && key !== "content-length" && key !== HEADER.requestId;
}

/**
 * Adds the headers that plugins set, each name once with its last value. Leaves out headers that Envoy refuses or that break
 * the message: an illegal name or value, a length, a header of the connection, a pseudo header other than `pseudo`.
 */
function addAll(added: HeaderList, set: HeaderList, limit: number, reserved: string, pseudo: string): void {
  const { keys, values } = added;
  for (let i = 0; i < keys.length && set.length < limit; i++) {
    const key = keys[i]!;
    const value = values[i]!;
    if (key === reserved || key === "content-length" || HOP_BY_HOP_HEADERS.has(key)) continue;
    if (!NAME.test(key) || (key.startsWith(":") && key !== pseudo) || !isLegalValue(value)) continue;
    if (keys.indexOf(key, i + 1) >= 0) continue;
    append(set, key, value);
  }
}

/** One byte per character, and no byte that would end the line. */
function isLegalValue(value: string): boolean {
  for (let i = 0; i < value.length; i++) {
    const code = value.charCodeAt(i);
    if (code > 0xff || code === 0 || code === 0x0a || code === 0x0d) return false;
  }
  return true;
}

/** The ranges of the last echo. Messages are encoded one after the other, each before the next mutation is made. */
const RANGES = new Int32Array(2 * MAX_ENTRIES);

/**
 * The headers that may be echoed, up to `limit` entries in all. An echo changes nothing, so it comes last and gives way.
 * @returns their bytes as received; undefined = they are in `set`, or there are none
 */
function echo(
  headers: HeaderList,
  set: HeaderList,
  limit: number,
  { added, removed }: Changes,
  reserved: string,
  ownRequestId: boolean,
  received: Received | undefined,
): EchoedHeaders | undefined {
  const { keys, values } = headers;
  const { message, plainFrom, plainTo } = received ?? NOT_RECEIVED;
  let count = 0;
  let from = plainFrom;
  let to = plainFrom;
  for (let i = 0; i < keys.length && set.length + count < limit; i++) {
    if (plainTo > 0) {
      from = to;
      to = endOfEntry(message, from);
    }
    const key = keys[i]!;
    if (!mayEcho(key) || key === reserved) continue;
    if (key === "te" && values[i] !== "trailers") continue;
    if (ownRequestId && key === HEADER.requestId) continue;
    if (removed?.includes(key) === true && isRemovable(key)) continue;
    // The echo of one value of a repeated header would erase the other values.
    if (headers.isRepeated(key) || added?.keys.includes(key)) continue;
    if (plainTo > 0) {
      RANGES[2 * count] = from;
      RANGES[2 * count++ + 1] = to;
    } else append(set, key, values[i]!);
  }
  return count === 0 ? undefined : { bytes: message, ranges: RANGES, count };
}

const NOT_RECEIVED: Received = { message: new Uint8Array(0), plainFrom: 0, plainTo: 0 };

/** The end of an entry of a well-formed header map. @param from its tag, of one byte */
function endOfEntry(message: Uint8Array, from: number): number {
  let at = from + 1;
  let length = 0;
  for (let shift = 0; ; shift += 7) {
    const byte = message[at++]!;
    length |= (byte & 0x7f) << shift;
    if (byte < 0x80) return at + length;
  }
}

/** The most names whose answer is kept, and the longest of them. */
const MAX_KEPT = 1024;
const LONGEST_KEPT = 64;
const ECHOES = new Map<string, boolean>();

/** Whether a mutation may repeat a header of this name; `te` only with one value. Requests have the same names over and over. */
function mayEcho(key: string): boolean {
  const known = ECHOES.get(key);
  if (known !== undefined) return known;
  const isPseudo = key.charCodeAt(0) === 0x3a && key !== ":path";
  // Envoy rejects these headers in a mutation, even unchanged, and counts every attempt as a rejected mutation.
  const isEnvoys = key.startsWith("x-envoy-") || key === "host";
  const isOwn = CONTROL_HEADERS.has(key) || key === "content-length" || (HOP_BY_HOP_HEADERS.has(key) && key !== "te");
  const may = !isPseudo && !isEnvoys && !isOwn;
  if (ECHOES.size < MAX_KEPT && key.length <= LONGEST_KEPT) ECHOES.set(key, may);
  return may;
}

/** Appends without lower-casing: the reference writes `Content-Length` with capitals, and tests compare it (E-20). */
function append(list: HeaderList, key: string, value: string): void {
  list.keys.push(key);
  list.values.push(value);
}
