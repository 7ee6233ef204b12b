import { oneLine } from "../../base/inference/errors.ts";
import { Rejection } from "../../base/inference/outcomes.ts";

/**
 * The refusal of a body that is no JSON object (epp-protocol 9.3, 10.2, E-81).
 *
 * @param cause what is wrong, in the words of Go's decoder
 * @param what was being read, in the words of the API's reference parser
 */
export function notJson(cause: string, what: "bodyMap" | "body" = "bodyMap"): Rejection {
  return new Rejection("bad_request", oneLine(`error unmarshaling request ${what}: ${cause}`), oneLine(plain(cause)));
}

/** The same without a word of Go. */
function plain(cause: string): string {
  const kind = /^json: cannot unmarshal (\w+) into/.exec(cause)?.[1];
  if (kind !== undefined) return `the request body must be a JSON object, and is ${KINDS[kind] ?? `a ${kind}`}`;
  return cause === "unexpected end of JSON input"
    ? "the request body is empty or ends too early; send a complete JSON object"
    : `the request body is not valid JSON: ${cause}`;
}

/** Kinds of JSON values by the name that Go's decoder has for them. */
const KINDS: Readonly<Record<string, string>> = {
  array: "an array",
  string: "a string",
  number: "a number",
  bool: "true or false",
};

/** The refusal of a body without a usable `model` (epp-protocol 9.3, E-82). */
export function modelMissing(): Rejection {
  return new Rejection("model_missing", "model not found in request body");
}
