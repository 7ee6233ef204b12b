import type { ByteRange } from "../../base/inference/request.ts";

/** What splicing needs of a parsed body. */
export interface ModelPlace {
  readonly modelRange: ByteRange | undefined;
  readonly modelInsertAt: number;
}

const CLOSING_BRACE = 0x7d;

/**
 * The body with another model name: the value of its effective `model` member replaced where it stands, or the member
 * added where there was none. Every other byte is the received one, by reference (epp-protocol 3.5, E-31, E-32, E-109).
 *
 * @param body a JSON object
 * @param place where the parser found the member; with neither place the body has no name to change
 * @param model the new name, any text
 */
export function spliceModel(body: Uint8Array, place: ModelPlace, model: string): Uint8Array[] {
  const name = JSON.stringify(model);
  const { modelRange, modelInsertAt } = place;
  if (modelRange !== undefined)
    return pieces(body.subarray(0, modelRange.start), Buffer.from(name), body.subarray(modelRange.end));
  if (modelInsertAt < 0) return [body];
  const rest = body.subarray(modelInsertAt);
  const comma = isEmptyObject(rest) ? "" : ",";
  return pieces(body.subarray(0, modelInsertAt), Buffer.from(`"model":${name}${comma}`), rest);
}

function isEmptyObject(rest: Uint8Array): boolean {
  for (const byte of rest) {
    if (byte === 0x20 || byte === 0x09 || byte === 0x0a || byte === 0x0d) continue;
    return byte === CLOSING_BRACE;
  }
  return true;
}

function pieces(...parts: Uint8Array[]): Uint8Array[] {
  return parts.filter((part) => part.length > 0);
}
