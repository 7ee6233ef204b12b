import { z } from "zod";
import { check, type Violation } from "../../base/document/validate.ts";
import { CONDITION, type Condition, MAX_CONDITIONS, MAX_MESSAGE, pendingCondition } from "./condition.ts";
import { GROUP } from "./objects.ts";
import { MAX_PARENTS, type ParentStatus, SENTINEL } from "./pool-parents.ts";
import {
  defaulting,
  group,
  kindName,
  mapping,
  namespace,
  objectName,
  optional,
  PATTERN,
  text,
  whole,
} from "./scalars.ts";
import { parseTime } from "./time.ts";

/** A status that was read, or what is wrong with it; paths begin at the object. */
export type StatusReading<T> = { readonly status: T } | { readonly violations: readonly Violation[] };

/** Unknown keys of a status are dropped: other controllers write it too, and may be newer. */
const UNKNOWN = "drop";

const condition: z.ZodType<Condition> = mapping(
  {
    type: text({ max: 316, pattern: PATTERN.conditionType, shape: "a name such as Accepted or example.com/Accepted" }),
    status: z.enum(["True", "False", "Unknown"]),
    reason: text({
      min: 1,
      max: 1024,
      pattern: PATTERN.conditionReason,
      shape: "letters, digits, underscores, colons and commas, such as InvalidExtensionRef",
    }),
    message: text({ max: MAX_MESSAGE }),
    lastTransitionTime: text({}).refine((value) => parseTime(value) !== undefined, {
      error: "must be a time such as 2026-01-31T12:00:00Z",
    }),
    observedGeneration: optional(whole({ min: 0 })),
  },
  UNKNOWN,
);

const conditionList = z.array(condition).max(MAX_CONDITIONS).superRefine(unique("type"));

/** Refuses a list in which two entries have the same value of a key. */
function unique<K extends string>(key: K) {
  return (entries: readonly Readonly<Record<K, string>>[], context: z.RefinementCtx): void => {
    const seen = new Set<string>();
    for (const [at, entry] of entries.entries()) {
      const value = entry[key];
      if (seen.has(value))
        context.addIssue({
          code: "custom",
          path: [at, key],
          message: `duplicate value \`${value}\`; one entry per ${key}`,
        });
      seen.add(value);
    }
  };
}

const PARENT_REF = "the Gateway that the entry is about, for example `parentRef: {name: inference-gateway}`";

const controllerName = () =>
  text({
    min: 1,
    max: 253,
    pattern: PATTERN.controllerName,
    shape: "a domain, a slash and a path, such as example.com/gateway-controller",
  });

const stableParent: z.ZodType<ParentStatus> = mapping(
  {
    parentRef: mapping(
      {
        group: defaulting(group(), "gateway.networking.k8s.io"),
        kind: defaulting(kindName(), "Gateway"),
        name: objectName("the name of the Gateway"),
        namespace: optional(namespace()),
      },
      UNKNOWN,
      PARENT_REF,
    ),
    conditions: optional(conditionList),
    controllerName: optional(controllerName()),
  },
  UNKNOWN,
);

/**
 * Up to v0.4 the reference was a core ObjectReference, whose parts are all optional texts: an absent name is read as
 * empty, absent parts stay absent.
 */
const experimentalParent: z.ZodType<ParentStatus> = mapping(
  {
    parentRef: mapping(
      {
        group: optional(text({})),
        kind: optional(text({})),
        name: defaulting(text({}), ""),
        namespace: optional(text({})),
      },
      UNKNOWN,
      PARENT_REF,
    ),
    conditions: defaulting(conditionList, [pendingCondition(CONDITION.accepted)]),
  },
  UNKNOWN,
);

const stablePool = mapping({ parents: defaulting(z.array(stableParent).max(MAX_PARENTS), []) }, UNKNOWN);
const experimentalPool = mapping({ parent: defaulting(z.array(experimentalParent).max(MAX_PARENTS), []) }, UNKNOWN);

/**
 * The parents in the `status` of an InferencePool of either group, defaults filled in (api-resources 1.3, 1.5): a
 * v1alpha2 pool without a status has the sentinel.
 * @param poolGroup the group the pool was written in
 */
export function readPoolStatus(poolGroup: string, status: unknown): StatusReading<readonly ParentStatus[]> {
  if (poolGroup === GROUP.stable) return read(status ?? {}, stablePool, ({ parents }) => parents);
  return read(status ?? { parent: [SENTINEL] }, experimentalPool, ({ parent }) => parent);
}

/** What is read from kinds whose status is a list of conditions; they differ in the type that waits at first. */
const CONDITIONS = {
  InferenceModel: conditionsOf(CONDITION.ready),
  InferenceObjective: conditionsOf(CONDITION.ready),
  InferenceModelRewrite: conditionsOf(CONDITION.accepted),
} as const;

function conditionsOf(pendingType: string) {
  return mapping({ conditions: defaulting(conditionList, [pendingCondition(pendingType)]) }, UNKNOWN);
}

/**
 * The conditions in the `status` of an InferenceModel, InferenceObjective or InferenceModelRewrite (api-resources 1.4,
 * 1.7, 1.8). None where there is no status at all: defaults are filled only into what exists (1.10).
 */
export function readConditions(kind: keyof typeof CONDITIONS, status: unknown): StatusReading<readonly Condition[]> {
  if (status === undefined || status === null) return { status: [] };
  return read(status, CONDITIONS[kind], ({ conditions }) => conditions);
}

/** What one controller says in the status of an InferencePoolImport. */
export interface ImportController {
  readonly name: string;
  readonly exportingClusters: readonly { readonly name: string }[];
  readonly parents: readonly ParentStatus[];
  readonly conditions: readonly Condition[];
}

const importStatus = mapping(
  {
    controllers: z
      .array(
        mapping(
          {
            name: controllerName(),
            exportingClusters: defaulting(
              z.array(mapping({ name: objectName("the name of the cluster") }, UNKNOWN)),
              [],
            ),
            parents: defaulting(z.array(stableParent), []),
            conditions: defaulting(conditionList, []),
          },
          UNKNOWN,
        ),
      )
      .max(8)
      .superRefine(unique("name")),
  },
  UNKNOWN,
);

/** The controllers in the `status` of an InferencePoolImport (api-resources 1.9); none where there is no status. */
export function readImportStatus(status: unknown): StatusReading<readonly ImportController[]> {
  if (status === undefined || status === null) return { status: [] };
  return read(status, importStatus, ({ controllers }) => controllers);
}

function read<S extends z.ZodType, T>(value: unknown, schema: S, pick: (output: z.output<S>) => T): StatusReading<T> {
  const violations: Violation[] = [];
  const result = check(value, schema, ["status"], violations);
  return result === undefined ? { violations } : { status: pick(result.output) };
}
