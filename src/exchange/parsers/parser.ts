import { oneLine } from "../../inference/errors.ts";
import { Rejection } from "../../inference/outcomes.ts";

/**
 * The refusal of a body that is no JSON object (epp-protocol 9.3, 10.2, E-81).
 *
 * @param cause what is wrong, in the words of Go's decoder
 * @param what was being read, in the words of the API's reference parser
 */
export function notJson(cause: string, what: "bodyMap" | "body" = "bodyMap"): Rejection {
  return new Rejection("bad_request", oneLine(`error unmarshaling request ${what}: ${cause}`));
}

/** The refusal of a body without a usable `model` (epp-protocol 9.3, E-82). */
export function modelMissing(): Rejection {
  return new Rejection("model_missing", "model not found in request body");
}
