import { describe, expect, it } from "vitest";
import { anchorsOf, faultOf, linksOf } from "./links.ts";

const FILES: Readonly<Record<string, string>> = {
  "README.md": "# Sluice\n\n## Two commands\n",
  "docs/use/a.md": '# A: `flags`, and more\n\n## Same\n\n## Same\n\n```\n# Not a heading\n```\n<a id="set"></a>\n',
  docs: "",
  "src/a.ts": "one\ntwo\n",
};
const fault = (file: string, target: string): string | undefined => faultOf(file, target, (path) => FILES[path]);

describe("the link check", () => {
  it("finds links, pictures and definitions with their lines, and none in code", () => {
    const text = [
      "[a](x.md) and [![b](y.png)](z.md#t)",
      "```",
      "[no](no.md)",
      "```",
      "`[no](no.md)` [a\nb](w.md 'title')",
      "[ref]: v.md",
      '<img src="u.png">',
    ];
    expect(linksOf(text.join("\n")).map(({ target, line }) => `${line} ${target}`)).toEqual([
      "1 x.md",
      "1 y.png",
      "1 z.md#t",
      "6 w.md",
      "7 v.md",
      "8 u.png",
    ]);
  });

  it("knows the anchors of headings as GitHub makes them", () => {
    expect([...anchorsOf(FILES["docs/use/a.md"]!)]).toEqual(["a-flags-and-more", "same", "same-1", "set"]);
  });

  it.each([
    ["README.md", "docs/use/a.md"],
    ["README.md", "docs/use/a.md#same-1"],
    ["README.md", "#two-commands"],
    ["README.md", "docs/"],
    ["docs/use/a.md", "../../README.md#sluice"],
    ["docs/use/a.md", "../../src/a.ts#L2"],
    ["docs/use/a.md", "/src/a.ts"],
    ["docs/use/a.md", "https://example.com/a.md#b"],
  ])("in %s takes %s", (file, target) => {
    expect(fault(file, target)).toBeUndefined();
  });

  it.each([
    ["README.md", "docs/use/b.md", "docs/use/b.md: there is no docs/use/b.md"],
    ["docs/use/a.md", "README.md", "README.md: there is no docs/use/README.md"],
    ["README.md", "docs/use/a.md#other", "docs/use/a.md has no heading for #other"],
    ["README.md", "#not-a-heading", "README.md has no heading for #not-a-heading"],
    ["README.md", "../x.md", "../x.md leads out of the repository"],
    ["README.md", "src/a.ts#L99", "src/a.ts has no L99"],
  ])("in %s refuses %s", (file, target, reason) => {
    expect(fault(file, target)).toBe(reason);
  });
});
