import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { admit } from "../../../test/support/apiserver/admit.ts";
import { kindOf } from "../../../test/support/apiserver/crd.ts";
import type { ApiObject } from "../../../test/support/apiserver/object.ts";
import { Refusal } from "../../../test/support/apiserver/refusal.ts";
import type { Schema } from "../../../test/support/apiserver/schema.ts";
import { readResource } from "./read.ts";

// Our parser against the definitions in deploy/crds/, judged as an API server does it (R-3, offline). One difference is meant:
// a label that is null is dropped by the server and refused by us.

const FOLDER = join(import.meta.dirname, "..", "..", "..", "deploy", "crds");
const KINDS = readdirSync(FOLDER).map((name) => kindOf(parse(readFileSync(join(FOLDER, name), "utf8")) as ApiObject));

const TEXTS = ["", "a", "A", "food", "-bad", "my.name", "example.com", "example.com/bar", "Service", "My/Kind", "ä"];
const LENGTHS = [63, 64, 253, 254, 256, 257];
const NUMBERS = [0, 1, 2, -1, 1.5, 65_535, 65_536, 1_000_000, 1_000_001, 2 ** 31 - 1, 2 ** 31, -(2 ** 31), 3e9];
const JUNK = fc.constantFrom<unknown>(null, true, 7, "7", [], {}, { number: 1 });

/** What a schema asks for, mostly. */
function nearly(schema: Schema): fc.Arbitrary<unknown> {
  return fc.oneof({ weight: 30, arbitrary: fitting(schema) }, { weight: 1, arbitrary: JUNK });
}

function fitting(schema: Schema): fc.Arbitrary<unknown> {
  if (schema.type === "integer")
    return fc.oneof(
      { weight: 8, arbitrary: fc.constantFrom(1, 80, 8000) },
      { weight: 1, arbitrary: fc.constantFrom(...NUMBERS) },
    );
  if (schema.type === "string") {
    const odd = fc.oneof(
      fc.constantFrom(...TEXTS),
      fc.constantFrom(...LENGTHS).map((length) => "x".repeat(length)),
    );
    const usual = fc.constantFrom<unknown>(...(schema.enum ?? ["a", "b", "Service"]));
    return fc.oneof({ weight: 15, arbitrary: usual }, { weight: 1, arbitrary: odd });
  }
  if (schema.type === "array") {
    const items = nearly(schema.items!);
    return fc.oneof(
      { weight: 6, arbitrary: fc.array(items, { minLength: 1, maxLength: 3 }) },
      {
        weight: 1,
        arbitrary: fc
          .constantFrom(0, 1, 8, 9, 10, 11)
          .chain((length) => fc.array(items, { minLength: length, maxLength: length })),
      },
    );
  }
  if (typeof schema.additionalProperties === "object")
    return fc.oneof(
      {
        weight: 6,
        arbitrary: fc.dictionary(
          fc.constantFrom("app", "n", "example~"),
          nearly(schema.additionalProperties).filter((value) => value !== null),
        ),
      },
      {
        weight: 1,
        arbitrary: fc
          .constantFrom(0, 1, 64, 65)
          .map((count) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`l${i}`, "x"]))),
      },
    );
  const fields = Object.entries(schema.properties ?? {}).map(([name, field]) => {
    const needed = schema.required?.includes(name) ? 30 : 1;
    const value = fc.oneof(
      { weight: needed, arbitrary: nearly(field) },
      { weight: 1, arbitrary: fc.constant(undefined) },
    );
    return [name, value] as const;
  });
  const unknown = fc.oneof({ weight: 60, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: JUNK });
  return fc.record({ ...Object.fromEntries(fields), surprise: unknown }).map(defined);
}

function defined(record: Readonly<Record<string, unknown>>): unknown {
  return Object.fromEntries(Object.entries(record).filter(([, value]) => value !== undefined));
}

describe("our parser and deploy/crds (R-3)", () => {
  it.each(KINDS.map((kind) => [`${kind.kind} of ${kind.group}`, kind] as const))("agree on every %s", (_, kind) => {
    const [version] = kind.versions;
    const spec = version!.schema.properties?.["spec"];
    const specs =
      spec === undefined
        ? fc.constantFrom<unknown>(undefined, null)
        : fc.oneof({ weight: 40, arbitrary: nearly(spec) }, { weight: 1, arbitrary: fc.constant(undefined) });
    const seen = { admitted: 0, refused: 0 };
    fc.assert(
      fc.property(specs, fc.boolean(), (given, strict) => {
        const object = {
          apiVersion: `${kind.group}/${version!.name}`,
          kind: kind.kind,
          metadata: { name: "x" },
          ...(given !== undefined && { spec: given }),
        };
        let said = "";
        try {
          const target = { kind, version: version!, namespace: "default", name: undefined, subresource: undefined };
          admit(target, structuredClone(object) as ApiObject, undefined, strict);
        } catch (error) {
          if (!(error instanceof Refusal)) throw error;
          said = error.message;
        }
        const reading = readResource(object, { unknownKeys: strict ? "refuse" : "drop" });
        const found = reading.outcome === "invalid" ? JSON.stringify(reading.violations) : "";
        seen[said === "" ? "admitted" : "refused"]++;
        expect({ server: said, ours: found, refused: found !== "" }).toMatchObject({ refused: said !== "" });
      }),
      { numRuns: 400 },
    );
    // A generator that only ever makes one of both proves nothing.
    if (spec !== undefined) expect(Math.min(seen.admitted, seen.refused)).toBeGreaterThan(20);
  });
});
