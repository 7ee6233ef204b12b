import { describe, expect, it } from "vitest";
import { parseDocument } from "./parse.ts";

function failureOf(text: string): string {
  try {
    parseDocument(text, { file: "f.yaml" });
  } catch (error) {
    expect(error).toMatchObject({ code: "DOCUMENT_SYNTAX" });
    return (error as Error).message;
  }
  throw new Error("accepted");
}

describe("a syntax error in plain words", () => {
  it.each([
    ["{ name: a, address: x, port: 1\n", "f.yaml:1:1: `{` opened at line 1 is not closed"],
    ["endpoints: [oops\n", "f.yaml:1:12: `[` opened at line 1 is not closed"],
    ['{\n"a": [\n1,\n2\n', "f.yaml:2:6: `[` opened at line 2 is not closed"],
    ['{"a": [\n1\n}', "f.yaml:1:7: `[` opened at line 1 is not closed before the `}` at line 3"],
    [
      "endpoints:\n- {name: a, port: 1\n- {name: b, port: 1}\n",
      "f.yaml:2:3: `{` opened at line 2 is not closed before line 3, which has too little indentation",
    ],
    // Brackets and quotes in the text of a block scalar or of a comment open nothing.
    ['a: |\n  { " [\n# {\nb: [1\n', "f.yaml:4:4: `[` opened at line 4 is not closed"],
    ['{"a": 1}}', "f.yaml:1:9: `}` closes no bracket: no matching bracket is open here"],
  ])("names the bracket of %j and where it opens", (text, message) => {
    expect(failureOf(text)).toBe(message);
  });

  it.each([
    ['{"a": 1\n "b": 2}', 'f.yaml:2:2: a comma or `}` is missing before `"b"`'],
    ['{"a": 1 "b": 2}', 'f.yaml:1:9: a comma or `}` is missing before `"b"`'],
    ['{"a": "x"\n "b": 2}', 'f.yaml:2:2: a comma or `}` is missing before `"b"`'],
    ["{name: a,\n address: x\n port: 2}", "f.yaml:3:2: a comma or `}` is missing before `port`"],
    ['{"a": ["x" "y"]}', 'f.yaml:1:12: a comma or `]` is missing before `"y"`'],
    ['[{"b": 1} {"c": 2}]', "f.yaml:1:11: a comma or `]` is missing before `{`"],
    ['[\n{\n"b": 1\n}\n{"c": 2}]', "f.yaml:5:1: a comma or `]` is missing before `{`"],
    ['{"name": "a", "port" 80}', "f.yaml:1:22: a `:` is missing before `80`"],
    ['{"a": 1,, "b": 2}', "f.yaml:1:9: a comma with nothing before it; remove it, or write the missing entry"],
  ])("names what %j has not got between two values", (text, message) => {
    expect(failureOf(text)).toBe(message);
  });

  it.each([
    ["name: a\nport 8000\n", "f.yaml:2:1: `port 8000` is not a key with a value: write `port: 8000`"],
    [
      "endpoints:\n- name: a\n  port 8000\n  b: x\n",
      "f.yaml:3:3: `port 8000` is not a key with a value: write `port: 8000`",
    ],
    ["port:8000\nname: a\n", "f.yaml:1:1: `port:8000` is not a key with a value: write `port: 8000`"],
    ["name: a\nport=8000\n", "f.yaml:2:1: `port=8000` is not a key with a value: write `port: 8000`"],
    ["name: a\noops\n", "f.yaml:2:1: `oops` is not a key with a value: write `key: value`"],
    [
      "a: 1\n- b\n",
      "f.yaml:2:1: a list item (`-`) among the keys of a mapping; write the key of the list on the line above",
    ],
    ['a: "x" y\n', "f.yaml:1:8: `y` follows a value that is already complete"],
  ])("shows how to write the line of %j", (text, message) => {
    expect(failureOf(text)).toBe(message);
  });

  it.each([
    ['a: 1\nb: "oops\nc: 2\n', 'f.yaml:2:4: `"` opened at line 2 is not closed'],
    ["a: 'oops\nb: 2\n", "f.yaml:1:4: `'` opened at line 1 is not closed"],
    ['a: "oops\nb: "x"\n', 'f.yaml:1:4: `"` opened at line 1 is not closed'],
    ['{"a": "oops\n}\n', 'f.yaml:1:7: `"` opened at line 1 is not closed'],
    ['{\n"a: [\n{"b": 1}]}', 'f.yaml:2:1: `"` opened at line 2 is not closed'],
    ['{"a": "x, "b": 2}', 'f.yaml:1:7: `"` opened at line 1 is not closed'],
  ])("names the quote of %j and where it opens", (text, message) => {
    expect(failureOf(text)).toBe(message);
  });

  it("keeps a message short whatever the file holds", () => {
    expect(failureOf(`a: 1\n${"x".repeat(5000)}\n`).length).toBeLessThan(150);
    expect(failureOf(`["a" ${"x".repeat(5000)}]`).length).toBeLessThan(150);
  });
});
