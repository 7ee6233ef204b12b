import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { commented, toYaml } from "./tree.ts";

describe("toYaml", () => {
  it("puts small collections on one line, typed and large ones in blocks, and leaves out what is undefined", () => {
    const text = toYaml(
      {
        small: { a: { b: 1 } },
        typed: { "@type": "t", a: 1 },
        list: ["x".repeat(50), "y".repeat(50)],
        nothing: undefined,
        empty: {},
      },
      "heading",
    );
    expect(text).toBe(
      [
        "# heading",
        "",
        "small: { a: { b: 1 } }",
        "typed:",
        '  "@type": t',
        "  a: 1",
        "list:",
        `- ${"x".repeat(50)}`,
        `- ${"y".repeat(50)}`,
        "empty: {}",
        "",
      ].join("\n"),
    );
  });

  it("writes comments above keys and items, wrapped between words, and keeps commands whole", () => {
    const command = `  sluice ${"word ".repeat(30)}`;
    const text = toYaml(
      { a: commented(`why ${"word ".repeat(30)}`, 1), list: [commented("the item", { b: 2 })] },
      `top\n\n${command}`,
    );
    const comments = text.split("\n").filter((line) => line.trimStart().startsWith("#"));
    expect(comments[2]).toBe(`# ${command}`);
    expect(comments.filter((line) => line !== `# ${command}`).every((line) => line.length <= 102)).toBe(true);
    expect(text).toMatch(/^# word[ \w]*\na: 1$/m);
    expect(text).toContain("list:\n# the item\n- { b: 2 }\n");
    expect(parse(text)).toEqual({ a: 1, list: [{ b: 2 }] });
  });

  it("lets no text of a user leave its comment or its string", () => {
    const hostile = "x\u0085admin: {}\u2028\r\u0007y: &a [*a]";
    const text = toYaml({ a: commented(hostile, 1) }, hostile);
    expect(text.split(/[\n\r\u0085\u2028]/).filter((line) => !/^(#|$)/.test(line))).toEqual(["a: 1"]);
    const strings = { path: "/x: {a}\nadmin: 1", script: "one: 1\n  two\n", anchor: "*a", comment: "a # b" };
    expect(parse(toYaml(strings, ""))).toEqual(strings);
  });
});
