import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { EXPECTED, type Field } from "./expected.cases.ts";

const folder = join(import.meta.dirname, "..", "..", "deploy", "crds");

interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly additionalProperties?: Schema;
  readonly [keyword: string]: unknown;
}

const files = new Map(
  readdirSync(folder).map((name) => [name, parse(readFileSync(join(folder, name), "utf8"), { version: "1.1" })]),
);

/** What a schema says of each field, by path; descriptions are free and left out. */
function fieldsOf(schema: Schema): Record<string, Field> {
  const found: Record<string, Field> = {};
  const walk = (at: string, { properties, required = [], items, additionalProperties, ...rest }: Schema): void => {
    const { description: _, ...field } = rest;
    if (at !== "") found[at] = { ...(found[at] ?? {}), ...(field as Field) };
    for (const [name, child] of Object.entries(properties ?? {})) walk(at === "" ? name : `${at}.${name}`, child);
    for (const name of required) {
      const path = at === "" ? name : `${at}.${name}`;
      found[path] = { ...found[path]!, required: true };
    }
    if (items !== undefined) walk(`${at}[]`, items);
    if (additionalProperties !== undefined) walk(`${at}{}`, additionalProperties);
  };
  walk("", schema);
  return found;
}

/** Every description in a schema, by path. */
function undescribed(schema: Schema, at: string): string[] {
  const children: [string, Schema][] = Object.entries(schema.properties ?? {}).map(([name, child]) => [
    `${at}.${name}`,
    child,
  ]);
  if (schema.items !== undefined) children.push([`${at}[]`, schema.items]);
  const own = typeof schema["description"] === "string" || at.endsWith(".metadata") ? [] : [at];
  return [...own, ...children.flatMap(([path, child]) => undescribed(child, path))];
}

describe("deploy/crds (R-1, R-2)", () => {
  it("has a file for every kind in every group and none besides", () => {
    expect([...files.keys()].sort()).toEqual(EXPECTED.map(({ plural, group }) => `${plural}.${group}.yaml`).sort());
  });

  it.each(EXPECTED.map((expected) => [`${expected.plural}.${expected.group}`, expected] as const))(
    "R-1: %s is as section 1 says, field by field",
    (name, { group, version, kind, plural, shortNames, columns, fields }) => {
      const definition = files.get(`${name}.yaml`);
      const { schema, ...served } = definition.spec.versions[0];
      expect({ ...definition.spec, versions: [served], metadataName: definition.metadata.name }).toEqual({
        group,
        names: {
          kind,
          listKind: `${kind}List`,
          plural,
          singular: kind.toLowerCase(),
          ...(shortNames && { shortNames }),
        },
        scope: "Namespaced",
        metadataName: name,
        versions: [
          {
            name: version,
            served: true,
            storage: true,
            subresources: { status: {} },
            ...(columns && {
              additionalPrinterColumns: columns.map(([column, type, jsonPath]) => ({ name: column, type, jsonPath })),
            }),
          },
        ],
      });
      expect(schema.openAPIV3Schema.type).toBe("object");
      expect(fieldsOf(schema.openAPIV3Schema)).toEqual(fields);
    },
  );

  it("tells `kubectl explain` what every field is for", () => {
    const silent = [...files.values()].flatMap(({ metadata, spec }) =>
      undescribed(spec.versions[0].schema.openAPIV3Schema, metadata.name),
    );
    expect(silent).toEqual([]);
  });

  it("R-2: the group under k8s.io is marked as approved, and all share one bundle version", () => {
    const annotations = [...files.values()].map(({ spec, metadata }) => [spec.group, metadata.annotations]);
    const gaie = { "inference.networking.k8s.io/bundle-version": "v1.6.0" };
    const expected = {
      "inference.networking.k8s.io": {
        ...gaie,
        "api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/gateway-api-inference-extension/pull/1173",
      },
      "inference.networking.x-k8s.io": gaie,
      "llm-d.ai": { "llm-d.ai/bundle-version": "v1.6.0" },
    };
    for (const [group, found] of annotations) expect(found).toEqual(expected[group as keyof typeof expected]);
  });
});
