import type { Random } from "../../../base/clock/random.ts";
import { BYTES_PER_TOKEN } from "./workload.ts";

const CONSONANTS = "bdfghjklmnprstvz";
const VOWELS = "aeio";
/** Random bits of a word: a consonant, a vowel, a consonant. */
const WORD_BITS = 10;
const WORD_MASK = 2 ** WORD_BITS - 1;
/** The words as token ids. */
const WORDS = idsOf(
  [...CONSONANTS].flatMap((a) => [...VOWELS].flatMap((b) => [...CONSONANTS].map((c) => `${a + b + c} `))).join(""),
);

/**
 * Text of 1,024 words of three letters and a space each, so that its bytes are its token ids. A draw gives three tokens. Two
 * texts from one generator never begin in the same way, because its state does not return within 2^32 draws.
 * @param tokens >= 0
 * @returns bytes that are aligned for a view of their ids
 */
export function randomText(random: Random, tokens: number): Uint8Array {
  const ids = new Uint32Array(tokens);
  // Written out, which halves the time. An array ignores writes after its end, so the last draw may exceed it.
  for (let at = 0; at < tokens; at += 3) {
    const bits = (random.next() * 2 ** 32) | 0;
    ids[at] = WORDS[bits & WORD_MASK]!;
    ids[at + 1] = WORDS[(bits >>> WORD_BITS) & WORD_MASK]!;
    ids[at + 2] = WORDS[(bits >>> (2 * WORD_BITS)) & WORD_MASK]!;
  }
  return new Uint8Array(ids.buffer);
}

/** The concatenated parts, in new memory that is aligned for a view of their ids. */
export function joined(...parts: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

function idsOf(text: string): Uint32Array {
  // A copy: the encoder guarantees neither alignment nor a separate buffer.
  return new Uint32Array(Uint8Array.from(new TextEncoder().encode(text)).buffer);
}

/** The stretched text of a prompt lives as long as the prompt: workloads send the same few prompts repeatedly. */
const STRETCHED = new WeakMap<Uint8Array, Uint8Array>();

/**
 * The same tokens as a text with another number of bytes per token: for tokenizers with longer or shorter tokens. Equal
 * beginnings stay equal, and different texts stay different.
 * @param prompt four bytes per token; must not change after the call
 * @param bytesPerToken >= 1; with a fraction, some tokens have a byte more than others. The same for all calls with one prompt
 */
export function stretched(prompt: Uint8Array, bytesPerToken: number): Uint8Array {
  if (bytesPerToken === BYTES_PER_TOKEN) return prompt;
  const known = STRETCHED.get(prompt);
  if (known !== undefined) return known;
  const ids = new Uint32Array(prompt.buffer, prompt.byteOffset, prompt.byteLength / BYTES_PER_TOKEN);
  const text = new Uint8Array(Math.ceil(ids.length * bytesPerToken));
  for (let token = 0; token < ids.length; token++) {
    const start = Math.floor(token * bytesPerToken);
    const end = Math.min(text.length, Math.floor((token + 1) * bytesPerToken));
    let bits = Math.imul(ids[token]!, 0x9e3779b1);
    for (let at = start; at < end; at++) {
      // Letters beyond ASCII: no byte of the text is JSON syntax.
      text[at] = 0x80 | (bits >>> 26);
      bits = (bits << 6) | (bits >>> 26);
    }
  }
  STRETCHED.set(prompt, text);
  return text;
}
