import { SeededRandom } from "../../base/clock/random.ts";
import { SimApiError } from "./api-error.ts";
import { chooseModel, type SimContext } from "./context.ts";
import type { JsonObject } from "./json-body.ts";
import { tokenize } from "./tokenizer.ts";

/** Numbers of a vector when the request sets no `dimensions`, and the most that it may set. */
const USUAL_DIMENSIONS = 384;
const MOST_DIMENSIONS = 8192;
const MOST_INPUTS = 2048;

/**
 * The answer to a request for embeddings. Equal texts get equal unit vectors. The work takes no time in the engine.
 * @throws SimApiError 400 or 404
 */
export function embed(context: SimContext, body: JsonObject): object {
  const model = chooseModel(context, body.model);
  const { input, encoding_format: format = "float", dimensions = USUAL_DIMENSIONS } = body;
  if (format !== "float" && format !== "base64")
    throw new SimApiError(400, "encoding_format must be float or base64", "encoding_format");
  if (!Number.isInteger(dimensions) || (dimensions as number) < 1 || (dimensions as number) > MOST_DIMENSIONS)
    throw new SimApiError(400, `dimensions must be a whole number from 1 to ${MOST_DIMENSIONS}`, "dimensions");
  const inputs: readonly unknown[] = Array.isArray(input) && typeof input[0] !== "number" ? input : [input];
  if (inputs.length === 0 || inputs.length > MOST_INPUTS)
    throw new SimApiError(400, `input must have 1 to ${MOST_INPUTS} texts`, "input");
  let tokens = 0;
  const data = inputs.map((one, index) => {
    const ids = tokensOf(one);
    tokens += ids.length;
    const values = unitVector(ids, dimensions as number);
    const embedding = format === "float" ? Array.from(values) : Buffer.from(values.buffer).toString("base64");
    return { object: "embedding", index, embedding };
  });
  return { object: "list", data, model: model.name, usage: { prompt_tokens: tokens, total_tokens: tokens } };
}

function tokensOf(input: unknown): Uint32Array {
  if (typeof input === "string" && input !== "") return tokenize(input);
  if (Array.isArray(input) && input.length > 0 && input.every((id) => Number.isInteger(id) && id >= 0))
    return Uint32Array.from(input as number[]);
  throw new SimApiError(400, "input must be a string, token ids, or a list of either, none of them empty", "input");
}

function unitVector(ids: Uint32Array, dimensions: number): Float32Array {
  let seed = 0;
  for (const id of ids) seed = (Math.imul(seed, 31) + id) >>> 0;
  const random = new SeededRandom(seed);
  const values = Float32Array.from({ length: dimensions }, () => random.next() - 0.5);
  const length = Math.hypot(...values) || 1;
  return values.map((value) => value / length);
}
