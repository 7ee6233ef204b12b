import type { TokenizedPrompt } from "../../../base/plugin/keys.ts";
import { HASHED_BYTES_PER_TOKEN } from "../../prefix/block-hash.ts";

/** The most tokens of one request that the buffer keeps, 4 MiB: more than any prefix match needs. It only counts the rest. */
export const MAX_KEPT_TOKENS = 2 ** 20;
/** The most prompts of one request, as in the parsers; the tokens of further prompts join the last one. */
const MAX_PROMPTS = 256;

/** Writes a `TokenizedPrompt`: tokens, or bytes packed four to a token; zeros fill the last token of a run. */
export class TokenBuffer {
  readonly #bytes: Uint8Array<ArrayBuffer>;
  readonly #view: DataView;
  readonly #prompts: { start: number; end: number }[] = [];
  /** Bytes written; the buffer keeps the first ones. */
  #at = 0;

  /** @param tokens the most tokens that callers will write, with padding; those above `MAX_KEPT_TOKENS` are only counted */
  constructor(tokens: number) {
    this.#bytes = new Uint8Array(HASHED_BYTES_PER_TOKEN * Math.min(tokens, MAX_KEPT_TOKENS));
    this.#view = new DataView(this.#bytes.buffer);
  }

  /** Begins the next prompt. */
  beginPrompt(): void {
    this.align();
    this.#endPrompt();
    if (this.#prompts.length < MAX_PROMPTS) this.#prompts.push({ start: this.#kept(), end: this.#kept() });
  }

  /** Packs bytes [start, end) of `from` right after the bytes before. */
  pack(from: Uint8Array, start: number, end: number): void {
    const room = this.#bytes.length - this.#at;
    if (room > 0) this.#bytes.set(from.subarray(start, Math.min(end, start + room)), this.#at);
    this.#at += end - start;
  }

  /** Pads the packed bytes to a whole token. */
  align(): void {
    this.#at = HASHED_BYTES_PER_TOKEN * Math.ceil(this.#at / HASHED_BYTES_PER_TOKEN);
  }

  /** Writes a token `times` times. The buffer must be aligned. @param token an unsigned 32-bit integer */
  add(token: number, times = 1): void {
    const end = Math.min(this.#at + HASHED_BYTES_PER_TOKEN * times, this.#bytes.length);
    for (let at = this.#at; at < end; at += HASHED_BYTES_PER_TOKEN) this.#view.setUint32(at, token, true);
    this.#at += HASHED_BYTES_PER_TOKEN * times;
  }

  /** Undefined when there are no tokens. */
  finish(): TokenizedPrompt | undefined {
    this.align();
    this.#endPrompt();
    if (this.#at === 0) return undefined;
    return {
      tokens: this.#bytes.subarray(0, this.#kept()),
      prompts: this.#prompts,
      count: this.#at / HASHED_BYTES_PER_TOKEN,
    };
  }

  #kept(): number {
    return Math.min(this.#at, this.#bytes.length);
  }

  #endPrompt(): void {
    const last = this.#prompts.at(-1);
    if (last !== undefined) last.end = this.#kept();
  }
}
