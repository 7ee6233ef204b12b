import { SluiceError } from "../../../base/inference/errors.ts";
import type { TokenizedPrompt } from "../../../base/plugin/keys.ts";
import { TokenBuffer } from "./token-buffer.ts";

const MAX_TOKEN = 2 ** 32 - 1;

/**
 * The tokens in a render server's answer. Servers answer with one object for a chat and a list of them for completions,
 * tokens in `token_ids`; earlier ones with `[conversation, [prompt]]` and `[prompt, ...]`, tokens in `prompt_token_ids`.
 *
 * Where images stand, their placeholders are all the same token: each gets another one that is made from the image's
 * hash, so that prompts with different images differ.
 *
 * @returns one prompt per object; undefined when there are no tokens at all
 * @throws SluiceError RENDER_ANSWER for anything else
 */
export function renderedTokens(answer: unknown): TokenizedPrompt | undefined {
  const lists = prompts(answer).map(tokenList);
  const buffer = new TokenBuffer(lists.reduce((sum, list) => sum + list.length, 0));
  for (const list of lists) {
    buffer.beginPrompt();
    for (const token of list) {
      if (!(Number.isInteger(token) && token >= 0 && token <= MAX_TOKEN)) throw malformed("a token that is no number");
      buffer.add(token);
    }
  }
  return buffer.finish();
}

function prompts(answer: unknown): readonly unknown[] {
  if (!Array.isArray(answer)) return [answer];
  // A conversation is a list of messages; prompts are objects.
  return answer.length === 2 && Array.isArray(answer[0]) && Array.isArray(answer[1]) ? answer[1] : answer;
}

function tokenList(prompt: unknown): readonly number[] {
  if (typeof prompt !== "object" || prompt === null) throw malformed("something else than a prompt");
  const { token_ids: current, prompt_token_ids: earlier } = prompt as Record<string, unknown>;
  const tokens = current ?? earlier;
  if (!Array.isArray(tokens)) throw malformed("a prompt without token_ids");
  markMedia(tokens, (prompt as { features?: unknown }).features);
  return tokens;
}

/** @param features `mm_hashes` and `mm_placeholders`, each a list per modality; whatever is not of that shape is left alone */
function markMedia(tokens: unknown[], features: unknown): void {
  const { mm_hashes: hashes, mm_placeholders: placeholders } = objectOf(features);
  for (const [modality, places] of Object.entries(objectOf(placeholders))) {
    const names = objectOf(hashes)[modality];
    if (!Array.isArray(names) || !Array.isArray(places)) continue;
    for (const [i, place] of places.entries()) {
      const { offset, length } = objectOf(place);
      if (typeof names[i] !== "string" || typeof offset !== "number" || typeof length !== "number") continue;
      if (offset >= 0 && length > 0) tokens.fill(fnv1a(names[i]), offset, offset + length);
    }
  }
}

function objectOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

/** The 32-bit hash of Fowler, Noll and Vo, over UTF-16 units: what it is given is a good hash already. */
function fnv1a(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return hash >>> 0;
}

function malformed(what: string): SluiceError {
  return new SluiceError("RENDER_ANSWER", `the render server answers with ${what}`);
}
