import { describe, expect, it } from "vitest";
import { z } from "zod";
import type { SluiceError } from "../inference/errors.ts";
import { formatPath } from "./document.ts";
import { duration } from "./duration-schema.ts";
import { parseDocument, parseDocuments } from "./parse.ts";
import { quantity } from "./quantity.ts";
import { check, invalidParts, type Violation, validate } from "./validate.ts";

const schema = z.strictObject({
  name: z.string().min(1),
  mode: z.enum(["fast", "careful"]).default("fast"),
  interval: duration({ moreThan: 0 }).optional(),
  size: quantity().optional(),
  labels: z.record(z.string(), z.string()).optional(),
  plugins: z
    .array(z.strictObject({ type: z.string(), weight: z.number().min(0).default(1) }))
    .max(3)
    .default([]),
  from: z.union([z.string(), z.strictObject({ path: z.string(), watchFile: z.boolean().optional() })]).optional(),
});

const read = (text: string) => validate(parseDocument(text, { file: "c.yaml" }), schema, { what: "test file" });

function failureOf(text: string): string {
  try {
    read(text);
  } catch (error) {
    expect((error as SluiceError).code).toBe("DOCUMENT_INVALID");
    return (error as SluiceError).message;
  }
  throw new Error("accepted");
}

describe("validate", () => {
  it("returns the schema's output", () => {
    expect(read("name: a\ninterval: 1m30s\nsize: 1Ki\nplugins: [{type: t}]")).toEqual({
      name: "a",
      mode: "fast",
      interval: 90_000,
      size: 1024,
      plugins: [{ type: "t", weight: 1 }],
    });
  });

  it("names the place, the path and the problem of a single violation", () => {
    expect(failureOf("name: a\nplugins:\n- type: t\n  wieght: 2\n")).toBe(
      "invalid test file: c.yaml:4:3: plugins[0].wieght: unknown key `wieght`; did you mean `weight`?",
    );
  });

  it("says that the space behind a colon is missing, in a list item and between brackets", () => {
    expect(failureOf("name: a\nplugins:\n- type:t\n")).toBe(
      'invalid test file: c.yaml:3:3: plugins[0]: expected a mapping, got the string "type:t"; write a space after the colon: `type: t`',
    );
    expect(failureOf("name: a\nplugins: [{type: t, weight:2}]\n")).toBe(
      'invalid test file: c.yaml:2:21: plugins[0]["weight:2"]: unknown key `weight:2`; write a space after the colon: `weight: 2`',
    );
    expect(failureOf("name: a\nplugins: [http://x]\n")).not.toContain("space");
  });

  it("lists every violation in the order of the file", () => {
    expect(failureOf("nmae: a\nmode: fsat\nplugins:\n- weight: -1\n- {type: 3, weight: .nan}\n")).toBe(
      [
        "invalid test file, 7 problems:",
        "  c.yaml:1:1: name: is missing (a string)",
        "  c.yaml:1:1: nmae: unknown key `nmae`; did you mean `name`?",
        '  c.yaml:2:1: mode: expected one of `fast`, `careful`, got the string "fsat"; did you mean `fast`?',
        "  c.yaml:4:3: plugins[0].type: is missing (a string)",
        "  c.yaml:4:3: plugins[0].weight: must be at least 0, got -1",
        "  c.yaml:5:4: plugins[1].type: expected a string, got 3",
        "  c.yaml:5:13: plugins[1].weight: expected a number, got NaN",
      ].join("\n"),
    );
  });

  it.each([
    ["", "c.yaml:1:1: expected a mapping, got nothing"],
    ["just words", 'c.yaml:1:1: expected a mapping, got the string "just words"'],
    ["[1]", "c.yaml:1:1: expected a mapping, got a list"],
    ["name: ''", "c.yaml:1:1: name: must not be empty"],
    ["name: a\nzzzzzz: 1", "c.yaml:2:1: zzzzzz: unknown key `zzzzzz`"],
    [
      "name: a\nplugins: [{type: a}, {type: a}, {type: a}, {type: a}]",
      "c.yaml:2:1: plugins: must have at most 3 entries, has 4",
    ],
    ["name: a\nlabels: {a.b/c: 1}", 'c.yaml:2:10: labels["a.b/c"]: expected a string, got 1'],
    [
      "name: a\ninterval: 5",
      'c.yaml:2:1: interval: expected a duration with a unit such as "50ms", "5s" or "1m30s", got 5',
    ],
    ["name: a\ninterval: 0s", "c.yaml:2:1: interval: must be more than 0ms, got 0s"],
    ["name: a\nsize: -1", "c.yaml:2:1: size: field must be non-negative, got -1"],
    ["name: a\nsize: 10Gb", 'c.yaml:2:1: size: expected a quantity such as 1000, "10Gi", "1G" or "500k", got "10Gb"'],
    ["name: a\nfrom: {paht: x, path: y}", "c.yaml:2:8: from.paht: unknown key `paht`; did you mean `path`?"],
    ["name: a\nfrom: 1", "c.yaml:2:1: from: expected a string, got 1, or expected a mapping, got 1"],
  ])("explains %j", (text, message) => {
    expect(failureOf(text)).toBe(`invalid test file: ${message}`);
  });

  it("lists at most 50 violations and counts the rest", () => {
    const lines = failureOf(`name: a\n${Array.from({ length: 60 }, (_, i) => `key${i}: 1\n`).join("")}`).split("\n");
    expect(lines[0]).toBe("invalid test file, 60 problems:");
    expect(lines).toHaveLength(52);
    expect(lines.at(-1)).toBe("  ... and 10 more");
  });
});

describe("a schema that fails itself", () => {
  const checked = (schema: z.ZodType) => {
    const problems: Violation[] = [];
    expect(check({ a: "(" }, schema, ["plugins", 0, "parameters"], problems)).toBeUndefined();
    return problems;
  };

  it("is a violation at the place it is for", () => {
    const throwing = z.object({ a: z.string().transform((text) => new RegExp(text)) });
    const waiting = z.object({ a: z.string().refine(async () => true) });
    for (const [schema, problem] of [
      [throwing, "Invalid regular expression"],
      [waiting, "Promise"],
    ] as const)
      expect(checked(schema)).toEqual([
        { path: ["plugins", 0, "parameters"], problem: expect.stringContaining(problem) },
      ]);
  });
});

describe("invalidParts", () => {
  it("lists what is wrong with several documents of a file in the order of the file", () => {
    const documents = parseDocuments("a: 1\n---\nb: 2\n", { file: "c.yaml" });
    const parts = documents.map((document) => ({ document, violations: [{ path: ["b"], problem: "wrong" }] }));
    expect(invalidParts(parts.toReversed(), "file").message).toBe(
      "invalid file, 2 problems:\n  c.yaml:1:1: b: wrong\n  c.yaml:3:1: b: wrong",
    );
  });
});

describe("formatPath", () => {
  it("is unambiguous", () => {
    expect(formatPath(["a", 0, "b-c", "x.y", ""])).toBe('a[0].b-c["x.y"][""]');
    expect(formatPath([])).toBe("");
  });
});
