import type { AnswerFormat, InferenceRequest } from "../../base/inference/request.ts";
import { MAX_RESTORED, NameRestorer, spliceModel } from "../apis/model-name.ts";

/** What is reserved on the word of a `content-length`; beyond it the buffer grows with what really arrives. */
const TRUSTED = 1024 * 1024;
const SMALLEST = 16 * 1024;
const NOTHING = new Uint8Array(0);

/**
 * Puts a body that arrives in pieces together in one buffer, each byte copied once. Pieces are views of socket reads: a
 * copy lets those go, and parsers want one contiguous array. A body in one piece is not copied at all.
 */
export class BodyAssembler {
  #buffer: Buffer | undefined;
  #length = 0;
  #expected = 0;

  /** Bytes so far. */
  get length(): number {
    return this.#length;
  }

  /** @param bytes the declared length, when there is one; a false one costs time, not correctness */
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

  /** Takes the last piece and gives the whole body away. */
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

/** What goes on to the model server, and what puts its answer right. */
interface ForwardedBody {
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
