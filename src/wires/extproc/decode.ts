import { Reader, WIRE } from "../../base/grpc/protobuf.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import { HeaderNames, type Texts } from "./header-names.ts";
import type { ProcessingRequest, ProtocolConfig, RequestKind } from "./messages.ts";

// Tags are field number << 3 | wire type. A known field with another wire type counts as unknown. The decoder skips unknown
// fields at every level, because proxies may be newer than Sluice (envoy-data-plane 1.2.4, D-2).
const LEN_1 = 0x0a;
const LEN_2 = 0x12;
const LEN_3 = 0x1a;
const VARINT_1 = 0x08;
const VARINT_2 = 0x10;
const VARINT_3 = 0x18;
const FIRST_KIND = 0x12;
const LAST_KIND = 0x3a;
const PROTOCOL_CONFIG = 0x5a;
const OBSERVABILITY_MODE = 0x50;

/** The kinds by their field numbers, 2 to 7. */
const KINDS: readonly RequestKind[] = [
  "request_headers",
  "response_headers",
  "request_body",
  "response_body",
  "request_trailers",
  "response_trailers",
];

/** The largest header map, in bytes, that is turned into one string. */
const BLOCK_LIMIT = 4096;

/** The streams of one thread repeat the same names. */
const NAMES = new HeaderNames();

const NO_BODY = new Uint8Array(0);

/** The fields of a header, two bits each: its name and its raw value; fields of which no continuation gives that. */
const NAME_THEN_RAW = 4 * 1 + 3;
const OTHER_FIELDS = 1000;

type Draft = { -readonly [Key in keyof ProcessingRequest]: ProcessingRequest[Key] };

/**
 * Decodes one `ProcessingRequest`. The body stays a view of `message`; the decoder skips metadata and attributes. When several
 * members of the oneof are present, the last one counts.
 * @throws SluiceError PROTOBUF_MALFORMED
 */
export function decodeProcessingRequest(message: Uint8Array): ProcessingRequest {
  const request: Draft = {
    kind: "none",
    headers: undefined,
    plainFrom: 0,
    plainTo: 0,
    body: NO_BODY,
    endOfStream: false,
    observabilityMode: false,
    protocolConfig: undefined,
    message,
  };
  const reader = new Reader(message);
  let member = 0;
  let from = 0;
  let to = 0;
  while (reader.more) {
    const tag = reader.tag();
    if (tag >= FIRST_KIND && tag <= LAST_KIND && (tag & 7) === WIRE.bytes) {
      member = tag >> 3;
      to = reader.length();
      from = reader.position;
      to += from;
      reader.position = to;
    } else if (tag === PROTOCOL_CONFIG) {
      request.protocolConfig = readProtocolConfig(reader);
    } else if (tag === OBSERVABILITY_MODE) {
      request.observabilityMode = reader.bool();
    } else {
      reader.skip(tag);
    }
  }
  if (member !== 0) {
    reader.position = from;
    reader.end = to;
    request.kind = KINDS[member - 2]!;
    if (member === 4 || member === 5) readBody(reader, request);
    else readHeaders(reader, request, member < 4);
  }
  return request;
}

/** `HttpHeaders` and `HttpTrailers`: both hold the map in field 1, only the first has `end_of_stream` (3). */
function readHeaders(reader: Reader, request: Draft, hasEndOfStream: boolean): void {
  const headers = new HeaderList();
  while (reader.more) {
    const tag = reader.tag();
    if (tag === LEN_1) readHeaderMap(reader, headers, request);
    else if (tag === VARINT_3 && hasEndOfStream) request.endOfStream = reader.bool();
    else reader.skip(tag);
  }
  request.headers = headers;
}

function readHeaderMap(reader: Reader, headers: HeaderList, request: Draft): void {
  // A second map adds to the first.
  let isPlain = headers.length === 0;
  const outer = reader.enter();
  const from = reader.position;
  const texts = new HeaderTexts(reader);
  while (reader.more) {
    if (readPlain(reader, texts, headers)) {
      if (!texts.isLower) isPlain = false;
      continue;
    }
    const at = reader.position;
    const tag = reader.tag();
    if (tag === LEN_1) {
      // A tag may be longer than it must be.
      if (!readHeader(reader, texts, headers) || reader.bytes[at] !== LEN_1) isPlain = false;
    } else {
      reader.skip(tag);
      isPlain = false;
    }
  }
  request.plainFrom = isPlain ? from : 0;
  request.plainTo = isPlain ? reader.end : 0;
  reader.end = outer;
}

/**
 * The next entry of a map, if it is as a reply would write it, but for capitals, and as short as nearly all are.
 * @returns false = nothing was read
 */
function readPlain(reader: Reader, texts: HeaderTexts, headers: HeaderList): boolean {
  const { bytes, position: at, end } = reader;
  if (at + 6 > end) return false;
  const length = bytes[at + 1]!;
  const nameLength = bytes[at + 3]!;
  const behind = at + 2 + length;
  const name = at + 4;
  const nameEnd = name + nameLength;
  if (bytes[at] !== LEN_1 || bytes[at + 2] !== LEN_1 || length >= 0x80 || nameLength === 0) return false;
  if (behind > end || nameEnd + 2 >= behind || bytes[nameEnd] !== LEN_3) return false;
  if (bytes[nameEnd + 1] !== behind - nameEnd - 2) return false;
  headers.append(texts.nameAt(name, nameEnd), texts.at(nameEnd + 2, behind));
  reader.position = behind;
  return true;
}

/**
 * Read rule: `raw_value` (3) unless it is empty, else `value` (2) (epp-protocol 1.1).
 * @returns whether the header is as a reply would write it
 */
