import type { Random } from "../../src/base/clock/random.ts";

/** Bytes; inputs grow no further. */
export const MAX_INPUT = 16 * 1024;
/** Bytes; once in a while one grows up to here, beyond the limits for lines and kept buffers. */
export const MAX_LONG_INPUT = 160 * 1024;

const INTERESTING = [0, 1, 0x7f, 0x80, 0xff, 0x100, 0x7fff, 0x8000, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff];
const ASCII = Array.from('{}[]",:\\/ \n\r\tabefnrtu0123456789.eE+-', (letter) => letter.charCodeAt(0));

/** Makes new inputs from old ones. Everything it does follows from the seed of its `Random`. */
export class Mutator {
  readonly #random: Random;
  readonly #tokens: readonly Buffer[];

  /** @param tokens pieces to put in */
  constructor(random: Random, tokens: readonly (string | Uint8Array)[]) {
    this.#random = random;
    this.#tokens = tokens.map((token) => Buffer.from(token as string));
  }

  /** One to eight changes of an input of `pool`, which holds at least one. */
  next(pool: readonly Buffer[]): Buffer {
    const random = this.#random;
    let input: Buffer = Buffer.from(this.#any(pool));
    const changes = 1 + random.below(random.below(8) + 1);
    for (let i = 0; i < changes; i++) input = this.#change(input, pool);
    return input.length > MAX_INPUT && random.below(64) > 0 ? input.subarray(0, MAX_INPUT) : input;
  }

  #any<T>(list: readonly T[]): T {
    return list[this.#random.below(list.length)]!;
  }

  #change(input: Buffer, pool: readonly Buffer[]): Buffer {
    const random = this.#random;
    const at = random.below(input.length + 1);
    const end = Math.min(input.length, at + 1 + random.below(random.below(64) + 1));
    const [head, middle, tail] = [input.subarray(0, at), input.subarray(at, end), input.subarray(end)];
    switch (random.below(12)) {
      case 0:
        if (at < input.length) input[at] = input[at]! ^ (1 << random.below(8));
        return input;
      case 1:
        if (at < input.length) input[at] = random.below(256);
        return input;
      case 2:
        if (at < input.length) input[at] = this.#any(ASCII);
        return input;
      case 3:
        return Buffer.concat([head, tail]);
      case 4:
        return Buffer.concat([head, middle, middle, tail]);
      case 5:
        return Buffer.from(head);
      case 6:
        return Buffer.concat([head, bytes(random), middle, tail]);
      case 7:
      case 8:
        return this.#tokens.length === 0 ? input : Buffer.concat([head, this.#any(this.#tokens), middle, tail]);
      case 9: {
        const other = this.#any(pool);
        const from = random.below(other.length + 1);
        return Buffer.concat([head, other.subarray(from, from + 1 + random.below(other.length + 1)), tail]);
      }
      case 10:
        return this.#number(input, at);
      default:
        return this.#repeat(head, middle, tail);
    }
  }

  /** A number that code likes to get wrong, over what was there: one to four bytes, either order, or text. */
  #number(input: Buffer, at: number): Buffer {
    const random = this.#random;
    const value = this.#any(INTERESTING);
    const width = Math.min(1 + random.below(4), input.length - at);
    if (random.below(3) === 0) {
      return Buffer.concat([input.subarray(0, at), Buffer.from(String(value)), input.subarray(at + width)]);
    }
    if (width === 0) return input;
    const kept = value % 2 ** (8 * width);
    if (random.below(2) === 0) input.writeUIntBE(kept, at, width);
    else input.writeUIntLE(kept, at, width);
    return input;
  }

  #repeat(head: Buffer, middle: Buffer, tail: Buffer): Buffer {
    if (middle.length === 0) return Buffer.concat([head, tail]);
    const long = this.#random.below(200) === 0;
    const room = Math.max(1, Math.floor(((long ? MAX_LONG_INPUT : 512) - head.length - tail.length) / middle.length));
    const times = long ? room : 1 + this.#random.below(Math.min(room, 64));
    return Buffer.concat([head, ...Array.from({ length: times }, () => middle), tail]);
  }
}

function bytes(random: Random): Uint8Array {
  return Uint8Array.from({ length: 1 + random.below(8) }, () => random.below(256));
}
