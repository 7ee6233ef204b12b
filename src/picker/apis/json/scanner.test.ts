import { describe, expect, it } from "vitest";
import { JsonMembers } from "./members.ts";
import { JsonScanner, MAX_DEPTH } from "./scanner.ts";

const members = new JsonMembers(["model"]);

function errorOf(text: string | Uint8Array): string | undefined {
  return members.read(new JsonScanner(typeof text === "string" ? Buffer.from(text) : text));
}

describe("JSON scanner", () => {
  // The texts of Go's encoding/json, which the reference hands on to clients (epp-protocol 9.3).
  it.each([
    ["", "unexpected end of JSON input"],
    [" \n", "unexpected end of JSON input"],
    ["{", "unexpected end of JSON input"],
    ['{"a', "unexpected end of JSON input"],
    ['{"a"', "unexpected end of JSON input"],
    ['{"a":', "unexpected end of JSON input"],
    ['{"a":1', "unexpected end of JSON input"],
    ['{"a":1,', "unexpected end of JSON input"],
    ['{"a":[1', "unexpected end of JSON input"],
    ["no healthy upstream", "invalid character 'o' in literal null (expecting 'u')"],
    ["tru", "invalid character ' ' in literal true (expecting 'e')"],
    ['{"a":falze}', "invalid character 'z' in literal false (expecting 's')"],
    ["upstream", "invalid character 'u' looking for beginning of value"],
    ['{"a":}', "invalid character '}' looking for beginning of value"],
    ["[1,]", "invalid character ']' looking for beginning of value"],
    ["{a:1}", "invalid character 'a' looking for beginning of object key string"],
    ['{"a":1,}', "invalid character '}' looking for beginning of object key string"],
    ['[{"a":1,}]', "invalid character '}' looking for beginning of object key string"],
    ['{"a" 1}', "invalid character '1' after object key"],
    ['{"a":1 "b":2}', "invalid character '\"' after object key:value pair"],
    ['{"a":{"b":1]}', "invalid character ']' after object key:value pair"],
    ["[1 2]", "invalid character '2' after array element"],
    ['{"a":[1}', "invalid character '}' after array element"],
    ["{} x", "invalid character 'x' after top-level value"],
    ["01", "invalid character '1' after top-level value"],
    ['{"a":"b\nc"}', "invalid character '\\n' in string literal"],
    ['{"a":"\u0000"}', "invalid character '\\x00' in string literal"],
    ['"\\x"', "invalid character 'x' in string escape code"],
    ['"\\u12g4"', "invalid character 'g' in \\u hexadecimal character escape"],
    ["-", "invalid character ' ' in numeric literal"],
    ["[-a]", "invalid character 'a' in numeric literal"],
    ["1.", "invalid character ' ' after decimal point in numeric literal"],
    ["[1e+]", "invalid character ']' in exponent of numeric literal"],
    ["'a'", "invalid character '\\'' looking for beginning of value"],
    ["\ufeff{}", "invalid character 'ï' looking for beginning of value"],
    [Uint8Array.of(0x80), "invalid character '\\u0080' looking for beginning of value"],
    [Uint8Array.of(0x7f), "invalid character '\\x7f' looking for beginning of value"],
  ])("E-81: says what is wrong with %j as the reference does", (text, error) => {
    expect(errorOf(text)).toBe(error);
  });

  it.each([
    ["[]", "array"],
    ['"x"', "string"],
    ["-1.5e3", "number"],
    ["true", "bool"],
    ["false", "bool"],
  ])("refuses the document %s, which is no object", (text, kind) => {
    expect(errorOf(text)).toBe(`json: cannot unmarshal ${kind} into Go value of type map[string]interface {}`);
  });

  it("reports a syntax error rather than the wrong type, and takes null for an object without members", () => {
    expect(errorOf("[1")).toBe("unexpected end of JSON input");
    expect(errorOf(" null ")).toBeUndefined();
    expect(members.kind("model")).toBeUndefined();
  });

  it("accepts nesting up to its limit and refuses one level more, also inside an object's members", () => {
    const nested = (depth: number) => "[".repeat(depth) + "]".repeat(depth);
    const scanner = new JsonScanner(Buffer.from(nested(MAX_DEPTH)));
    expect(scanner.skipValue(0)).toBe(2 * MAX_DEPTH);
    expect(errorOf(nested(MAX_DEPTH + 1))).toBe("invalid character '[' exceeded max depth");
    expect(errorOf(`{"a":${nested(MAX_DEPTH - 1)}}`)).toBeUndefined();
    expect(errorOf(`{"a":${nested(MAX_DEPTH)}}`)).toBe("invalid character '[' exceeded max depth");
    expect(errorOf('{"a":'.repeat(1_000_000))).toBe("invalid character '{' exceeded max depth");
  });

  it("finds a control character, a quote and an escape at every place of a long string", () => {
    for (let place = 0; place < 300; place++) {
      const text = Buffer.from(`{"model":"${"é".repeat(150)}"}`);
      const at = 10 + place;
      text[at] = 0x1f;
      expect(errorOf(text)).toBe("invalid character '\\x1f' in string literal");
      text[at] = 0x22;
      expect(errorOf(text)).toContain("after object key:value pair");
      text[at] = 0x5c;
      expect(errorOf(text)).toMatch(place === 299 ? "unexpected end" : "in string escape code");
    }
  });

  it("lets bytes that are not UTF-8 through inside strings, as a lenient decoder does", () => {
    const text = Buffer.from([0x7b, 0x22, 0xff, 0xc3, 0x22, 0x3a, 0x22, 0xe2, 0x82, 0x22, 0x7d]);
    expect(errorOf(text)).toBeUndefined();
    expect(() => JSON.parse(text.toString())).not.toThrow();
  });
});

describe("members of an object", () => {
  const read = (text: string, names: string[]) => {
    const found = new JsonMembers(names);
    expect(found.read(new JsonScanner(Buffer.from(text)))).toBeUndefined();
    return names.map((name) => {
      const { start, end } = found.range(name);
      return found.kind(name) === undefined ? undefined : Buffer.from(text).toString("utf8", start, end);
    });
  };

  it("gives the last of duplicate members, and only those of the top level", () => {
    const text = '{"model":"a","x":{"model":"inner"},"stream":true, "model" : [ "b" ] ,"y":["model"]}';
    expect(read(text, ["model", "stream", "absent"])).toEqual(['[ "b" ]', "true", undefined]);
  });

  it("knows a name that is written with escapes", () => {
    expect(read('{"\\u006dod\\u0065l":1,"\\u00e9":2,"é":3}', ["model", "é"])).toEqual(["1", "3"]);
    expect(read('{"\\u006d\\u006f\\u0064\\u0065\\u006c":1}', ["model"])).toEqual(["1"]);
  });

  it("tells the kinds apart", () => {
    const names = ["s", "n", "o", "a", "t", "f", "z"];
    const found = new JsonMembers(names);
    found.read(new JsonScanner(Buffer.from('{"s":"","n":-0,"o":{},"a":[],"t":true,"f":false,"z":null}')));
    expect(names.map((name) => found.kind(name))).toEqual([
      "string",
      "number",
      "object",
      "array",
      "true",
      "false",
      "null",
    ]);
    expect(names.map((name) => found.has(name))).toEqual([true, true, true, true, true, true, false]);
  });

  it("forgets the previous document", () => {
    members.read(new JsonScanner(Buffer.from('{"model":"a"}')));
    members.read(new JsonScanner(Buffer.from("{}")));
    expect(members.kind("model")).toBeUndefined();
  });
});
