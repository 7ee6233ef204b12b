import { type BytesPerToken, LEAST_TEXT, MOST_RECEIVED } from "../../../base/inference/bytes-per-token.ts";
import { type InferenceRequest, type ParsedBody, promptBytes, textBytes } from "../../../base/inference/request.ts";
import { mediaParts } from "./media-parts.ts";

const QUOTE = 0x22;
const OPEN_ARRAY = 0x5b;

/**
 * Whether the prompts are text. Lists of token ids show nothing about the bytes per token of text.
 * @param request its prompts are ranges of `body`
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
 * Returns the bytes of text to compare with the token count of the answer.
 * @returns NaN where the process learns nothing: it is another request's turn, the text is too short, or the prompt is not only
 *   text
 */
export function textToLearnFrom(learner: BytesPerToken, request: InferenceRequest): number {
  const text = textBytes(request);
  // `isDue` uses up the turn, so it is the last cheap check: a request that fails the others takes no turn.
  const isWorthALook =
    text >= LEAST_TEXT && promptBytes(request) <= MOST_RECEIVED && learner.isDue(request.targetModel);
  return isWorthALook && isTextAlone(request) ? text : Number.NaN;
}

/**
 * Whether the prompt is only text, without token ids, images, videos and sounds. Their token count does not depend on the bytes
 * of their data or address.
 */
function isTextAlone(request: InferenceRequest): boolean {
  return isText(request, request.body) && mediaParts(request).length === 0;
}
