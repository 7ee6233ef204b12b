import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { decodeGrpcMessage, encodeGrpcMessage } from "./status.ts";

describe("grpc-message", () => {
  it("keeps printable ASCII and escapes the rest of the UTF-8 bytes", () => {
    expect(encodeGrpcMessage("plain text, ~!")).toBe("plain text, ~!");
    expect(encodeGrpcMessage("100%\nß")).toBe("100%25%0A%C3%9F");
    expect(encodeGrpcMessage("")).toBe("");
  });

  it("round-trips any text through printable ASCII", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), (text) => {
        const encoded = encodeGrpcMessage(text);
        expect(encoded).toMatch(/^[\x20-\x7e]*$/);
        expect(decodeGrpcMessage(encoded)).toBe(text);
      }),
    );
  });

  it("decodes what others escape more or wrongly without failing", () => {
    expect(decodeGrpcMessage("a%20b%c3%9F")).toBe("a bß");
    expect(decodeGrpcMessage("50% of 3%")).toBe("50% of 3%");
    expect(decodeGrpcMessage("%FF")).toBe("�");
  });
});
