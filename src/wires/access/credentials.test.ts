import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { HeaderList } from "../../base/inference/headers.ts";
import { takeCredential } from "./credentials.ts";
import { newKey } from "./key-text.ts";

const { key } = newKey(undefined);
const CREDENTIALS = ["authorization", "x-api-key", "api-key"];
const TOKEN = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJ1In0.c2ln";

function taken(pairs: readonly (readonly [string, string])[], tokens = false) {
  const headers = HeaderList.of(pairs);
  const credential = takeCredential(headers, tokens);
  return { credential, left: headers.keys.map((name, at) => [name, headers.values[at]]) };
}

describe("the credential of a request", () => {
  it.each([
    ["authorization", `Bearer ${key}`],
    ["authorization", `bearer  ${key} `],
    ["authorization", key],
    ["x-api-key", key],
    ["api-key", key],
  ])("is taken out of %s: %s", (name, value) => {
    const { credential, left } = taken([
      ["host", "a"],
      [name, value],
      ["accept", "b"],
    ]);
    expect(credential).toEqual({ kind: "key", text: key });
    expect(left).toEqual([
      ["host", "a"],
      ["accept", "b"],
    ]);
  });

  it("is not there where no header has one", () => {
    expect(
      taken([
        ["host", "a"],
        ["authorization", "Bearer "],
      ]).credential,
    ).toBeUndefined();
  });

  it("is our key before another one, which stays for the model server", () => {
    const { credential, left } = taken(
      [
        ["authorization", "Bearer of-the-server"],
        ["x-api-key", key],
      ],
      true,
    );
    expect(credential).toEqual({ kind: "key", text: key });
    expect(left).toEqual([["authorization", "Bearer of-the-server"]]);
  });

  it("is a mistyped key before a token", () => {
    const typo = key.slice(0, -1);
    const { credential, left } = taken(
      [
        ["authorization", `Bearer ${TOKEN}`],
        ["x-api-key", typo],
      ],
      true,
    );
    expect(credential).toEqual({ kind: "key", text: typo });
    expect(left).toEqual([["authorization", `Bearer ${TOKEN}`]]);
  });

  it("is a token only where tokens count; else the token stays beside a key", () => {
    const pairs = [
      ["x-api-key", "other"],
      ["authorization", `Bearer ${TOKEN}`],
    ] as const;
    expect(taken(pairs, true)).toEqual({ credential: { kind: "token", text: TOKEN }, left: [["x-api-key", "other"]] });
    expect(taken(pairs, false).credential).toEqual({ kind: "other", text: "other" });
    expect(taken([pairs[1], ["api-key", key]]).left).toEqual([pairs[1]]);
  });

  it("leaves no key of ours behind, wherever and how often it stands", () => {
    const name = fc.constantFrom("authorization", "x-api-key", "api-key", "cookie", "x-goog-api-key", "x-request-id");
    const value = fc.constantFrom(
      key,
      `Bearer ${key}`,
      `${key}typo`,
      `Token ${key}`,
      `Bearer,${key}`,
      `session=1; key=${key}`,
      newKey(undefined).key,
      TOKEN,
      `Bearer ${TOKEN}`,
      "else",
    );
    fc.assert(
      fc.property(fc.array(fc.tuple(name, value), { maxLength: 6 }), fc.boolean(), (pairs, tokens) => {
        const { credential, left } = taken(pairs, tokens);
        const presented = pairs.filter(([header]) => CREDENTIALS.includes(header));
        expect(credential === undefined).toBe(presented.length === 0);
        if (credential === undefined) return;
        expect(left.filter(([, text]) => text!.includes("sk-sluice-"))).toEqual([]);
        const kept = left.filter(([header]) => CREDENTIALS.includes(header!));
        expect(kept.filter(([, text]) => text!.endsWith(credential.text))).toEqual([]);
      }),
    );
  });
});
