import { z } from "zod";
import { formatPath } from "../../base/document/document.ts";
import { isObject } from "../../base/document/json-object.ts";
import { didYouMean, nearest } from "../../base/document/nearest.ts";
import { check, type Violation } from "../../base/document/validate.ts";
import { annotationWarnings } from "./fairness-weight.ts";
import type { Kind } from "./kind.ts";
import { GROUP, type ObjectMeta, type ResourceObject } from "./objects.ts";
import { experimentalPool, stablePool } from "./pool-kinds.ts";
import {
  defaulting,
  labels,
  mapping,
  namespace,
  optional,
  stringMap,
  text,
  time,
  type UnknownKeys,
  whole,
} from "./scalars.ts";
import { model, objectives, rewrites } from "./workload-kinds.ts";

/** Names of custom resources are DNS subdomains. */
const NAME = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;

/** Written and read by multi-cluster controllers; it has no spec, and a picker has no use for it (api-resources 1.9). */
const poolImport: Kind = {
  kind: "InferencePoolImport",
  group: GROUP.experimental,
  apiVersion: `${GROUP.experimental}/v1alpha1`,
  specRequired: false,
  readSpec: undefined,
};

const KINDS: readonly Kind[] = [stablePool, experimentalPool, model, ...objectives, ...rewrites, poolImport];
const KIND_NAMES: readonly string[] = [...new Set(KINDS.map(({ kind }) => kind))];
const GROUPS: readonly string[] = Object.values(GROUP);

/** The result of reading an object of a manifest. Paths of violations begin at the object. */
type ResourceReading =
  | {
      readonly outcome: "usable";
      readonly object: ResourceObject;
      /** Parts that are allowed but probably a mistake. */
      readonly warnings: readonly Violation[];
    }
  /** Admitted, but without a `spec` the object has no effect. */
  | { readonly outcome: "empty"; readonly warnings: readonly Violation[] }
  /** The object is of a kind that Sluice does not use. */
  | { readonly outcome: "ignored" }
  | { readonly outcome: "invalid"; readonly violations: readonly Violation[] };

/** How objects are read. */
export interface ReadOptions {
  /** Namespace of objects that name none; default `default`. */
  readonly namespace?: string;
  /** Default `refuse`. */
  readonly unknownKeys?: UnknownKeys;
}

/**
 * Reads one object as the API server would admit it when it is created: nulls dropped, defaults filled in, structure checked,
 * then the CEL rules (api-resources 1.1 to 1.10). `status` is ignored, as on create.
 * @param value a plain object, as parsed from YAML or JSON
 */
export function readResource(value: unknown, options: ReadOptions = {}): ResourceReading {
  const violations: Violation[] = [];
  const kind = kindOf(value, violations);
  if (kind === undefined) return violations.length > 0 ? { outcome: "invalid", violations } : { outcome: "ignored" };

  const unknownKeys = options.unknownKeys ?? "refuse";
  const schema = kind.readSpec === undefined ? SPECLESS_OBJECT : OBJECT;
  const envelope = check(value, schema[unknownKeys], [], violations);
  const spec = (value as { readonly spec?: unknown }).spec ?? undefined;
  const hasSpec = kind.readSpec !== undefined && (spec !== undefined || kind.specRequired);
  const reading = hasSpec ? kind.readSpec(spec, unknownKeys) : undefined;
  if (reading !== undefined && "violations" in reading) violations.push(...reading.violations);
  if (envelope === undefined || violations.length > 0) return { outcome: "invalid", violations };

  if (kind.readSpec === undefined) return { outcome: "ignored" };
  const meta = objectMeta(envelope.output.metadata, options.namespace ?? "default");
  if (reading === undefined || "violations" in reading) {
    const problem = `${kind.kind} ${meta.namespace}/${meta.name} has no \`spec\` and no effect`;
    return { outcome: "empty", warnings: [{ path: [], problem }] };
  }
  const warnings = [...reading.warnings, ...annotationWarnings(kind.kind, meta)];
  return { outcome: "usable", object: reading.object(meta), warnings };
}

/** The kinds of lists that hold Sluice's kinds: that of all objects, and `InferencePoolList` and the like. */
export function isList(value: unknown): value is Readonly<Record<string, unknown>> {
  if (!isObject(value) || typeof value.kind !== "string" || !value.kind.endsWith("List")) return false;
  const of = value.kind.slice(0, -"List".length);
  return of === "" || (KIND_NAMES.includes(of) && GROUPS.includes(groupOf(value.apiVersion)));
}

/** In a list that states the kind of its items, the items need not state it. */
export function itemOf(list: Readonly<Record<string, unknown>>, item: unknown): unknown {
  if (list.kind === "List" || !isObject(item)) return item;
  return { apiVersion: list.apiVersion, kind: String(list.kind).slice(0, -"List".length), ...item };
}

const OBJECT = objectSchemas({ spec: z.unknown().optional() });
const SPECLESS_OBJECT = objectSchemas({});

