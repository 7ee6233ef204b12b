import { messageOf, SluiceError } from "../../../base/inference/errors.ts";
import type { RequestTransform } from "./request-transform.ts";
import type { TransformChain, TransformedBody } from "./transform.ts";

/** A transform as the configuration lists it. */
export interface NamedTransform {
  readonly name: string;
  readonly type: string;
  readonly transform: RequestTransform;
}

/** Transforms in the order of the configuration; errors say which of them it was (async-processor 6.6). */
export class Chain implements TransformChain {
  readonly #transforms: readonly NamedTransform[];

  constructor(transforms: readonly NamedTransform[]) {
    this.#transforms = transforms;
  }

  validate(payload: Uint8Array, metadata: Readonly<Record<string, string>>, deadline: number): void {
    for (const entry of this.#transforms) {
      try {
        entry.transform.validate(payload, metadata, deadline);
      } catch (error) {
        throw named(entry, error);
      }
    }
  }

  transform(payload: Uint8Array, metadata: Readonly<Record<string, string>>): TransformedBody | undefined {
    for (const entry of this.#transforms) {
      try {
        const body = entry.transform.transform(payload, metadata);
        if (body !== undefined) return body;
      } catch (error) {
        throw named(entry, error);
      }
    }
    return undefined;
  }
}

function named({ name, type }: NamedTransform, cause: unknown): SluiceError {
  return new SluiceError("TRANSFORM", `transform ${name}/${type}: ${messageOf(cause)}`, { cause });
}
