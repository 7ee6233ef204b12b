import fc from "fast-check";
import protobuf from "protobufjs";
import { describe, expect, it } from "vitest";
import { Reader, WIRE, Writer } from "./protobuf.ts";

/** What a writer call produces. */
function written(act: (writer: Writer) => void): Buffer {
  const writer = new Writer();
  writer.begin();
  act(writer);
  return writer.finish();
}

const malformed = expect.objectContaining({ code: "PROTOBUF_MALFORMED" });

describe("varints", () => {
  it("are written as protobufjs writes them and read back", () => {
    fc.assert(
      fc.property(fc.maxSafeNat(), (value) => {
        const bytes = written((writer) => writer.varint(value));
        expect(bytes).toEqual(Buffer.from(protobuf.Writer.create().uint64(value).finish()));
        const reader = new Reader(bytes);
        expect(reader.varint()).toBe(value);
        expect(reader.more).toBe(false);
      }),
    );
  });

  it("of 64 bits are read to the nearest number", () => {
    const minusOne = Buffer.from("ffffffffffffffffff01", "hex");
    expect(new Reader(minusOne).varint()).toBe(2 ** 64);
    const exact = Buffer.from(
      protobuf.Writer.create()
        .uint64(2 ** 53)
        .finish(),
    );
    expect(new Reader(exact).varint()).toBe(2 ** 53);
  });

  it("may carry needless zero bytes, as encoders that pad do", () => {
    expect(new Reader(Buffer.from("858000", "hex")).varint()).toBe(5);
  });

  it("longer than ten bytes or cut off are malformed", () => {
    expect(() => new Reader(Buffer.alloc(11, 0x80)).varint()).toThrow(malformed);
    expect(() => new Reader(Buffer.from("ffff", "hex")).varint()).toThrow(malformed);
    expect(() => new Reader(Buffer.alloc(0)).varint()).toThrow(malformed);
  });
});

describe("fields", () => {
  const field = fc.oneof(
    fc.record({ type: fc.constant("varint" as const), value: fc.maxSafeNat() }),
    fc.record({ type: fc.constant("double" as const), value: fc.double({ noNaN: true }) }),
    fc.record({ type: fc.constant("bytes" as const), value: fc.uint8Array({ maxLength: 300 }) }),
    fc.record({ type: fc.constant("text" as const), value: fc.string({ unit: "grapheme" }) }),
  );

  it("written back to front read as protobufjs reads them, in order", () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.integer({ min: 1, max: 2 ** 29 - 1 }), field)), (fields) => {
        const bytes = written((writer) => {
          for (const [number, { type, value }] of fields.toReversed()) {
            const mark = writer.length;
            if (type === "varint") writer.varint(value);
            else if (type === "double") writer.double(value);
            else if (type === "bytes") writer.bytes(value);
            else writer.utf8(value);
            if (type === "varint") writer.varint(number * 8);
            else if (type === "double") writer.varint(number * 8 + WIRE.fixed64);
            else writer.close(number * 8 + WIRE.bytes, mark);
          }
        });
        const oracle = protobuf.Reader.create(bytes);
        const reader = new Reader(bytes);
        for (const [number, { type, value }] of fields) {
          const tag = reader.tag();
          expect([tag, Math.floor(tag / 8)]).toEqual([oracle.uint32(), number]);
          if (type === "varint") expect([reader.varint(), Number(oracle.uint64())]).toEqual([value, value]);
          else if (type === "double") expect([reader.double(), oracle.double()]).toEqual([value, value]);
          else if (type === "bytes") {
            expect(reader.view()).toEqual(Buffer.from(value));
            expect(Buffer.from(oracle.bytes())).toEqual(Buffer.from(value));
          } else expect([reader.utf8(), oracle.string()]).toEqual([value, value]);
        }
        expect(reader.more).toBe(false);
      }),
    );
  });

  it("of every wire type are skipped, nested groups included (D-2)", () => {
    const skipped: [string, string][] = [
      ["varint", "68ac02"],
      ["fixed64", "690102030405060708"],
      ["bytes", "6a03010203"],
      ["fixed32", "6d01020304"],
      ["group 13 holding a field and group 2", "6b 0801 13 0a0161 14 6c"],
      ["field 2000", "827d0161"],
    ];
    for (const [what, hex] of skipped) {
      const reader = new Reader(Buffer.from(`${hex.replaceAll(" ", "")}0801`, "hex"));
      reader.skip(reader.tag());
      expect(reader.tag(), what).toBe(8);
    }
  });

  it.each([
    ["a field number of 0", "00"],
    ["a field number beyond 2^29 - 1", "808080808002"],
    ["a length beyond the end", "0a05616263"],
    ["a fixed64 cut off", "0901020304"],
    ["a fixed32 cut off", "0d0102"],
    ["a group without its end", "0b0801"],
    ["the end of another group", "0b14"],
    ["the end of a group that never began", "0c"],
    ["wire type 6", "0e"],
    ["groups nested 200 deep", "0b".repeat(200)],
  ])("%s is malformed", (_what, hex) => {
    const reader = new Reader(Buffer.from(hex, "hex"));
    expect(() => {
      while (reader.more) reader.skip(reader.tag());
    }).toThrow(malformed);
  });

  it("of a nested message end where it ends", () => {
    const reader = new Reader(Buffer.from("0a020801" + "1005", "hex"));
    reader.tag();
    const outer = reader.enter();
    expect([reader.tag(), reader.varint(), reader.more]).toEqual([8, 1, false]);
    reader.end = outer;
    expect([reader.tag(), reader.varint(), reader.more]).toEqual([16, 5, false]);
  });

  it("random bytes are read or malformed, never anything else", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => {
        const reader = new Reader(bytes);
        try {
          while (reader.more) reader.skip(reader.tag());
        } catch (error) {
          expect(error).toEqual(malformed);
        }
      }),
      { numRuns: 2000 },
    );
  });
});

describe("Writer", () => {
  it("keeps finished messages intact while later ones are written, across many slabs", () => {
    const writer = new Writer();
    const messages: Buffer[] = [];
    for (let i = 0; i < 3000; i++) {
      writer.begin();
      writer.latin1(`message ${i} ${"x".repeat(i % 50)}`);
      messages.push(writer.finish());
    }
    messages.forEach((message, i) => {
      expect(message.toString("latin1")).toBe(`message ${i} ${"x".repeat(i % 50)}`);
    });
  });

  it("grows while a message is being written, keeping what is there", () => {
    const text = "é".repeat(30_000);
    const message = written((writer) => {
      writer.bytes(Buffer.alloc(10_000, 1));
      writer.utf8(text);
      writer.latin1("ÿ");
    });
    expect(message.subarray(0, 1)).toEqual(Buffer.of(0xff));
    expect(message.subarray(1, 60_001).toString("utf8")).toBe(text);
    expect(message.subarray(60_001)).toEqual(Buffer.alloc(10_000, 1));
  });

  it("forgets a message that was begun and never finished", () => {
    const writer = new Writer();
    writer.begin();
    writer.latin1("half a messa");
    writer.begin();
    writer.latin1("whole");
    expect(writer.finish().toString()).toBe("whole");
  });
});
