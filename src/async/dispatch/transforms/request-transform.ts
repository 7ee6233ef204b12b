import type { TransformedBody } from "./transform.ts";

/** One transform. What it throws is told to the message's owner, so its messages hold no secrets. */
export interface RequestTransform {
  /** @param deadline Unix seconds @throws when the message could never be sent */
  validate(payload: Uint8Array, metadata: Readonly<Record<string, string>>, deadline: number): void;
  /** Undefined = not this transform's message. Changes neither argument. @throws as `validate` */
  transform(payload: Uint8Array, metadata: Readonly<Record<string, string>>): TransformedBody | undefined;
}
