import { oneLine } from "../../inference/errors.ts";
import { Rejection } from "../../inference/outcomes.ts";
import type { ParsedBody } from "../../inference/request.ts";

/** Reads out of the body of one API what routing needs. */
export interface Parser {
  /** As configurations name it. */
  readonly name: string;
  /** The paths it is for: those that end in one of these, each beginning with a slash. */
  readonly suffixes: readonly string[];
  /**
   * Never throws: whatever is wrong with the body becomes the client's 400.
   *
   * @param body the complete body as received; not copied, must stay unchanged while its ranges are in use
   */
  parse(body: Uint8Array): ParsedBody | Rejection;
}

/**
 * The refusal of a body that is no JSON object (epp-protocol 9.3, E-81).
 *
 * @param cause what is wrong, in the words of Go's decoder
 */
export function notJson(cause: string): Rejection {
  return new Rejection("bad_request", oneLine(`error unmarshaling request bodyMap: ${cause}`));
}

/** The refusal of a body without a usable `model` (epp-protocol 9.3, E-82). */
export function modelMissing(): Rejection {
  return new Rejection("model_missing", "model not found in request body");
}
