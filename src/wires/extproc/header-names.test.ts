import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { HeaderNames } from "./header-names.ts";

/** Reads names, and counts the strings that it makes. */
function reader() {
  const names = new HeaderNames();
  let made = 0;
  const read = (name: string, padding = 0): string => {
    const bytes = Buffer.from(`${"<".repeat(padding)}${name}>`, "latin1");
    const texts = {
      at: (from: number, to: number) => {
        made++;
        return bytes.toString("latin1", from, to);
      },
    };
    return names.at(bytes, padding, padding + name.length, texts);
  };
  return { read, made: () => made };
}

describe("names of headers", () => {
  it("are the bytes in lower case, whatever was read before", () => {
    const name = fc.string({ unit: fc.integer({ min: 0, max: 255 }).map((code) => String.fromCharCode(code)) });
    const like = fc.string({ unit: fc.constantFrom("a", "A", "b", "-"), maxLength: 4 });
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.oneof(name, like), fc.nat(3)), { maxLength: 60 }), (reads) => {
        const { read } = reader();
        for (const [text, padding] of reads) expect(read(text, padding)).toBe(text.toLowerCase());
      }),
    );
  });

  it("are made once", () => {
    const { read, made } = reader();
    const names = [":authority", ":method", "content-type", "x".repeat(48)];
    for (let i = 0; i < 3; i++) for (const name of names) expect(read(name, i)).toBe(name);
    expect(made()).toBe(names.length);
  });

  it("are made each time where they are long, empty or not in lower case", () => {
    const { read, made } = reader();
    for (const name of ["x".repeat(49), "", "Content-Type"]) {
      expect(read(name)).toBe(name.toLowerCase());
      expect(read(name)).toBe(name.toLowerCase());
    }
    expect(made()).toBe(6);
  });
});
