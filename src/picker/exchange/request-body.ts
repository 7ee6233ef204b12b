import { Rejection } from "../../base/inference/outcomes.ts";
import type { AnswerFormat, InferenceRequest } from "../../base/inference/request.ts";
import { MAX_RESTORED, NameRestorer, spliceModel } from "../apis/model-name.ts";

/** The most bytes that a `content-length` reserves at once. Beyond it the buffer grows with the bytes that arrive. */
const TRUSTED = 1024 * 1024;
const SMALLEST = 16 * 1024;
const NOTHING = new Uint8Array(0);

/**
 * Joins the pieces of a body in one buffer and copies each byte once. Pieces are views of socket reads: the copy frees those,
 * and parsers need one contiguous array. A body in one piece is not copied.
 */
export class BodyAssembler {
  #buffer: Buffer | undefined;
  #length = 0;
  #expected = 0;

  /** Bytes received so far. */
  get length(): number {
    return this.#length;
  }

  /** @param bytes the declared length, if any; a false one costs time but does no harm */
  expect(bytes: number): void {
    if (bytes > 0) this.#expected = Math.min(bytes, TRUSTED);
  }

  /** Copies a piece that is not the last one. */
  add(piece: Uint8Array): void {
    const needed = this.#length + piece.length;
    if (this.#buffer === undefined) this.#buffer = Buffer.allocUnsafeSlow(Math.max(needed, this.#expected, SMALLEST));
    else if (needed > this.#buffer.length) {
      const grown = Buffer.allocUnsafeSlow(Math.max(needed, 2 * this.#buffer.length));
      this.#buffer.copy(grown, 0, 0, this.#length);
      this.#buffer = grown;
    }
    this.#buffer.set(piece, this.#length);
    this.#length = needed;
  }

  /** Takes the last piece. @returns the whole body, which the assembler no longer keeps */
  finish(last: Uint8Array): Uint8Array {
    const whole = this.#length === 0 ? last : this.#with(last);
    this.clear();
    return whole;
  }

  clear(): void {
    this.#buffer = undefined;
    this.#length = 0;
  }

  #with(last: Uint8Array): Uint8Array {
    if (last.length > 0) this.add(last);
    return this.#buffer === undefined ? NOTHING : this.#buffer.subarray(0, this.#length);
  }
}

/** The refusal of a body that is longer than `limit` bytes. */
export function bodyTooLarge(limit: number): Rejection {
  return new Rejection("too_large", `request body exceeds ${limit} bytes`);
}

/** The body for the model server, and the restorer of model names for its answer. */
export interface ForwardedBody {
  readonly pieces: readonly Uint8Array[];
  /** Sum of the lengths of `pieces`. */
  readonly length: number;
  /** Undefined where the model name in the answer is right already. */
  readonly restorer: NameRestorer | undefined;
}

/** Answers that may name their model in plain JSON. */
const NAMED_ANSWERS: ReadonlySet<AnswerFormat> = new Set(["http", "sglang"]);

/** Returns the received bytes. Where the target model has another name, splices it in (epp-protocol 3.5, 4.4). */
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
