import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { codePoints, formatTime, PATTERN, parseTime } from "./scalars.ts";

// Oracles written from the prose of the API reference, character by character, without a pattern.
const lower = (c: string) => c >= "a" && c <= "z";
const digit = (c: string) => c >= "0" && c <= "9";
const letter = (c: string) => lower(c.toLowerCase()) && c.length === 1;
const alnum = (c: string) => letter(c) || digit(c);
const every = (text: string, test: (c: string) => boolean) => [...text].every(test);
const ends = (text: string, test: (c: string) => boolean) =>
  text !== "" && test(text[0]!) && test(text[text.length - 1]!);

/** RFC 1123 label, without its length. */
const label = (text: string) =>
  ends(text, (c) => lower(c) || digit(c)) && every(text, (c) => lower(c) || digit(c) || c === "-");
const subdomain = (text: string) => text.split(".").every(label);
const word = (text: string) => ends(text, alnum) && every(text, (c) => alnum(c) || c === "-" || c === "_" || c === ".");
/** An optional prefix, a slash, the rest. */
const prefixed = (text: string, rest: (text: string) => boolean) => {
  const slash = text.indexOf("/");
  return slash < 0 ? rest(text) : subdomain(text.slice(0, slash)) && rest(text.slice(slash + 1));
};

const ORACLE: Record<keyof typeof PATTERN, (text: string) => boolean> = {
  group: (text) => text === "" || subdomain(text),
  kind: (text) => text !== "" && letter(text[0]!) && ends(text, alnum) && every(text, (c) => alnum(c) || c === "-"),
  namespace: label,
  labelValue: (text) => text === "" || word(text),
  labelKey: (text) => prefixed(text, (name) => word(name) && name.length <= 63),
};

describe("the patterns of the API reference", () => {
  const nearby = fc.string({ unit: fc.constantFrom(..."aZ09-._/:,~ \n\u00e9"), maxLength: 6 });
  const text = fc.oneof(
    nearby,
    fc.tuple(nearby, fc.nat(70), nearby).map(([a, n, b]) => a + "x".repeat(n) + b),
  );

  it.each(Object.keys(PATTERN) as (keyof typeof PATTERN)[])("%s accepts what the prose does", (name) => {
    fc.assert(
      fc.property(text, (input) => {
        expect(PATTERN[name].test(input)).toBe(ORACLE[name](input));
      }),
      { numRuns: 2000 },
    );
  });

  it("accepts and refuses the reference's own examples", () => {
    for (const key of ["example", "example.com", "example.com/path", "example.com/path.html"])
      expect(key).toMatch(PATTERN.labelKey);
    for (const key of ["example~", "example.com."]) expect(key).not.toMatch(PATTERN.labelKey);
    for (const value of ["MyValue", "my.name", "123-my-value"]) expect(value).toMatch(PATTERN.labelValue);
    for (const group of ["", "gateway.networking.k8s.io", "foo.example.com"]) expect(group).toMatch(PATTERN.group);
    expect("example.com/bar").not.toMatch(PATTERN.group);
    for (const kind of ["Service", "HTTPRoute"]) expect(kind).toMatch(PATTERN.kind);
    expect("invalid/kind").not.toMatch(PATTERN.kind);
  });

  it("comes to an end on texts made to confuse it, which an exponential pattern would not", () => {
    for (const pattern of Object.values(PATTERN))
      for (const unit of ["a", "-", "a-", "a.", ".", "-."]) pattern.test(`${unit.repeat(20_000)}!`);
  });
});

describe("codePoints", () => {
  it("counts what the API counts", () => {
    fc.assert(
      fc.property(
        fc.string({ unit: fc.constantFrom("a", "\u00e9", "\u{1F600}", "\ud800"), maxLength: 20 }),
        (input) => {
          expect(codePoints(input)).toBe(Array.from(input).length);
        },
      ),
    );
  });
});

describe("times", () => {
  it("reads back what it writes, to the second", () => {
    const ms = fc.integer({ min: 0, max: Date.UTC(9999, 11, 31) });
    fc.assert(
      fc.property(ms, (input) => {
        expect(parseTime(formatTime(input))).toBe(Math.floor(input / 1000) * 1000);
      }),
    );
  });

  it.each([
    ["2026-01-31T12:00:00Z", Date.UTC(2026, 0, 31, 12)],
    ["2024-02-29T23:59:59.5+01:00", Date.UTC(2024, 1, 29, 22, 59, 59, 500)],
    ["1970-01-01T00:00:00Z", 0],
    ["2026-02-29T00:00:00Z", undefined],
    ["2026-13-01T00:00:00Z", undefined],
    ["2026-01-31T24:00:00Z", undefined],
    ["2026-01-31 12:00:00Z", undefined],
    ["2026-01-31T12:00:00", undefined],
    ["2026-01-31", undefined],
    ["yesterday", undefined],
  ])("reads %s as Go's RFC 3339 does", (text, ms) => {
    expect(parseTime(text)).toBe(ms);
  });
});
