import type { AnswerFormat, InferenceRequest } from "../../base/inference/request.ts";
import { MAX_RESTORED, NameRestorer } from "../apis/name-restorer.ts";
import { spliceModel } from "../apis/splice-model.ts";

/** What goes on to the model server, and what puts its answer right. */
export interface ForwardedBody {
  readonly pieces: readonly Uint8Array[];
  /** Sum of the lengths of `pieces`. */
  readonly length: number;
  /** Undefined where the answer needs no other model name. */
  readonly restorer: NameRestorer | undefined;
}

/** Answers that may name their model in plain JSON. */
const NAMED_ANSWERS: ReadonlySet<AnswerFormat> = new Set(["http", "sglang"]);

/** The received bytes; where the model has another name at its server, spliced (epp-protocol 3.5, 4.4). */
export function forwardedBody(request: InferenceRequest): ForwardedBody {
  const { body, model, targetModel } = request;
  if (targetModel === model || targetModel === "")
    return { pieces: body.length === 0 ? [] : [body], length: body.length, restorer: undefined };
  const pieces = spliceModel(body, request, targetModel);
  let length = 0;
  for (const piece of pieces) length += piece.length;
  const named = model !== "" && model.length <= MAX_RESTORED && NAMED_ANSWERS.has(request.answerFormat);
  return { pieces, length, restorer: named ? new NameRestorer(targetModel, model) : undefined };
}
