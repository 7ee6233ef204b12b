import { MAX_LONG_INPUT } from "./mutator.ts";

/** Mutations of a mutation may exceed the limit by one round's worth. */
const ROOM = 64 * MAX_LONG_INPUT;

/** The input that is being tried, where another thread can see it: it outlives a hang or a crash of the one that tries. */
export class SharedInput {
  readonly memory: SharedArrayBuffer;
  readonly #counter: Int32Array;
  readonly #bytes: Uint8Array;

  constructor(memory = new SharedArrayBuffer(8 + ROOM)) {
    this.memory = memory;
    this.#counter = new Int32Array(memory, 0, 2);
    this.#bytes = new Uint8Array(memory, 8);
  }

  /** Inputs shown so far. */
  get shown(): number {
    return Atomics.load(this.#counter, 0);
  }

  show(input: Uint8Array): void {
    const length = Math.min(input.length, this.#bytes.length);
    this.#bytes.set(input.subarray(0, length));
    Atomics.store(this.#counter, 1, length);
    Atomics.add(this.#counter, 0, 1);
  }

  get current(): Buffer {
    return Buffer.from(this.#bytes.slice(0, Atomics.load(this.#counter, 1)));
  }
}