function objectSchemas(shape: { readonly spec?: z.ZodType }) {
  const schema = (unknownKeys: UnknownKeys) =>
    mapping(
      {
        apiVersion: z.string(),
        kind: z.string(),
        metadata: metadataSchema(unknownKeys),
        status: z.unknown().optional(),
        ...shape,
      },
      unknownKeys,
    );
  return { refuse: schema("refuse"), drop: schema("drop"), stored: schema("stored") };
}

/** @returns undefined for an object of another kind; with a violation, when it is probably a mistake for one of Sluice's kinds */
function kindOf(value: unknown, into: Violation[]): Kind | undefined {
  const type = check(value, TYPE, [], into)?.output;
  if (type === undefined) return undefined;
  const { apiVersion, kind } = type;
  const group = groupOf(apiVersion);
  const versions = KINDS.filter((known) => known.kind === kind);
  if (versions.length === 0) {
    if (GROUPS.includes(group) && nearest(kind, KIND_NAMES) !== undefined)
      into.push({ path: ["kind"], problem: `${group} has no kind \`${kind}\`${didYouMean(kind, KIND_NAMES)}` });
    return undefined;
  }
  const found = versions.find((version) => version.apiVersion === apiVersion);
  if (found !== undefined) return found;
  const known = versions.map((version) => version.apiVersion);
  const list = known.map((version) => `\`${version}\``).join(", ");
  into.push({
    path: ["apiVersion"],
    problem: `${kind} is known as ${list}, not as \`${apiVersion}\``,
  });
  return undefined;
}

const typeText = (example: string) =>
  z
    .string({ error: ({ input }) => (input === undefined || input === null ? `is missing; ${example}` : undefined) })
    .min(1);

/** The fields that every manifest has. */
const TYPE = z.object({
  apiVersion: typeText(`every Kubernetes object has one, for example ${GROUP.stable}/v1`),
  kind: typeText("every Kubernetes object has one, for example InferencePool"),
});

function groupOf(apiVersion: unknown): string {
  const text = String(apiVersion);
  return text.slice(0, Math.max(0, text.indexOf("/")));
}

/** Schema of `metadata`: the fields of an author and those of a server. */
function metadataSchema(unknownKeys: UnknownKeys) {
  return mapping(
    {
      name: text({
        min: 1,
        max: 253,
        pattern: NAME,
        shape: "lower-case letters, digits, hyphens and dots with a letter or digit at both ends, such as llama-8b",
        missing: "every object needs a name of its own",
      }),
      namespace: optional(namespace()),
      labels: defaulting(labels(), {}),
      annotations: defaulting(stringMap(text({})), {}),
      uid: defaulting(text({}), ""),
      generation: defaulting(whole({ min: 0 }), 0),
      creationTimestamp: defaulting(time(), 0),
      deletionTimestamp: optional(time()),
      // The code depends on none of these fields.
      deletionGracePeriodSeconds: z.unknown().optional(),
      finalizers: z.unknown().optional(),
      generateName: z.unknown().optional(),
      managedFields: z.unknown().optional(),
      ownerReferences: z.unknown().optional(),
      resourceVersion: z.unknown().optional(),
      selfLink: z.unknown().optional(),
    },
    unknownKeys,
    "write at least `metadata: {name: ...}`",
  );
}

/** @param defaultNamespace of objects that name none */
function objectMeta(read: z.output<ReturnType<typeof metadataSchema>>, defaultNamespace: string): ObjectMeta {
  return {
    name: read.name,
    namespace: read.namespace ?? defaultNamespace,
    uid: read.uid,
    creationTimestamp: read.creationTimestamp,
    generation: read.generation,
    deleting: read.deletionTimestamp !== undefined,
    labels: read.labels,
    annotations: read.annotations,
  };
}

/** The meaning of an object from an API server. */
interface ServedObject {
  /** Undefined: the object has no effect, or it is broken. */
  readonly object: ResourceObject | undefined;
  /** The object is of one of Sluice's kinds and cannot be read. An object that only has no effect is not broken. */
  readonly broken: boolean;
  /** Violations and probable mistakes, one line each. Each line begins with the kind and the name of the object. */
  readonly problems: readonly string[];
}

/**
 * Reads an object of one of Sluice's kinds as an API server sends it. Unknown fields are those of a newer release and are
 * ignored. Values that only the definition of another release admits are still read.
 * @param value with `apiVersion` and `kind`
 */
export function readServed(value: Readonly<Record<string, unknown>>): ServedObject {
  const reading = readResource(value, { unknownKeys: "stored" });
  const found = "violations" in reading ? reading.violations : "warnings" in reading ? reading.warnings : [];
  const { namespace = "", name = "" } = (value["metadata"] ?? {}) as { namespace?: string; name?: string };
  const problems = found.map(({ path, problem }) => {
    const at = path.length === 0 ? "" : `${formatPath(path)}: `;
    return `${String(value["kind"])} ${namespace}/${name}: ${at}${problem}`;
  });
  const object = reading.outcome === "usable" ? reading.object : undefined;
  return { object, broken: reading.outcome === "invalid", problems };
}
