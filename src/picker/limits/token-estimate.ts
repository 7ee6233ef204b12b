import { type InferenceRequest, promptTokens, USUAL_BYTES_PER_TOKEN } from "../../base/inference/request.ts";
import { mediaParts } from "../scheduling/tokens/media-parts.ts";

/** Tokens up to which a prompt is not searched for images: the data of one is longer. */
const SHORT = 1024;
/** Tokens that an image, a video or a sound reserves until the answer tells. */
const TOKENS_OF_MEDIA = 1024;

/**
 * The tokens of a prompt before a model server has counted them. The data of an image counts as one image, not as text: base64
 * of a photo would look like a million tokens.
 */
export function promptEstimate(understood: InferenceRequest): number {
  const request = withPrompt(understood);
  const whole = promptTokens(request);
  if (whole <= SHORT) return whole;
  let bytes = 0;
  const parts = mediaParts(request);
  for (const { start, end } of parts) bytes += end - start;
  if (bytes === 0) return whole;
  const perToken = request.bytesPerToken ?? USUAL_BYTES_PER_TOKEN;
  return Math.max(0, whole - Math.floor(bytes / perToken)) + parts.length * TOKENS_OF_MEDIA;
}

const OPEN_OBJECT = 0x7b;

/** The request itself, or with its whole body as the prompt: a JSON body of an API that nobody reads has its prompt somewhere. */
function withPrompt(request: InferenceRequest): InferenceRequest {
  const { prompts, body } = request;
  if (prompts.length > 0) return request;
  let start = 0;
  while (start < body.length && body[start]! <= 0x20) start++;
  if (body[start] !== OPEN_OBJECT) return request;
  return { ...request, prompts: [[{ start: 0, end: body.length }]] };
}
