import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { HeaderList } from "../../../base/inference/headers.ts";
import { cookieOf } from "./session-cookie.ts";

const sent = (...values: readonly string[]) => HeaderList.of(values.map((value) => ["Cookie", value]));

describe("cookieOf", () => {
  it.each([
    ["sid=abc", "abc"],
    ["a=1; sid=abc; b=2", "abc"],
    ["a=1;sid=abc", "abc"],
    ["  sid \t=  abc  ;x=y", "abc"],
    ["sid=a=b==", "a=b=="],
    ['sid="abc"', '"abc"'],
    ["sid; sid=abc", "abc"],
    [";;; =x; sid=abc", "abc"],
    ["sid=one; sid=two", "one"],
    ["xsid=no; sid2=no; SID=no", undefined],
    ["a=sid; b=;sid", undefined],
    ["sid=; sid=later", undefined],
    ["sid=  ", undefined],
    ["", undefined],
  ])("finds in %j the value %j", (header, value) => {
    expect(cookieOf(sent(header), "sid")).toBe(value);
  });

  it("looks through all headers of the name, and no others", () => {
    expect(cookieOf(sent("a=1", "b=2; sid=abc", "sid=later"), "sid")).toBe("abc");
    expect(cookieOf(HeaderList.of([["x-cookie", "sid=abc"]]), "sid")).toBeUndefined();
  });

  it("gives back what was written, wherever it stands among others", () => {
    const name = fc.stringMatching(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,12}$/);
    const value = fc.stringMatching(/^[!#-+\--:<-[\]-~]{1,40}$/);
    fc.assert(
      fc.property(fc.uniqueArray(fc.tuple(name, value), { selector: ([key]) => key, maxLength: 8 }), (pairs) => {
        const header = sent(pairs.map(([key, text]) => `${key}=${text}`).join("; "));
        for (const [key, text] of pairs) expect(cookieOf(header, key)).toBe(text);
      }),
    );
  });
});
