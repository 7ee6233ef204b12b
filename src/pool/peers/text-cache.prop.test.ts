import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { TextCache } from "./text-cache.ts";

describe("TextCache", () => {
  it("reads any bytes as a buffer does, known or not", () => {
    // Few different ones, so that they come again; any bytes, valid UTF-8 or not.
    const part = fc.oneof(
      fc.constantFrom("10.0.0.1:8000", "10.0.0.2:8000", "", "\u00e4.example:80").map((text) => Buffer.from(text)),
      fc.uint8Array({ maxLength: 6 }).map((bytes) => Buffer.from(bytes)),
    );
    fc.assert(
      fc.property(fc.array(part, { maxLength: 60 }), (parts) => {
        const cache = new TextCache();
        const all = Buffer.concat(parts);
        let at = 0;
        for (const bytes of parts) {
          expect(cache.read(all, at, at + bytes.length)).toBe(bytes.toString("utf8"));
          at += bytes.length;
        }
      }),
    );
  });

  it("keeps texts that share a slot apart", () => {
    const cache = new TextCache();
    const texts = Array.from({ length: 20_000 }, (_, i) => `10.${i >> 16}.${(i >> 8) & 255}.${i & 255}:8000`);
    for (let round = 0; round < 2; round++)
      for (const text of texts) {
        const bytes = Buffer.from(text);
        expect(cache.read(bytes, 0, bytes.length)).toBe(text);
      }
  });
});
