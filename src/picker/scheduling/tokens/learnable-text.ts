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
  const text = textBytes(request);
  // Asked last of what costs nothing: a request that nothing can be learned from takes nobody's turn.
  const isWorthALook =
    text >= LEAST_TEXT && promptBytes(request) <= MOST_RECEIVED && learner.isDue(request.targetModel);
  return isWorthALook && isTextAlone(request) ? text : Number.NaN;
}

/**
 * Whether there is nothing else than text: no token ids, images, films, sounds. What those come to in tokens has nothing to
 * do with the bytes of their data or of their address.
 */
function isTextAlone(request: InferenceRequest): boolean {
  return isText(request, request.body) && mediaParts(request).length === 0;
}
