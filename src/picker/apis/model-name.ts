import type { ByteRange } from "../../base/inference/request.ts";

/** The fields of a parsed body that splicing needs. */
interface ModelPlace {
  readonly modelRange: ByteRange | undefined;
  readonly modelInsertAt: number;
}

const CLOSING_BRACE = 0x7d;

/**
 * Returns the body with another model name. It replaces the value of the effective `model` member in its place, or adds the
 * member where there is none. All other bytes are the received ones, by reference (epp-protocol 3.5, E-31, E-32, E-109).
 *
 * @param body a JSON object
 * @param place the member's place from the parser; without a place the body has no name to change
 * @param model the new name, any text
 */
export function spliceModel(body: Uint8Array, place: ModelPlace, model: string): Uint8Array[] {
  const name = JSON.stringify(model);
  const { modelRange, modelInsertAt } = place;
  if (modelRange !== undefined)
    return pieces(body.subarray(0, modelRange.start), Buffer.from(name), body.subarray(modelRange.end));
  if (modelInsertAt < 0) return [body];
  const rest = body.subarray(modelInsertAt);
  const comma = isEmptyObject(rest) ? "" : ",";
  return pieces(body.subarray(0, modelInsertAt), Buffer.from(`"model":${name}${comma}`), rest);
}

function isEmptyObject(rest: Uint8Array): boolean {
  for (const byte of rest) {
    if (byte === 0x20 || byte === 0x09 || byte === 0x0a || byte === 0x0d) continue;
    return byte === CLOSING_BRACE;
  }
  return true;
}

function pieces(...parts: Uint8Array[]): Uint8Array[] {
  return parts.filter((part) => part.length > 0);
}

const KEY = '"model":';
const QUOTE = 0x22;
const NOTHING = Buffer.alloc(0);

/** The most characters of a name to restore. Clients choose its length, and an answer may contain it ten thousand times. */
export const MAX_RESTORED = 1024;

/**
 * Restores the client's model name in a response that names the target model: `"model":"<target>"` and `"model": "<target>"`
 * (epp-protocol 4.4, E-69). It compares and writes names as JSON strings. It also finds a name that is split between two
 * chunks. Only bytes that may begin a name wait for the next chunk.
 */
export class NameRestorer {
  readonly #needles: readonly Buffer[];
  readonly #replacements: readonly Buffer[];
  readonly #longest: number;
  #held: Buffer = NOTHING;

  /**
   * @param target the model name that the model server got
   * @param incoming the client's model name; both not empty, `incoming` at most `MAX_RESTORED` long
   */
  constructor(target: string, incoming: string) {
    // Python's json module escapes all characters outside ASCII; most serialisers do not.
    const spellings = new Set([JSON.stringify(target), ascii(JSON.stringify(target))]);
    const needles: Buffer[] = [];
    const replacements: Buffer[] = [];
    for (const spelling of spellings)
      for (const gap of ["", " "]) {
        needles.push(Buffer.from(`${KEY}${gap}${spelling}`));
        replacements.push(Buffer.from(`${KEY}${gap}${JSON.stringify(incoming)}`));
      }
    this.#needles = needles;
    this.#replacements = replacements;
    this.#longest = Math.max(...needles.map((needle) => needle.length));
  }

  /**
   * @param chunk the next bytes of the body
   * @param end no bytes follow
   * @returns the bytes to pass on; `chunk` itself when no bytes wait and none change
   */
  feed(chunk: Uint8Array, end: boolean): Uint8Array {
    const bytes = this.#joined(chunk);
    const parts: Uint8Array[] = [];
    let from = 0;
    let at = bytes.indexOf(KEY);
    while (at >= 0) {
      const match = this.#matchAt(bytes, at);
      if (match >= 0) {
        parts.push(bytes.subarray(from, at), this.#replacements[match]!);
        from = at + this.#needles[match]!.length;
      }
      // The last quote of a found name cannot begin a key.
      at = bytes.indexOf(KEY, Math.max(from, at + 1));
    }
    const hold = end ? bytes.length : this.#beginsAt(bytes, from);
    // A copy, because the chunk is a view of a socket's buffer.
    if (hold < bytes.length) this.#held = Buffer.from(bytes.subarray(hold));
    if (parts.length === 0) return from === 0 && hold === bytes.length ? bytes : bytes.subarray(from, hold);
    parts.push(bytes.subarray(from, hold));
    return Buffer.concat(parts);
  }

  #joined(chunk: Uint8Array): Buffer {
    if (this.#held.length > 0) {
      const bytes = Buffer.concat([this.#held, chunk]);
      this.#held = NOTHING;
      return bytes;
    }
    return Buffer.isBuffer(chunk) ? chunk : Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length);
  }

  /** Returns the needle at `at`; -1 when none. */
  #matchAt(bytes: Buffer, at: number): number {
    return this.#needles.findIndex(
      (needle) =>
        at + needle.length <= bytes.length && bytes.compare(needle, 0, needle.length, at, at + needle.length) === 0,
    );
  }

  /** Returns the beginning of a needle that the end of `bytes` cuts off; the length of `bytes` when there is none. */
  #beginsAt(bytes: Buffer, from: number): number {
    const first = Math.max(from, bytes.length - this.#longest + 1);
    for (let at = bytes.indexOf(QUOTE, first); at >= 0; at = bytes.indexOf(QUOTE, at + 1)) {
      const length = bytes.length - at;
      for (const needle of this.#needles)
        if (length < needle.length && bytes.compare(needle, 0, length, at) === 0) return at;
    }
    return bytes.length;
  }
}

/** Returns a JSON text with all characters outside ASCII as `\u` escapes. */
function ascii(json: string): string {
  return json.replaceAll(/[\u0080-\uffff]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
