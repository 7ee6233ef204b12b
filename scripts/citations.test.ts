import { describe, expect, it } from "vitest";
import { type Citation, citationsIn } from "./citation-text.ts";
import { deadCitations, definitionsIn, untested } from "./citations.ts";

const PAGE = [
  '## <a id="3"></a>3 Plugins',
  '### <a id="3-4"></a>3.4 Producers',
  "1. the first",
  "2. the second",
  '### <a id="3-5"></a>3.5 Hints',
  '#### <a id="3-5-1"></a>3.5.1 Forms',
  '## <a id="appendix-b"></a>Appendix B Scenarios',
  "| Id | Test | Clause |",
  "|---|---|---|",
  '| <a id="s-50"></a>S-50 | Twice the same | 3.4, 3.5.1 |',
  '| <a id="s-51"></a>S-51 | Another tenant | |',
].join("\n");
const DEFINED = definitionsIn("scheduling", PAGE);
const FILES = ["docs/adr/0004-prefix-hash.md", "docs/spec/scheduling.md"];

const targets = (text: string): (string | undefined)[] => citationsIn("src/a.ts", text).map(({ target }) => target);
const scheduling = (...anchors: string[]): string[] => anchors.map((anchor) => `docs/spec/scheduling.md#${anchor}`);
const dead = (text: string): string[] => deadCitations(citationsIn("src/a.ts", text), DEFINED, FILES);

describe("what a text cites", () => {
  it.each([
    ["(scheduling 3.4)", ["3-4"]],
    ["scheduling 3.4, 3.7.1; 8.1", ["3-4", "3-7-1", "8-1"]],
    ["scheduling 8.3-8.6 and 9.1", ["8-3", "8-4", "8-5", "8-6", "9-1"]],
    ["scheduling 8.3 to 8.5", ["8-3", "8-4", "8-5"]],
    ["scheduling 3.10.4(5), appendix C", ["3-10-4-5", "appendix-c"]],
    ["// as in scheduling\n  // 3.4 says", ["3-4"]],
    ["/** scheduling\n * 3.4, S-51 */", ["3-4", "s-51"]],
    ["S-50, S-100: both", ["s-50", "s-100"]],
    ["docs/spec/scheduling.md#3-4", ["3-4"]],
  ])("%j: %j", (text, anchors) => {
    expect(targets(text)).toEqual(scheduling(...anchors));
  });

  it("has the page of each letter, of pitfalls and of records", () => {
    expect(
      targets("A-1 E-02 R-3 X-6; pitfalls 9 and 20; ADR 12, docs/adr/0015 and 0017, docs/adr/0004-prefix-hash.md"),
    ).toEqual([
      "docs/spec/async-processor.md#a-1",
      "docs/spec/epp-protocol.md#e-02",
      "docs/spec/api-resources.md#r-3",
      "docs/spec/api-resources.md#x-6",
      "docs/spec/epp-protocol.md#pitfall-9",
      "docs/spec/epp-protocol.md#pitfall-20",
      "docs/adr/0012",
      "docs/adr/0015",
      "docs/adr/0017",
      "docs/adr/0004-prefix-hash.md",
    ]);
  });

  it("is no curve, no header name, no version, no figure", () => {
    expect(targets('ECDSA P-256, "X-0", UTF-8, v1.5, scheduling takes 3 ms, an H-bridge, S-3x')).toEqual([]);
  });

  it("names the line", () => {
    expect(citationsIn("src/a.ts", "\n\n// S-50\n")[0]).toMatchObject({ file: "src/a.ts", line: 3, text: "S-50" });
  });
});

describe("a citation that leads nowhere", () => {
  it.each([
    ["scheduling 3.6", /^src\/a\.ts:1: "scheduling 3\.6" is not there: docs\/spec\/scheduling\.md#3-6$/],
    ["scheduling 3.4(3)", /"scheduling 3\.4\(3\)" is not there/],
    ["scheduling appendix C", /"scheduling appendix C" is not there/],
    ["S-52", /"S-52" is not there/],
    ["E-01", /"E-01" is not there/],
    ["pitfall 36", /"pitfall 36" is not there/],
    ["ADR 0099", /"ADR 0099" is not there/],
    ["docs/adr/0004-other.md", /"ADR 0004-other\.md" is not there/],
    ["docs/spec/scheduling.md#9-9", /is not there/],
    ["docs/spec/nothing.md", /is not there/],
    ["appendix B", /"appendix B" names no page/],
    ["seed 004", /"seed 004" names no page/],
    ["spec/decisions.md", /"spec\/decisions\.md" names no page/],
    ["data-plane 1.4", /names no page/],
    ["design rule 2", /names no page/],
    ['it("is read (3.4)", () => {', /names no page/],
    ['describe("a hint (S-50, 3.5.1)", () => {', /names no page|"S-50"/],
    ["/** Two of them (3.4). */", /names no page/],
    [" * Two of them (3.4, 3.5).", /names no page/],
  ])("%j is told", (text, problem) => {
    expect(dead(text)).toEqual([expect.stringMatching(problem)]);
  });

  it("is none of these", () => {
    expect(
      dead("scheduling 3.4-3.5, 3.4(2), appendix B; S-50; ADR 4; docs/adr/0004-prefix-hash.md; RFC 7541 appendix C"),
    ).toEqual([]);
    expect(
      dead('const half = f(0.5); // (scheduling 3.4)\nit("is half (S-50, scheduling 3.5)", () => g(1.5));'),
    ).toEqual([]);
    expect(dead("docs/spec/scheduling.md, docs/spec/scheduling.md#s-50")).toEqual([]);
  });
});

describe("a page", () => {
  it("is whole", () => {
    expect(DEFINED.problems).toEqual([]);
    expect([...DEFINED.anchors.keys()]).toEqual(scheduling("3", "3-4", "3-5", "3-5-1", "appendix-b", "s-50", "s-51"));
  });

  it.each([
    ["an id of another clause", '## <a id="3-4"></a>3.5 Hints', /the id of 3\.5 is "3-5"/],
    ["a clause twice", '## <a id="3"></a>3 A\n## <a id="3"></a>3 B', /3 is there twice/],
    ["an ID of another page", '| <a id="a-1"></a>A-1 | Test | |', /A-1 belongs to the page async-processor/],
    [
      "a row about a clause that is not there",
      '| <a id="s-1"></a>S-1 | Test | 9.9 |',
      /names .*#9-9, which is not there/,
    ],
  ])("with %s is a fault", (_, text, problem) => {
    expect(definitionsIn("scheduling", text).problems).toEqual([expect.stringMatching(problem)]);
  });
});

describe("what has no test", () => {
  const left = (...citations: [string, string][]): string[] =>
    untested(
      citations.flatMap(([file, text]): Citation[] => citationsIn(file, text)),
      DEFINED,
    );

  it("is everything that no test cites; comments of the product do not count", () => {
    const all = scheduling("3-4", "3-5", "3-5-1", "appendix-b", "s-50", "s-51");
    expect(left(["src/a.ts", "scheduling 3.4, S-50"])).toEqual(all);
  });

  it("is less what an ID's row names, and what that is in", () => {
    expect(left(["src/a.test.ts", "S-50"])).toEqual(scheduling("appendix-b", "s-51"));
    expect(left(["test/support/a.cases.ts", "scheduling 3.4(2), appendix B"])).toEqual(
      scheduling("3-5", "3-5-1", "s-50", "s-51"),
    );
  });
});
