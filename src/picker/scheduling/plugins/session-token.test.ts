import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { decodeSessionToken, encodeSessionToken } from "./session-token.ts";

describe("session token", () => {
  it("S-46: is the standard base64 of the endpoint's id", () => {
    expect(encodeSessionToken("ns/pod-rank-0")).toBe("bnMvcG9kLXJhbmstMA==");
    expect(decodeSessionToken("bnMvcG9kLXJhbmstMA==")).toBe("ns/pod-rank-0");
  });

  it("comes back as it was, whatever the id", () => {
    const id = fc.string({ unit: "grapheme", maxLength: 80 });
    fc.assert(fc.property(id, (text) => decodeSessionToken(encodeSessionToken(text)) === text));
  });

  it("S-46: what is no base64, or far too long, is no token", () => {
    expect(decodeSessionToken("not base64!")).toBeUndefined();
    expect(decodeSessionToken("YWJj".repeat(1000))).toBeUndefined();
  });
});
