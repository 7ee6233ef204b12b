import { decodeHuffman } from "./huffman.ts";
import { ERROR, MAX_HEADER_LIST } from "./protocol.ts";

/** A header field; names and values hold one byte per character. Tables share fields between blocks: never changed. */
export interface HeaderField {
  readonly name: string;
  readonly value: string;
  /** Length of both plus 32 (RFC 7541, section 4.1). */
  readonly size: number;
  /**
   * Whether HTTP/2 allows it in a request (RFC 9113, section 8.2). Judged once, because the same fields return in many blocks.
   */
  readonly legal: boolean;
}

/** Bytes that RFC 7541 section 4.1 adds to the length of name and value. */
const FIELD_OVERHEAD = 32;

/** Fields that concern a connection and have no place in HTTP/2 (RFC 9113, section 8.2.2). */
const FORBIDDEN = new Set(["connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade"]);

/** A token without capitals, behind the colon of a pseudo field (RFC 9113, section 8.2.1). */
const NAME = /^:?[!#$%&'*+\-.^_`|~0-9a-z]+$/;

const ILL_VALUE = /[\0\r\n]/;

/** Makes a field from its texts. */
function headerField(name: string, value: string): HeaderField {
  const legal =
    NAME.test(name) && !FORBIDDEN.has(name) && !ILL_VALUE.test(value) && (name !== "te" || value === "trailers");
  return { name, value, size: name.length + value.length + FIELD_OVERHEAD, legal };
}

/** Names and values of the static table, index 1 first (RFC 7541, appendix A). */
const STATIC_TABLE: readonly (readonly [name: string, value: string])[] = [
  [":authority", ""],
  [":method", "GET"],
  [":method", "POST"],
  [":path", "/"],
  [":path", "/index.html"],
  [":scheme", "http"],
  [":scheme", "https"],
  [":status", "200"],
  [":status", "204"],
  [":status", "206"],
  [":status", "304"],
  [":status", "400"],
  [":status", "404"],
  [":status", "500"],
  ["accept-charset", ""],
  ["accept-encoding", "gzip, deflate"],
  ["accept-language", ""],
  ["accept-ranges", ""],
  ["accept", ""],
  ["access-control-allow-origin", ""],
  ["age", ""],
  ["allow", ""],
  ["authorization", ""],
  ["cache-control", ""],
  ["content-disposition", ""],
  ["content-encoding", ""],
  ["content-language", ""],
  ["content-length", ""],
  ["content-location", ""],
  ["content-range", ""],
  ["content-type", ""],
  ["cookie", ""],
  ["date", ""],
  ["etag", ""],
  ["expect", ""],
  ["expires", ""],
  ["from", ""],
  ["host", ""],
  ["if-match", ""],
  ["if-modified-since", ""],
  ["if-none-match", ""],
  ["if-range", ""],
  ["if-unmodified-since", ""],
  ["last-modified", ""],
  ["link", ""],
  ["location", ""],
  ["max-forwards", ""],
  ["proxy-authenticate", ""],
  ["proxy-authorization", ""],
  ["range", ""],
  ["referer", ""],
  ["refresh", ""],
  ["retry-after", ""],
  ["server", ""],
  ["set-cookie", ""],
  ["strict-transport-security", ""],
  ["transfer-encoding", ""],
  ["user-agent", ""],
  ["vary", ""],
  ["via", ""],
  ["www-authenticate", ""],
];

/** The size of the dynamic table: the default of HTTP/2, and the most that this decoder offers. */
const MAX_TABLE_SIZE = 4096;

/** The size of the smallest entry bounds the number of entries: a ring of this many is always enough. */
const RING = MAX_TABLE_SIZE / FIELD_OVERHEAD;

/**
 * Most fields of one block: as many of the smallest size as fit a list of the permitted size. The size of a block says nothing,
 * because a reference to a table takes one byte.
 */
const MAX_FIELDS = MAX_HEADER_LIST / FIELD_OVERHEAD;

/** Size updates at the beginning of one block (RFC 7541, section 4.2). */
const MAX_UPDATES = 2;

/** Takes the fields of a header block in order. */
export interface HeaderSink {
  field(field: HeaderField): void;
}

const STATIC: readonly HeaderField[] = STATIC_TABLE.map(([name, value]) => headerField(name, value));

/** Long enough for any string of a block of the permitted size. Shared, because decoding is synchronous. */
const SCRATCH = Buffer.allocUnsafeSlow(2 * MAX_HEADER_LIST);

/**
 * Decodes the header blocks of one connection (RFC 7541). The dynamic table is a ring of at most 128 fields. A field with the
 * same bytes as in the previous block (`:path` is sent as a literal each time) is not decoded again.
 */
export class HpackDecoder {
  readonly #ring: (HeaderField | undefined)[] = new Array(RING).fill(undefined);
  /** Position of the newest entry, and the number of entries. */
  #newest = 0;
  #count = 0;
  #size = 0;
  #capacity = MAX_TABLE_SIZE;

  /** The last literal that was not indexed and took its name from the static table: its bytes and its field. */
  #lastBytes: Buffer = Buffer.alloc(0);
  #lastField: HeaderField | undefined;

  // The block that is being decoded.
  #bytes: Uint8Array = SCRATCH;
  #at = 0;
  #end = 0;
  #failed = false;

  /** Bytes that the dynamic table occupies as RFC 7541 counts them, at most 4,096. */
  get tableSize(): number {
    return this.#size;
  }

  /**
   * Decodes the block `bytes[from, to)` of at most 64 KiB.
   * @returns `ERROR.none`, or a connection error: COMPRESSION_ERROR for a malformed block, ENHANCE_YOUR_CALM for one with more
   * fields than any request has
   */
  decode(bytes: Uint8Array, from: number, to: number, sink: HeaderSink): number {
    if (to - from > MAX_HEADER_LIST) return ERROR.compression;
    this.#bytes = bytes;
    this.#at = from;
    this.#end = to;
    this.#failed = false;
    let fields = 0;
    let updates = 0;
    while (this.#at < this.#end) {
      const first = bytes[this.#at]!;
      let field: HeaderField | undefined;
      if (first >= 0x80) {
        field = this.#entry(this.#integer(0x7f));
      } else if (first >= 0x40) {
        field = this.#literal(0x3f);
        if (field !== undefined) this.#insert(field);
      } else if (first >= 0x20) {
        // Size updates are at the beginning of a block.
        if (fields > 0 || ++updates > MAX_UPDATES || !this.#resize(this.#integer(0x1f))) return ERROR.compression;
        continue;
      } else {
        field = this.#repeated() ?? this.#unindexed();
      }
      if (field === undefined || this.#failed) return ERROR.compression;
      if (++fields > MAX_FIELDS) return ERROR.enhanceYourCalm;
      sink.field(field);
    }
    this.#bytes = SCRATCH;
    return ERROR.none;
  }

  #entry(index: number): HeaderField | undefined {
    if (index <= STATIC.length) return STATIC[index - 1];
    const nth = index - STATIC.length - 1;
    return nth < this.#count ? this.#ring[(this.#newest - nth + RING) % RING] : undefined;
  }

  /** The next literal, when it has the same bytes as the last one of its kind. */
  #repeated(): HeaderField | undefined {
    const last = this.#lastBytes;
    const at = this.#at;
    if (last.length === 0 || this.#end - at < last.length) return undefined;
    const bytes = this.#bytes;
    for (let i = 0; i < last.length; i++) {
      if (bytes[at + i] !== last[i]) return undefined;
    }
    this.#at = at + last.length;
    return this.#lastField;
  }

  #unindexed(): HeaderField | undefined {
    const from = this.#at;
    const field = this.#literal(0x0f);
    // With a name from the dynamic table the same bytes may mean another field next time.
    const index = this.#bytes[from]! & 0x0f;
    if (field !== undefined && index > 0 && index < 0x0f && this.#at - from <= 256) {
      this.#lastBytes = Buffer.from(this.#bytes.subarray(from, this.#at));
      this.#lastField = field;
    }
    return field;
  }

  #literal(mask: number): HeaderField | undefined {
    const index = this.#integer(mask);
    const name = index === 0 ? this.#string() : this.#entry(index)?.name;
    if (name === undefined || this.#failed) return undefined;
    const value = this.#string();
    return value === undefined ? undefined : headerField(name, value);
  }

  /** An integer with a prefix of as many bits as `mask` has. A value near 2^28 has no use and fails. */
  #integer(mask: number): number {
    const bytes = this.#bytes;
    let value = bytes[this.#at++]! & mask;
    if (value < mask) return value;
    for (let shift = 0; shift <= 21; shift += 7) {
      if (this.#at >= this.#end) break;
      const byte = bytes[this.#at++]!;
      value += (byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    this.#failed = true;
    return 0;
  }

  #string(): string | undefined {
    if (this.#at >= this.#end) return undefined;
    const huffman = this.#bytes[this.#at]! >= 0x80;
    const length = this.#integer(0x7f);
    const from = this.#at;
    if (this.#failed || length > this.#end - from) return undefined;
    this.#at = from + length;
    const bytes = this.#bytes as Buffer;
    if (!huffman) return bytes.toString("latin1", from, from + length);
    const decoded = decodeHuffman(bytes, from, from + length, SCRATCH);
    return decoded < 0 ? undefined : SCRATCH.toString("latin1", 0, decoded);
  }

  #insert(field: HeaderField): void {
    this.#evict(this.#capacity - field.size);
    if (field.size > this.#capacity) return;
    this.#newest = (this.#newest + 1) % RING;
    this.#ring[this.#newest] = field;
    this.#count++;
    this.#size += field.size;
  }

  #resize(capacity: number): boolean {
    if (this.#failed || capacity > MAX_TABLE_SIZE) return false;
    this.#capacity = capacity;
    this.#evict(capacity);
    return true;
  }

  /** Drops the oldest entries until the table occupies at most `size`. */
  #evict(size: number): void {
    while (this.#count > 0 && this.#size > size) {
      const oldest = (this.#newest - this.#count + 1 + RING) % RING;
      this.#size -= this.#ring[oldest]!.size;
      this.#ring[oldest] = undefined;
      this.#count--;
    }
  }
}
