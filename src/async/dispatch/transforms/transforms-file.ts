import { z } from "zod";
import type { Random } from "../../../base/clock/random.ts";
import type { Document } from "../../../base/document/document.ts";
import { check, invalid, type Violation, validate } from "../../../base/document/validate.ts";
import { messageOf, SluiceError } from "../../../base/inference/errors.ts";
import { GCS_PARAMETERS, GcsUriMultipart } from "./gcs-uri-multipart.ts";
import type { RequestTransform, TransformedBody } from "./transform.ts";

const FILE = { what: "transforms file" };

const TRANSFORMS = z.strictObject({
  requestTransforms: z
    .array(
      z.strictObject({
        name: z.string().min(1),
        type: z.enum(["gcs_uri_multipart"]),
        parameters: z.unknown().optional(),
      }),
    )
    .nullish(),
});

/**
 * The transforms that a file of `--transform-config-file` lists (async-processor 6.6).
 * @param document undefined = none: every payload goes as it is
 * @throws SluiceError DOCUMENT_INVALID for unknown keys and types, and names that are empty or used twice
 */
export function requestTransforms(document: Document | undefined, random: Random): RequestTransform {
  if (document === undefined) return new Chain([]);
  const entries = validate(document, TRANSFORMS, FILE).requestTransforms ?? [];
  const violations: Violation[] = [];
  const names = new Set<string>();
  const transforms = entries.flatMap(({ name, type, parameters }, at) => {
    const path = ["requestTransforms", at];
    if (names.has(name))
      violations.push({ path: [...path, "name"], problem: `another transform already has the name \`${name}\`` });
    names.add(name);
    const found = check(parameters ?? {}, GCS_PARAMETERS, [...path, "parameters"], violations);
    return found === undefined ? [] : [{ name, type, transform: new GcsUriMultipart(found.output.providers, random) }];
  });
  if (violations.length > 0) throw invalid(document, violations, FILE.what);
  return new Chain(transforms);
}

/** A transform as the configuration lists it. */
interface NamedTransform {
  readonly name: string;
  readonly type: string;
  readonly transform: RequestTransform;
}

/** Transforms in the order of the configuration; an error names the transform that it comes from (async-processor 6.6). */
class Chain implements RequestTransform {
  readonly #transforms: readonly NamedTransform[];

  constructor(transforms: readonly NamedTransform[]) {
    this.#transforms = transforms;
  }

  validate(payload: Uint8Array, metadata: Readonly<Record<string, string>>, deadline: number): void {
    for (const entry of this.#transforms)
      named(entry, ({ transform }) => transform.validate(payload, metadata, deadline));
  }

  transform(payload: Uint8Array, metadata: Readonly<Record<string, string>>): TransformedBody | undefined {
    for (const entry of this.#transforms) {
      const body = named(entry, ({ transform }) => transform.transform(payload, metadata));
      if (body !== undefined) return body;
    }
    return undefined;
  }
}

/** @throws SluiceError TRANSFORM with the name of the transform */
function named<T>(entry: NamedTransform, work: (entry: NamedTransform) => T): T {
  try {
    return work(entry);
  } catch (cause) {
    throw new SluiceError("TRANSFORM", `transform ${entry.name}/${entry.type}: ${messageOf(cause)}`, { cause });
  }
}
