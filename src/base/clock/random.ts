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
  const hex = (digits: number): string => {
    let out = "";
    for (let i = 0; i < digits; i++) out += random.below(16).toString(16);
    return out;
  };
  return `${hex(8)}-${hex(4)}-4${hex(3)}-${(8 + random.below(4)).toString(16)}${hex(3)}-${hex(12)}`;
}
