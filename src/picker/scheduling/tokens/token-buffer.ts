import type { TokenizedPrompt } from "../../../base/plugin/keys.ts";
import { HASHED_BYTES_PER_TOKEN } from "../../prefix/block-hash.ts";

/** Tokens kept of one request, 4 MiB of them: more than any prefix that is matched. The rest is only counted. */
export const MAX_KEPT_TOKENS = 2 ** 20;
/** Prompts of one request that are told apart, as many as parsers do; those beyond are joined to the last one. */
const MAX_PROMPTS = 256;

/** Writes a `TokenizedPrompt`: tokens, or bytes that are packed four to a token, the last one of a run padded with zeros. */
export class TokenBuffer {
  readonly #bytes: Uint8Array<ArrayBuffer>;
  readonly #view: DataView;
  readonly #prompts: { start: number; end: number }[] = [];
  /** Bytes written, of which the first ones are kept. */
  #at = 0;

  /** @param tokens the most that will be written, padding included; more than `MAX_KEPT_TOKENS` are counted, not kept */
  constructor(tokens: number) {
    this.#bytes = new Uint8Array(HASHED_BYTES_PER_TOKEN * Math.min(tokens, MAX_KEPT_TOKENS));
    this.#view = new DataView(this.#bytes.buffer);
  }

  /** What follows belongs to the next prompt. */
  beginPrompt(): void {
    this.align();
    this.#endPrompt();
    if (this.#prompts.length < MAX_PROMPTS) this.#prompts.push({ start: this.#kept(), end: this.#kept() });
  }

  /** Packs bytes [start, end) of `from`, right behind those before. */
  pack(from: Uint8Array, start: number, end: number): void {
    const room = this.#bytes.length - this.#at;
    if (room > 0) this.#bytes.set(from.subarray(start, Math.min(end, start + room)), this.#at);
    this.#at += end - start;
  }

  /** Pads the packed bytes to a whole token. */
  align(): void {
    this.#at = HASHED_BYTES_PER_TOKEN * Math.ceil(this.#at / HASHED_BYTES_PER_TOKEN);
  }

  /** Writes a token `times` times, behind a whole one. @param token an unsigned 32-bit integer */
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
