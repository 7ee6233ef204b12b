import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  columnsOf,
  endpointOf,
  instanceOf,
  produceContextOf,
  requestOf,
} from "../../../../../test/support/scheduling/fakes.cases.ts";
import { HeaderList } from "../../../../base/inference/headers.ts";
import { SESSION_ID } from "../../../../base/plugin/keys.ts";
import { cookieOf, sessionIdProducer } from "./session-id-producer.ts";

function sessionOf(parameters: object, headers: readonly (readonly [string, string])[]): string | undefined {
  const candidates = columnsOf([endpointOf(0)], [[SESSION_ID, undefined]]);
  const request = requestOf("p", { headers: HeaderList.of(headers) });
  instanceOf(sessionIdProducer, parameters).produce(produceContextOf(candidates, request));
  return candidates.attribute(SESSION_ID);
}

describe("session-id-producer", () => {
  it("S-46: reads the session out of a header, however written", () => {
    const parameters = { headerName: "X-Session" };
    expect(sessionOf(parameters, [["x-session", " abc "]])).toBe("abc");
    expect(sessionOf(parameters, [["X-SESSION", "abc"]])).toBe("abc");
    expect(sessionOf(parameters, [["x-session", "  "]])).toBeUndefined();
    expect(sessionOf(parameters, [["cookie", "x-session=abc"]])).toBeUndefined();
  });

  it("S-46: or out of a cookie", () => {
    const parameters = { cookieName: "sid" };
    expect(sessionOf(parameters, [["cookie", "theme=dark; sid=abc; x=y"]])).toBe("abc");
    expect(sessionOf(parameters, [["sid", "abc"]])).toBeUndefined();
    expect(sessionOf(parameters, [["cookie", "sid="]])).toBeUndefined();
  });

  it("ignores ids over 256 characters", () => {
    const sent = (length: number) => {
      const id = "x".repeat(length);
      return [
        sessionOf({ headerName: "h" }, [["h", id]])?.length,
        sessionOf({ cookieName: "c" }, [["cookie", `c=${id}`]])?.length,
      ];
    };
    expect(sent(256)).toEqual([256, 256]);
    expect(sent(257)).toEqual([undefined, undefined]);
  });

  it.each([
    [{}, "takes exactly one of headerName and cookieName"],
    [{ headerName: "a", cookieName: "b" }, "takes exactly one of headerName and cookieName"],
    [{ headerName: " " }, "must not be empty"],
    [{ cookieName: "" }, "must not be empty"],
    [{ header: "a" }, "header"],
  ])("refuses %j", (parameters, message) => {
    const { error } = sessionIdProducer.parameters.safeParse(parameters);
    expect(error?.issues.map((issue) => issue.message).join()).toContain(message);
  });
});

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
