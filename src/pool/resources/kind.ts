import type { z } from "zod";
import { formatPath } from "../../base/document/document.ts";
import { check, type Violation } from "../../base/document/validate.ts";
import type { ObjectMeta, ResourceObject } from "./objects.ts";
import type { UnknownKeys } from "./scalars.ts";

/** What a kind makes of the `spec` of an object. */
export type SpecReading =
  | { readonly violations: readonly Violation[] }
  | {
      /** The object, once its metadata is known. */
      readonly object: (meta: ObjectMeta) => ResourceObject;
      /** What is allowed and hardly meant. */
      readonly warnings: readonly Violation[];
    };

/** One version of one of our kinds. */
export interface Kind {
  readonly kind: string;
  readonly group: string;
  /** `group/version`. */
  readonly apiVersion: string;
  /** False: an object without `spec` is admitted and means nothing (api-resources 1.3, 1.4). */
  readonly specRequired: boolean;
  /** Undefined for a kind without `spec`, of which nothing is kept. */
  readonly readSpec: ((spec: unknown, unknownKeys: UnknownKeys) => SpecReading) | undefined;
}

/** What makes a kind. */
export interface SpecDefinition<S extends z.ZodType> {
  readonly kind: string;
  readonly group: string;
  readonly version: string;
  readonly specRequired: boolean;
  readonly schema: (unknownKeys: UnknownKeys) => S;
  /** The CEL rules; they see only what the schema accepts. */
  readonly rules?: (spec: z.output<S>) => readonly Violation[];
  readonly warnings?: (spec: z.output<S>) => readonly Violation[];
  /** Ends of messages, by path: what people write here who know another version. */
  readonly hints?: Readonly<Record<string, string>>;
  readonly object: (meta: ObjectMeta, spec: z.output<S>) => ResourceObject;
}

/** Paths of violations begin at the object. */
export function defineKind<S extends z.ZodType>(definition: SpecDefinition<S>): Kind {
  const { kind, group, version, specRequired, object } = definition;
  const { schema } = definition;
  const schemas = { refuse: schema("refuse"), drop: schema("drop"), stored: schema("stored") };
  return {
    kind,
    group,
    apiVersion: `${group}/${version}`,
    specRequired,
    readSpec: (spec, unknownKeys) => {
      const found: Violation[] = [];
      const result = check(spec, schemas[unknownKeys], ["spec"], found);
      if (result === undefined) return { violations: found.map((violation) => withHint(violation, definition.hints)) };
      const violations = definition.rules?.(result.output) ?? [];
      if (violations.length > 0 && unknownKeys !== "stored") return { violations };
      return {
        object: (meta) => object(meta, result.output),
        warnings: [...violations, ...(definition.warnings?.(result.output) ?? [])],
      };
    },
  };
}

function withHint({ path, problem }: Violation, hints: Readonly<Record<string, string>> = {}): Violation {
  const at = formatPath(path);
  return { path, problem: Object.hasOwn(hints, at) ? `${problem}; ${hints[at]}` : problem };
}
