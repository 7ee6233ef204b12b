import { describe, expect, it } from "vitest";
import { DEFINITIONS, HEAD } from "../../../test/support/config/fakes.cases.ts";
import { parseDocument } from "../../base/document/parse.ts";
import { defineAdmitter } from "../../base/plugin/define.ts";
import { z } from "../../base/plugin/index.ts";
import { PluginRegistry } from "../../base/plugin/registry.ts";
import { loadConfig } from "./load.ts";

/** What a plugin of that schema is made with. */
function parametersOf(parameters: z.ZodType, given: object): unknown {
  const plugin = defineAdmitter({ type: "mine", describe: "", parameters, create: () => ({ admit: () => undefined }) });
  const text = `${HEAD}plugins: [{type: mine, parameters: ${JSON.stringify(given)}}]`;
  const config = loadConfig(parseDocument(text, { file: "c.yaml" }), new PluginRegistry([...DEFINITIONS, plugin]));
  return config.admitters[0]!.parameters;
}

const object = () => z.object({ match: z.string().optional() });

describe("a parameter that a plugin does not have (scheduling 4.4)", () => {
  it.each([
    ["an object", object()],
    ["one that is transformed", object().transform((value) => value)],
    [
      "one that is transformed twice",
      object()
        .transform((value) => value)
        .transform((value) => value),
    ],
    ["one that is refined", object().refine(() => true)],
    [
      "one that is refined and transformed",
      object()
        .superRefine(() => {})
        .transform((value) => value),
    ],
    ["one behind a preprocessing step", z.preprocess((value) => value, object())],
    ["one that goes into another schema", object().pipe(z.looseObject({}))],
    ["one that has a default", object().default({})],
    [
      "one that may be missing, then checked",
      object()
        .optional()
        .nullable()
        .readonly()
        .refine(() => true),
    ],
    ["one of several", z.union([object(), z.strictObject({ other: z.string() })])],
    ["one of several told apart", z.discriminatedUnion("kind", [object().extend({ kind: z.literal("a") })])],
  ])("is refused in the schema of %s, with the one that was meant", (_, schema) => {
    expect(() => parametersOf(schema, { kind: "a", match: "x", macth: "x" })).toThrow(/`macth`/);
  });

  it("is refused with what was meant, and what is right stays as it was", () => {
    const schema = object()
      .transform(({ match = "" }) => ({ match: match.length }))
      .refine(({ match }) => match < 4, { path: ["match"], message: "is too long" });
    expect(parametersOf(schema, { match: "abc" })).toEqual({ match: 3 });
    expect(() => parametersOf(schema, { match: "abcd" })).toThrow(
      "parameters.match: failed to create plugin mine (type: mine): is too long",
    );
    expect(() => parametersOf(schema, { macth: "abc" })).toThrow("unknown key `macth`; did you mean `match`?");
  });

  it("is taken where the author of the plugin says so", () => {
    for (const schema of [
      z.looseObject({}),
      z.looseObject({}).transform((value) => value),
      z.object({}).catchall(z.int()),
    ])
      expect(parametersOf(schema, { more: 1 })).toEqual({ more: 1 });
  });
});
