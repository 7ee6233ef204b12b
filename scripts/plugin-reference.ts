import { z } from "zod";
import { POOL } from "../src/async/dispatch/config/options.ts";
import { queueList, TRANSPORT_SCHEMAS, TRANSPORTS } from "../src/async/dispatch/config/transport-fields.ts";
import { MERGE_POLICIES } from "../src/async/dispatch/merge/policy-file.ts";
import { GCS_PARAMETERS } from "../src/async/dispatch/transforms/gcs-uri-multipart.ts";
import { METRIC_GATES, METRIC_SOURCES, VERDICT_GATES } from "../src/async/gates/builtin-gates.ts";
import { PLUGINS } from "../src/picker/core/plugins/plugins.ts";

interface Definition {
  readonly type: string;
  readonly describe: string;
  readonly parameters: z.ZodType;
}

/** The page of all plugin types with their parameters, from the definitions. */
export function pluginsReference(): string {
  const sections = byType(PLUGINS).map((definition) => section(definition, `*${definition.kind}.* `));
  return ["# Plugins", "", "The types that a configuration may name.", "", ...sections].join("\n");
}

/** The page of the dispatcher's gates and of what `metric-budget` reads, from the definitions. */
export function gatesReference(): string {
  return [
    "# Gates",
    "",
    "The values of `gate_type` of a queue or a worker pool, with the `gate_params` of each. A value can be JSON or text",
    '(`3` or `"3"`, an object or its JSON text). A parameter that is absent, null or an empty text has its default.',
    "",
    ...byType([...VERDICT_GATES, ...METRIC_GATES]).map((definition) => section(definition)),
    "# Metric sources",
    "",
    "The values of `type` of a source of the gate `metric-budget`.",
    "",
    ...byType(METRIC_SOURCES).map((definition) => section(definition)),
  ].join("\n");
}

/** The page of all keys of the dispatcher's files besides its flags, from the schemas. */
export function dispatchFilesReference(): string {
  return [
    "# Keys of dispatcher files",
    "",
    "The keys of a dispatch.yaml are the flags of `sluice dispatch` ([flags.md](flags.md)), `transport`, `plugins` and the",
    "sections below. The reference's files have the content of one section each. `sluice validate` checks all of these files.",
    "",
    ...TRANSPORTS.flatMap((name) => {
      const schema: z.ZodObject = TRANSPORT_SCHEMAS[name];
      const list = queueList(name);
      const entry = (schema.shape[list] as z.ZodArray<z.ZodObject>).element;
      return [
        `## Transport ${name}`,
        "",
        `The keys of \`transport-config\` with \`transport: ${name}\`.`,
        "",
        ...keyTable(schema),
        "",
        `The keys of an entry of \`${list}\`:`,
        "",
        ...keyTable(entry),
        "",
      ];
    }),
    ...["## Worker pools", "", "The keys of an entry of `pool-config`.", "", ...keyTable(POOL), ""],
    ...["## Merge policies", "", "`request-merge-policy-config` has `type` and `parameters`.", ""],
    ...Object.entries(MERGE_POLICIES).flatMap(([type, schema]) => [
      ...[`The parameters of \`${type}\`:`, "", ...keyTable(schema), ""],
    ]),
    ...[
      "## Transforms",
      "",
      "`transform-config` has a list `requestTransforms` of `name`, `type` and `parameters`.",
      "",
    ],
    ...["The parameters of `gcs_uri_multipart`:", "", ...keyTable(GCS_PARAMETERS), ""],
  ].join("\n");
}

/** A key is required where its schema refuses an absent value. */
function keyTable({ shape }: z.ZodObject): readonly string[] {
  const rows = Object.entries(shape as Readonly<Record<string, z.ZodType>>).map(([key, schema]) => {
    const absent = schema.safeParse(undefined);
    const given = absent.success && absent.data !== undefined ? absent.data : undefined;
    const isEmpty = given === "" || (typeof given === "object" && Object.keys(given as object).length === 0);
    const standard = absent.success
      ? given === undefined || isEmpty
        ? ""
        : `\`${JSON.stringify(given)}\``
      : "required";
    return `| \`${key}\` | ${standard} | ${schema.description ?? ""} |`;
  });
  return ["| Key | Default | |", "|---|---|---|", ...rows];
}

function byType<D extends Definition>(definitions: readonly D[]): readonly D[] {
  return [...definitions].sort((a, b) => a.type.localeCompare(b.type));
}

/** @param kind stands before the sentence that describes it */
function section(definition: Definition, kind = ""): string {
  const schema = z.toJSONSchema(definition.parameters, { io: "input", unrepresentable: "any" }) as {
    properties?: Record<string, { type?: string; default?: unknown; description?: string }>;
  };
  const parameters = Object.entries(schema.properties ?? {}).map(
    ([name, property]) =>
      `| \`${name}\` | ${property.type ?? ""} | ${defaultOf(definition, name, property.default)} | ${property.description ?? ""} |`,
  );
  return [
    `## ${definition.type}`,
    "",
    `${kind}${definition.describe}`,
    "",
    ...(parameters.length === 0
      ? ["No parameters."]
      : ["| Parameter | Type | Default | |", "|---|---|---|---|", ...parameters]),
    "",
  ].join("\n");
}

/** The default as a configuration would have it, `required` where there must be a value, else nothing. */
function defaultOf({ parameters }: Definition, name: string, value: unknown): string {
  if (value !== undefined) return `\`${JSON.stringify(value)}\``;
  const field = parameters instanceof z.ZodObject ? (parameters.shape[name] as z.ZodType | undefined) : undefined;
  return field === undefined || field.safeParse(undefined).success ? "" : "required";
}
