import { type BytesPerToken, LEAST_TEXT, MOST_RECEIVED } from "../../../base/inference/bytes-per-token.ts";
import { type InferenceRequest, type ParsedBody, promptBytes, textBytes } from "../../../base/inference/request.ts";
import { mediaParts } from "./media-parts.ts";

const QUOTE = 0x22;
const OPEN_ARRAY = 0x5b;

/**
 * Whether the prompts are text, and no lists of token ids, whose bytes per token say nothing of text's.
 * @param request its prompts as ranges of `body`
 */
export function isText({ answerFormat, prompts }: ParsedBody, body: Uint8Array): boolean {
  // vLLM's gRPC API takes token ids.
  if (answerFormat === "vllm-generate" || answerFormat === "vllm-embed") return false;
  const first = prompts[0]?.[0];
  if (first === undefined || body[first.start] !== OPEN_ARRAY || body[first.start - 1] === QUOTE) return true;
  let at = first.start + 1;
  while (at < first.end && body[at]! <= 0x20) at++;
  return at < first.end && body[at]! > 0x39;
}

/**
 * Bytes of text that the answer's count of tokens is to be held against.
 * @returns NaN where nothing is to be learned: another request's turn, too little text, or something else than text
 */
export function textToLearnFrom(learner: BytesPerToken, request: InferenceRequest): number {
  return learner.isDue(request.targetModel) ? learnableText(request) : Number.NaN;
}

/**
 * NaN where there is something else than text: token ids, images, films, sounds. What those come to in tokens has nothing
 * to do with the bytes of their data or of their address.
 */
function learnableText(request: InferenceRequest): number {
  const text = textBytes(request);
  if (text < LEAST_TEXT || promptBytes(request) > MOST_RECEIVED || !isText(request, request.body)) return Number.NaN;
  return mediaParts(request).length > 0 ? Number.NaN : text;
}
