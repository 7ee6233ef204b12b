import type { z } from "zod";
import { formatPath, type Path } from "../../base/document/document.ts";
import { check, type Violation } from "../../base/document/validate.ts";
import type { InferenceModel, ObjectMeta, ResourceObject } from "./objects.ts";
import type { UnknownKeys } from "./scalars.ts";

/** The result of reading the `spec` of an object. */
type SpecReading =
  | { readonly violations: readonly Violation[] }
  | {
      /** Makes the object from its metadata. */
      readonly object: (meta: ObjectMeta) => ResourceObject;
      /** Parts that are allowed but probably a mistake. */
      readonly warnings: readonly Violation[];
    };

/** One version of one of Sluice's kinds. */
export interface Kind {
  readonly kind: string;
  readonly group: string;
  /** `group/version`. */
  readonly apiVersion: string;
  /** False: an object without `spec` is admitted and means nothing (api-resources 1.3, 1.4). */
  readonly specRequired: boolean;
  /** Undefined for a kind without `spec`: nothing of such an object is kept. */
  readonly readSpec: ((spec: unknown, unknownKeys: UnknownKeys) => SpecReading) | undefined;
}

/** The definition of a kind. */
interface SpecDefinition<S extends z.ZodType> {
  readonly kind: string;
  readonly group: string;
  readonly version: string;
  readonly specRequired: boolean;
  readonly schema: (unknownKeys: UnknownKeys) => S;
  /** The CEL rules. They see only values that the schema accepts. */
  readonly rules?: (spec: z.output<S>) => readonly Violation[];
  readonly warnings?: (spec: z.output<S>) => readonly Violation[];
  /** Endings for messages, by path: hints for people who know another version. */
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

// The rules that the API server evaluates as CEL expressions (api-resources 1.1). Each message begins with the words of the
// published rule, so that a search for them finds it.

/** `weights`: weights for all targets or for none. @param at path of the list */
export function weightsAllOrNone(
  targets: readonly { readonly weight: number | undefined }[],
  at: Path,
): readonly Violation[] {
  const without = targets.findIndex(({ weight }) => weight === undefined);
  if (without < 0 || targets.every(({ weight }) => weight === undefined)) return [];
  const problem = "Weights should be set for all models, or none of the models.";
  return [{ path: at, problem: `${problem} (entry ${without + 1} has no weight)` }];
}

/** `uniquePorts`. @param at path of the list */
export function uniquePorts(ports: readonly number[], at: Path): readonly Violation[] {
  const again = ports.find((port, index) => ports.indexOf(port) < index);
  if (again === undefined) return [];
  return [{ path: at, problem: `port number must be unique (${again} is listed again)` }];
}

/** `eppPort`: a Service needs a port. @param at path of the reference */
export function servicePort(
  picker: { readonly kind: string; readonly port: unknown } | undefined,
  at: Path,
): readonly Violation[] {
  if (picker === undefined || picker.kind !== "Service" || picker.port !== undefined) return [];
  const problem = "port is required when kind is 'Service' or unspecified (defaults to 'Service')";
  return [{ path: at, problem: `${problem}; write for example \`port: {number: 9002}\`` }];
}

/**
 * `immutable`, the transition rule of an InferenceModel. It applies when an object replaces another one with the same namespace
 * and name.
 */
export function transitionViolations(before: InferenceModel, after: InferenceModel): readonly Violation[] {
  if (before.modelName === after.modelName) return [];
  const problem = `modelName is immutable (it was ${JSON.stringify(before.modelName)})`;
  return [
    {
      path: ["spec", "modelName"],
      problem: `${problem}; keep it, or create an object with the new modelName and another metadata.name`,
    },
  ];
}
