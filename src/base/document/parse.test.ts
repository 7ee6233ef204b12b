import { describe, expect, it } from "vitest";
import { SluiceError } from "../inference/errors.ts";
import { parseDocument, parseDocuments } from "./parse.ts";

const parse = (text: string) => parseDocument(text, { file: "f.yaml" });

/** The message of the DOCUMENT_SYNTAX error that `text` causes. */
function failureOf(text: string): string {
  try {
    parse(text);
  } catch (error) {
    expect(error).toBeInstanceOf(SluiceError);
    expect((error as SluiceError).code).toBe("DOCUMENT_SYNTAX");
    return (error as SluiceError).message;
  }
  throw new Error(`accepted: ${text.slice(0, 60)}`);
}

const at = (document: ReturnType<typeof parse>, ...path: (string | number)[]): string => {
  const { file, line, column } = document.positionOf(path);
  return `${file}:${line}:${column}`;
};

describe("parseDocument", () => {
  it("reads YAML and JSON into the same plain value", () => {
    const value = { a: [1, "x", true, null, { b: 1.5 }], "1": "one" };
    expect(parse("a:\n- 1\n- x\n- true\n-\n- b: 1.5\n1: one\n").value).toEqual(value);
    expect(parse(JSON.stringify(value)).value).toEqual(value);
    expect(parse(JSON.stringify(value, null, "\t")).value).toEqual(value);
  });

  it("reads an empty document, or one of comments only, as null", () => {
    for (const text of ["", "\n", "# nothing\n", "\ufeff"]) {
      expect(parse(text).value).toBeNull();
      expect(at(parse(text), "a", 0)).toBe("f.yaml:1:1");
    }
  });

  it("keeps to YAML 1.2 whatever the document says: no dates, no binary, `yes` is a word", () => {
    expect(parse("%YAML 1.1\n---\na: yes\nb: 2001-01-01\n").value).toEqual({ a: "yes", b: "2001-01-01" });
  });

  it("gives the position of keys, items and, for what doesn't exist, of the nearest ancestor", () => {
    const document = parse("# head\nplugins:\n- type: x\n  parameters: {a: 1, b: [2, 3]}\r\n-   type: y\n");
    expect(at(document)).toBe("f.yaml:2:1");
    expect(at(document, "plugins")).toBe("f.yaml:2:1");
    expect(at(document, "plugins", 0, "type")).toBe("f.yaml:3:3");
    expect(at(document, "plugins", 0, "parameters", "b", 1)).toBe("f.yaml:4:29");
    expect(at(document, "plugins", 1)).toBe("f.yaml:5:5");
    expect(at(document, "plugins", 1, "weight", "deeper")).toBe("f.yaml:5:5");
    expect(at(document, "missing")).toBe("f.yaml:2:1");
    expect(at(parse('{\n  "a": {"b": 1}\n}'), "a", "b")).toBe("f.yaml:2:9");
  });

  it("follows aliases and merge keys", () => {
    const document = parse("base: &b\n  x: 1\nuse: *b\nmore:\n  <<: *b\n  y: 2\n");
    expect(document.value).toEqual({ base: { x: 1 }, use: { x: 1 }, more: { x: 1, y: 2 } });
    expect(at(document, "use", "x")).toBe("f.yaml:2:3");
  });

  it.each([
    ["a:\n\tb: 1\n", "f.yaml:2:1: a tab is used for indentation; YAML takes only spaces there"],
    ["a: 1\nb:\n  c: 1\n  c: 2\n", "f.yaml:4:3: key `c` appears twice in this mapping"],
    ['{"a": 1, "a": 2}', "f.yaml:1:10: key `a` appears twice in this mapping"],
    ["a:\n- __proto__:\n    b: 1\n", "f.yaml:2:3: the key `__proto__` is not allowed; use another name"],
    ['{"a": {"__proto__": {"b": 1}}}', "f.yaml:1:8: the key `__proto__` is not allowed; use another name"],
    ["a: &x { '__proto__': 1 }\nb: *x\n", "f.yaml:1:9: the key `__proto__` is not allowed; use another name"],
    ["a: 1\n---\nb: 2\n", "f.yaml:2:1: a second document begins here; split the file"],
    ["a:\n  b: 1\n c: 2\n", /^f\.yaml:3:1: the indentation doesn't fit/],
    ["- type: b\n   more: 1\n", /^f\.yaml:2:4: the indentation doesn't fit the lines before it/],
    ["- type: b\n\n  - type: c\n", /^f\.yaml:3:3: the indentation doesn't fit the lines before it/],
    ["a: 1\n  - type: c\n", /^f\.yaml:2:3: the indentation doesn't fit the lines before it/],
    ["a: b: c\n", /^f\.yaml:1:4: a second `: ` on one line; put the value in quotes/],
    ["a: @x\n", /^f\.yaml:1:4: a plain value can't start with this character/],
    ["a: !!binary aGk=", /^f\.yaml:1:4: Unresolved tag/],
    ["? {a: b}\n: c\n", "f.yaml:1:3: a key must be a plain value such as a word"],
    ["a: {{a: b}: c}\n", "f.yaml:1:5: a key must be a plain value such as a word"],
    [
      "weight: {{ .Values.weight | int }}\n",
      "f.yaml:1:10: `{{ ... }}` is an unfilled template placeholder; fill it in, or quote it if it is plain text",
    ],
    [": x\n", /a key must be a plain value/],
    ["<<: 1\n", "f.yaml:1:1: `<<` takes a mapping, an alias of a mapping, or a list of such aliases"],
    ["a: *q\n", "f.yaml:1:4: `*q` has no `&q` above it"],
    ["a: &q [*q]\n", "f.yaml:1:8: `*q` contains itself"],
  ])("refuses %j", (text, message) => {
    if (typeof message === "string") expect(failureOf(text)).toBe(message);
    else expect(failureOf(text)).toMatch(message);
  });

  it("accepts 100 levels and refuses more, in every notation, without overflowing the stack", () => {
    const nested = (levels: number): string => "[".repeat(levels) + "]".repeat(levels);
    expect(() => parse(nested(100))).not.toThrow();
    expect(failureOf(nested(101))).toBe("f.yaml:1:101: nested more than 100 levels deep");
    const indented = Array.from({ length: 300 }, (_, depth) => `${" ".repeat(depth)}a:\n`).join("");
    for (const text of ["[".repeat(1e6), "{a: ".repeat(3e5), "- ".repeat(5e5), "? ".repeat(5e5), indented])
      expect(failureOf(text)).toMatch(/^f\.yaml:\d+:\d+: nested more than 100 levels deep$/);
  });

  it("expands what people share by aliases, and refuses a bomb", () => {
    const shared = `l: &l {tier: gold}\ne:\n${"- {labels: *l}\n".repeat(2000)}`;
    expect((parse(shared).value as { e: unknown[] }).e).toHaveLength(2000);
    let bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
    for (let i = 1; i < 9; i++) bomb += `a${i}: &a${i} [${`*a${i - 1}, `.repeat(10)}]\n`;
    expect(failureOf(bomb)).toMatch(/^f\.yaml:\d+:\d+: aliases expand to more than 100000 values/);
  });

  it("does not let a key named like a prototype's property do harm", () => {
    const value = parse("constructor: {prototype: {polluted: 1}}\ntoString: 2\n").value as Record<string, unknown>;
    expect(Object.keys(value)).toEqual(["constructor", "toString"]);
    expect(failureOf("__proto__: {polluted: 1}\n")).toContain("f.yaml:1:1: ");
    expect(({} as Record<string, unknown>).polluted).toBeUndefined();
  });
});

describe("parseDocuments", () => {
  const parseAll = (text: string) => parseDocuments(text, { file: "f.yaml" });

  it("reads the documents of one text, each with its own positions", () => {
    const documents = parseAll("# head\n---\na: 1\n---\n# nothing\n--- {b: 2}\n...\n");
    expect(documents.map(({ value }) => value)).toEqual([{ a: 1 }, null, { b: 2 }]);
    expect([at(documents[0]!, "a"), at(documents[2]!), at(documents[2]!, "b")]).toEqual([
      "f.yaml:3:1",
      "f.yaml:6:5",
      "f.yaml:6:6",
    ]);
    expect(parseAll("")).toEqual([]);
  });

  it("keeps anchors apart and says where the later document is wrong", () => {
    expect(() => parseAll("a: &x 1\n---\nb: *x\n")).toThrow("f.yaml:3:4: `*x` has no `&x` above it");
    expect(() => parseAll("a: 1\n---\nb: 1\nb: 2\n")).toThrow("f.yaml:4:1: key `b` appears twice in this mapping");
    expect(() => parseAll("a: 1\n---\nb: [\n")).toThrow("f.yaml:3:4: `[` opened at line 3 is not closed");
  });

  it("reads 1,000 documents and refuses more", () => {
    const many = (count: number) => parseAll("--- 1\n".repeat(count));
    expect(many(1000)).toHaveLength(1000);
    expect(() => many(1001)).toThrow("f.yaml:1001:1: more than 1000 documents in one file; split the file");
  });
});
