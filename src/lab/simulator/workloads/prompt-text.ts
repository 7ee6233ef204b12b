import type { Random } from "../../../base/clock/random.ts";
import { BYTES_PER_TOKEN } from "./workload.ts";

const CONSONANTS = "bdfghjklmnprstvz";
const VOWELS = "aeio";
/** So many bits of chance make a word: a consonant, a vowel, a consonant. */
const WORD_BITS = 10;
const WORD_MASK = 2 ** WORD_BITS - 1;
/** The words as token ids. */
const WORDS = idsOf(
  [...CONSONANTS].flatMap((a) => [...VOWELS].flatMap((b) => [...CONSONANTS].map((c) => `${a + b + c} `))).join(""),
);

/**
 * Text of 1,024 words of three letters and a space each, so that its bytes are its token ids. A draw gives three tokens.
 * What is drawn from one generator never begins as another text from it does, as its state does not return within 2^32
 * draws.
 * @param tokens >= 0
 * @returns bytes that are aligned for a view of their ids
 */
export function randomText(random: Random, tokens: number): Uint8Array {
  const ids = new Uint32Array(tokens);
  // Written out, which halves the time: what an array's end cuts off is not stored, so the last draw may hold too much.
  for (let at = 0; at < tokens; at += 3) {
    const bits = (random.next() * 2 ** 32) | 0;
    ids[at] = WORDS[bits & WORD_MASK]!;
    ids[at + 1] = WORDS[(bits >>> WORD_BITS) & WORD_MASK]!;
    ids[at + 2] = WORDS[(bits >>> (2 * WORD_BITS)) & WORD_MASK]!;
  }
  return new Uint8Array(ids.buffer);
}

/** The parts one after the other, in new memory that is aligned for a view of their ids. */
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
  // Copied, as the encoder does not promise memory that is aligned and of its own.
  return new Uint32Array(Uint8Array.from(new TextEncoder().encode(text)).buffer);
}

/** The stretched text of a prompt lives as long as the prompt does: workloads send the same few prompts again and again. */
const STRETCHED = new WeakMap<Uint8Array, Uint8Array>();

/**
 * The same tokens as a text with another number of bytes per token: for text that a tokenizer cuts more coarsely or more
 * finely. Equal beginnings stay equal, different texts become different.
 * @param prompt four bytes per token; nobody may change it from here on
 * @param bytesPerToken >= 1; not necessarily whole: then some tokens have a byte more than others. The same for all calls
 *   with one prompt
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
      // Letters beyond ASCII: nothing in it looks like JSON.
      text[at] = 0x80 | (bits >>> 26);
      bits = (bits << 6) | (bits >>> 26);
    }
  }
  STRETCHED.set(prompt, text);
  return text;
}
