/** Chance as a parameter. */
export interface Random {
  /** Uniform in [0, 1), 32 bits of it. */
  next(): number;
  /** Uniform integer in [0, bound); `bound` >= 1. */
  below(bound: number): number;
}

/**
 * A seeded generator (mulberry32: 32 bits of state, period 2^32, passes gjrand's small tests). Its state can be read and
 * restored, which is what makes a recorded decision replayable.
 */
export class SeededRandom implements Random {
  /** The whole state, an unsigned 32-bit integer. */
  state: number;

  /** @param seed any integer; only its low 32 bits count */
  constructor(seed: number) {
    this.state = seed >>> 0;
  }

  next(): number {
    this.state = (this.state + 0x6d2b79f5) >>> 0;
    let t = this.state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  }

  below(bound: number): number {
    return Math.floor(this.next() * bound);
  }
}

/** A generator seeded from the machine's own source of chance. */
export function freshRandom(): SeededRandom {
  return new SeededRandom(Math.floor(Math.random() * 4294967296));
}

/** A uniformly random version-4 UUID drawn from `random`. */
export function uuidFrom(random: Random): string {
  for (let at = 0; at < UUID.length; at++) {
    const range = UUID_DIGITS[at]!;
    if (range === 4) CODES[at] = DIGITS.charCodeAt(8 + random.below(4));
    else if (range === 16) CODES[at] = DIGITS.charCodeAt(random.below(16));
  }
  // One string: most requests need an id, and one made of 36 parts costs several times as much.
  return String.fromCharCode.apply(undefined, CODES);
}

const DIGITS = "0123456789abcdef";
/** Places: x = any digit, y = one of 8 to b. */
const UUID = "xxxxxxxx-xxxx-4xxx-yxxx-xxxxxxxxxxxx";
const UUID_DIGITS = Array.from(UUID, (place) => (place === "x" ? 16 : place === "y" ? 4 : 0));
const CODES = Array.from(UUID, (place) => place.charCodeAt(0));
