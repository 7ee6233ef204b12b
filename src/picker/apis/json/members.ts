import type { ByteRange } from "../../../base/inference/request.ts";
import { decodeString } from "./ranges.ts";
import type { JsonScanner } from "./scanner.ts";

/** The kind of a member's value; the first byte of the value shows it. */
export type JsonKind = "string" | "number" | "object" | "array" | "true" | "false" | "null";

/** The name in Go's decoder for each kind of document that should have been an object. */
const GO_KIND: Readonly<Record<JsonKind, string>> = {
  string: "string",
  number: "number",
  object: "object",
  array: "array",
  true: "bool",
  false: "bool",
  null: "null",
};

/** Returns the kind of a value from its first byte, in valid JSON. */
export function kindOf(byte: number): JsonKind {
  switch (byte) {
    case 0x22:
      return "string";
    case 0x7b:
      return "object";
    case 0x5b:
      return "array";
    case 0x74:
      return "true";
    case 0x66:
      return "false";
    case 0x6e:
      return "null";
    default:
      return "number";
  }
}

/**
 * The places of the wanted members of a JSON object. A parser has one table, and each `read` fills it again: it holds only
 * numbers, never a body. Of duplicate members the last one counts, as in other decoders.
 */
export class JsonMembers<Name extends string> {
  readonly #names: readonly Name[];
  readonly #keys: readonly Uint8Array[];
  readonly #longestName: number;
  /** Per name; a start of -1 means absent. */
  readonly #starts: Int32Array;
  readonly #ends: Int32Array;
  readonly #kinds: (JsonKind | undefined)[];
  /** Per name: the bytes that escapes add to its value. */
  readonly #escapes: Int32Array;

  /** @param names the wanted members; only a few, because each key is compared with each of them */
  constructor(names: readonly Name[]) {
    this.#names = names;
    this.#keys = names.map((name) => new Uint8Array(Buffer.from(name)));
    this.#longestName = Math.max(0, ...names.map((name) => name.length));
    this.#starts = new Int32Array(names.length);
    this.#ends = new Int32Array(names.length);
    this.#kinds = names.map(() => undefined);
    this.#escapes = new Int32Array(names.length);
  }

  /**
   * Checks the complete document and keeps the places of the wanted members of its top level. A document `null` counts as an
   * object without members, as in Go.
   *
   * @returns undefined, or the error in the words of Go's decoder (epp-protocol 9.3)
   */
  read(scanner: JsonScanner): string | undefined {
    const starts = this.#starts;
    const kinds = this.#kinds;
    for (let n = 0; n < starts.length; n++) {
      starts[n] = -1;
      kinds[n] = undefined;
    }
    const bytes = scanner.bytes;
    const start = scanner.skipSpace(0);
    if (start < bytes.length && bytes[start] === 0x7b) {
      const end = this.#readObject(scanner, start);
      return end >= 0 && scanner.isEnd(end) ? undefined : scanner.error;
    }
    const end = scanner.skipValue(start);
    if (end < 0 || !scanner.isEnd(end)) return scanner.error;
    const kind = kindOf(bytes[start]!);
    if (kind === "null") return undefined;
    return `json: cannot unmarshal ${GO_KIND[kind]} into Go value of type map[string]interface {}`;
  }

  /** Undefined when the member is absent. */
  kind(name: Name): JsonKind | undefined {
    return this.#kinds[this.#names.indexOf(name)];
  }

  /** Whether the member is present and not null. */
  has(name: Name): boolean {
    const kind = this.kind(name);
    return kind !== undefined && kind !== "null";
  }

  /** Returns the range of a present member's value, with quotes and brackets. */
  range(name: Name): ByteRange {
    const index = this.#names.indexOf(name);
    return { start: this.#starts[index]!, end: this.#ends[index]! };
  }

  /**
   * Returns the bytes that escapes add to the members in which a range of the prompts begins. The whole member counts, with the
   * keys of objects.
   */
  escapeBytesOf(prompts: readonly (readonly ByteRange[])[]): number {
    let bytes = 0;
    for (let n = 0; n < this.#names.length; n++) {
      const start = this.#starts[n]!;
      const end = this.#ends[n]!;
      if (start >= 0 && this.#escapes[n]! > 0 && beginsWithin(prompts, start, end)) bytes += this.#escapes[n]!;
    }
    return bytes;
  }

  /** @returns the offset after the object, or -1 */
  #readObject(scanner: JsonScanner, start: number): number {
    const bytes = scanner.bytes;
    let at = scanner.skipSpace(start + 1);
    if (at < bytes.length && bytes[at] === 0x7d) return at + 1;
    for (;;) {
      const key = at;
      if (key >= bytes.length || bytes[key] !== 0x22) return scanner.skipKey(key);
      const keyEnd = scanner.skipString(key + 1);
      if (keyEnd < 0) return -1;
      const index = scanner.escaped ? this.#indexOfEscaped(bytes, key, keyEnd) : this.#indexOf(bytes, key, keyEnd);
      const value = scanner.skipColon(keyEnd);
      if (value < 0) return -1;
      const escapesBefore = scanner.escapeBytes;
      const valueEnd = scanner.skipValue(value, 1);
      if (valueEnd < 0) return -1;
      if (index >= 0) {
        this.#starts[index] = value;
        this.#ends[index] = valueEnd;
        this.#kinds[index] = kindOf(bytes[value]!);
        this.#escapes[index] = scanner.escapeBytes - escapesBefore;
      }
      at = scanner.skipSpace(valueEnd);
      const next = at < bytes.length ? bytes[at]! : 0;
      if (next === 0x7d) return at + 1;
      if (next !== 0x2c) return scanner.fail(at, "after object key:value pair");
      at = scanner.skipSpace(at + 1);
    }
  }

  /** Returns the index of the wanted name that equals the key with the quotes at `start` and `end - 1`; -1 when none does. */
  #indexOf(bytes: Uint8Array, start: number, end: number): number {
    const length = end - start - 2;
    if (length > this.#longestName * 3) return -1;
    const keys = this.#keys;
    next: for (let n = 0; n < keys.length; n++) {
      const wanted = keys[n]!;
      if (wanted.length !== length) continue;
      for (let k = 0; k < length; k++) if (wanted[k] !== bytes[start + 1 + k]) continue next;
      return n;
    }
    return -1;
  }

  #indexOfEscaped(bytes: Uint8Array, start: number, end: number): number {
    // A character takes at most six bytes (\u0061), so a longer key equals no wanted name and needs no decoding.
    if (end - start - 2 > this.#longestName * 6) return -1;
    return this.#names.indexOf(decodeString(bytes, start, end) as Name);
  }
}

function beginsWithin(prompts: readonly (readonly ByteRange[])[], start: number, end: number): boolean {
  for (const ranges of prompts) for (const range of ranges) if (range.start >= start && range.start < end) return true;
  return false;
}