function readHeader(reader: Reader, texts: HeaderTexts, headers: HeaderList): boolean {
  const outer = reader.enter();
  let fields = 0;
  let key = "";
  let from = 0;
  let to = 0;
  let rawFrom = 0;
  let rawTo = 0;
  while (reader.more) {
    const tag = reader.tag();
    if (tag === LEN_1 || tag === LEN_2 || tag === LEN_3) {
      const length = reader.length();
      const start = reader.position;
      const behind = start + length;
      reader.position = behind;
      fields = fields * 4 + (tag >> 3);
      if (tag === LEN_1) {
        key = texts.nameAt(start, behind);
      } else if (tag === LEN_2) {
        from = start;
        to = behind;
      } else {
        rawFrom = start;
        rawTo = behind;
      }
    } else {
      reader.skip(tag);
      fields = OTHER_FIELDS;
    }
  }
  reader.end = outer;
  headers.append(key, rawTo > rawFrom ? texts.at(rawFrom, rawTo) : texts.at(from, to));
  return fields === NAME_THEN_RAW && rawTo > rawFrom && key !== "" && texts.isLower;
}

/**
 * The texts of a header map, one character per byte. A map of usual size becomes one string, and keys and values are substrings
 * of it. That takes 0.4 us for 14 headers, against 1.6 us when each is made from the bytes. A substring may keep the whole
 * string alive. So for a large map, each text is made from the bytes.
 */
class HeaderTexts implements Texts {
  readonly #bytes: Buffer;
  readonly #base: number;
  readonly #block: string | undefined;

  /** @param reader limited to the map */
  constructor(reader: Reader) {
    this.#bytes = reader.bytes;
    this.#base = reader.position;
    this.#block =
      reader.end - this.#base <= BLOCK_LIMIT ? this.#bytes.toString("latin1", this.#base, reader.end) : undefined;
  }

  /** Whether the last name is in lower case as received. */
  get isLower(): boolean {
    return NAMES.isLower;
  }

  /** The text in bytes [from, to) of the message, as the name of a header. */
  nameAt(from: number, to: number): string {
    return NAMES.at(this.#bytes, from, to, this);
  }

  /** The text in bytes [from, to) of the message. */
  at(from: number, to: number): string {
    if (from === to) return "";
    if (this.#block === undefined) return this.#bytes.toString("latin1", from, to);
    return this.#block.substring(from - this.#base, to - this.#base);
  }
}

/** `HttpBody`: `body` (1), `end_of_stream` (2). */
function readBody(reader: Reader, request: Draft): void {
  while (reader.more) {
    const tag = reader.tag();
    if (tag === LEN_1) request.body = reader.view();
    else if (tag === VARINT_2) request.endOfStream = reader.bool();
    else reader.skip(tag);
  }
}

function readProtocolConfig(reader: Reader): ProtocolConfig {
  const outer = reader.enter();
  const config = { requestBodyMode: 0, responseBodyMode: 0, sendBodyWithoutWaitingForHeaderResponse: false };
  while (reader.more) {
    const tag = reader.tag();
    if (tag === VARINT_1) config.requestBodyMode = reader.varint();
    else if (tag === VARINT_2) config.responseBodyMode = reader.varint();
    else if (tag === VARINT_3) config.sendBodyWithoutWaitingForHeaderResponse = reader.bool();
    else reader.skip(tag);
  }
  reader.end = outer;
  return config;
}

const RESPONSE_BODY = 0x2a;
const METADATA_CONTEXT = 0x42;
const ATTRIBUTES = 0x4a;

/**
 * The place of the body in a `ProcessingRequest` that is a chunk of a response, with or without metadata and attributes behind it,
 * as nearly all messages of a stream are: read without an object for it. Nobody asks for the metadata of a chunk.
 */
export class PassingChunk {
  /** The body: bytes [from, to). */
  from = 0;
  to = 0;
  /** `end_of_stream`. */
  end = false;
  #at = 0;

  /**
   * @param bytes have the message at [start, behind)
   * @returns false for any other message, and for every unusual encoding
   */
  read(bytes: Uint8Array, start: number, behind: number): boolean {
    if (behind - start < 2 || bytes[start] !== RESPONSE_BODY) return false;
    this.#at = start + 1;
    const length = this.#length(bytes, behind);
    const end = this.#at + length;
    if (length < 0 || end > behind) return false;
    this.from = this.#at;
    this.to = this.#at;
    if (end - this.#at >= 2 && bytes[this.#at] === LEN_1) {
      this.#at++;
      const size = this.#length(bytes, end);
      if (size < 0 || size > end - this.#at) return false;
      this.from = this.#at;
      this.to = this.#at + size;
    }
    const rest = end - this.to;
    this.end = rest === 2 && bytes[this.to] === VARINT_2 && bytes[this.to + 1] === 1;
    return (rest === 0 || this.end) && this.#isContext(bytes, end, behind);
  }

  /** Whether [from, behind) has whole fields with metadata or attributes, and nothing else. */
  #isContext(bytes: Uint8Array, from: number, behind: number): boolean {
    this.#at = from;
    while (this.#at < behind) {
      const tag = bytes[this.#at++]!;
      if ((tag !== METADATA_CONTEXT && tag !== ATTRIBUTES) || this.#at === behind) return false;
      const length = this.#length(bytes, behind);
      if (length < 0 || length > behind - this.#at) return false;
      this.#at += length;
    }
    return true;
  }

  /** A varint of one or two bytes, of which the first is there; -1 = another one. */
  #length(bytes: Uint8Array, behind: number): number {
    const first = bytes[this.#at++]!;
    if (first < 0x80) return first;
    if (this.#at >= behind) return -1;
    const second = bytes[this.#at++]!;
    return second < 0x80 ? (first & 0x7f) | (second << 7) : -1;
  }
}
