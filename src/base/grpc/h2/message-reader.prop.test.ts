import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MessageReader } from "./message-reader.ts";

/** Around the sizes from which a message has memory of its own, and up to which it is used again. */
const sizes = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom(16_396, 16_397, 16_400) },
  fc.integer({ min: 0, max: 100 }),
  fc.integer({ min: 8 * 1024 - 2, max: 8 * 1024 + 2 }),
  fc.integer({ min: 8 * 1024, max: 40_000 }),
  fc.integer({ min: 128 * 1024 - 1, max: 128 * 1024 + 1 }),
);

/** What happens to the messages of one call, in turns with the other calls. */
const call = fc.record({
  messages: fc.array(fc.record({ size: sizes, fate: fc.constantFrom("recycled", "recycled", "twice", "kept") }), {
    maxLength: 8,
  }),
  cuts: fc.array(fc.integer({ min: 1, max: 20_000 }), { minLength: 1, maxLength: 4 }),
});

/** The bytes of message `number` of a call. */
function contentOf(callNumber: number, number: number, size: number): Buffer {
  return Buffer.alloc(size, `${callNumber}.${number};`);
}

function framed(message: Buffer): Buffer {
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(message.length, 1);
  return Buffer.concat([prefix, message]);
}

describe("messages that are recycled", () => {
  it("never change a message that somebody keeps, nor one of another call", () => {
    fc.assert(
      fc.property(fc.array(call, { minLength: 1, maxLength: 4 }), (calls) => {
        const readers = calls.map(({ messages, cuts }, c) => ({
          messages,
          cuts,
          reader: new MessageReader(1 << 20),
          bytes: Buffer.concat(messages.map(({ size }, m) => framed(contentOf(c, m, size)))),
          at: 0,
          delivered: 0,
        }));
        const kept: { readonly message: Buffer; readonly content: Buffer }[] = [];
        // All reads go through one buffer, as those of a server do.
        const shared = Buffer.alloc(20_000);
        for (let turn = 0; readers.some(({ at, bytes }) => at < bytes.length); turn++) {
          for (const [c, one] of readers.entries()) {
            const cut = one.cuts[turn % one.cuts.length]!;
            const length = one.bytes.copy(shared, 0, one.at, one.at + cut);
            if (length === 0) continue;
            one.at += length;
            one.reader.feed(shared, 0, length);
            for (let message = one.reader.next(); message !== undefined; message = one.reader.next()) {
              const { size, fate } = one.messages[one.delivered]!;
              const content = contentOf(c, one.delivered++, size);
              expect(message.equals(content)).toBe(true);
              if (fate === "kept") kept.push({ message, content });
              else one.reader.recycle(message);
              if (fate === "twice") one.reader.recycle(message);
            }
            one.reader.keep();
            shared.fill(0);
          }
        }
        for (const { message, content } of kept) expect(message.equals(content)).toBe(true);
        for (const { messages, delivered } of readers) expect(delivered).toBe(messages.length);
      }),
      { numRuns: 60 },
    );
  });

  it("serve the next message of any call, and no message much smaller", () => {
    const [one, other] = [new MessageReader(1 << 20), new MessageReader(1 << 20)];
    const read = (reader: MessageReader, size: number): Buffer => {
      const bytes = framed(Buffer.alloc(size, "x"));
      reader.feed(bytes, 0, bytes.length);
      const message = reader.next()!;
      reader.keep();
      return message;
    };
    const first = read(one, 30_000);
    one.recycle(first);
    const second = read(other, 20_000);
    expect(second.buffer).toBe(first.buffer);
    other.recycle(second);
    expect(read(one, 10_000).buffer).not.toBe(first.buffer);
  });

  it("are not taken back late, nor from another call", () => {
    const [one, other] = [new MessageReader(1 << 20), new MessageReader(1 << 20)];
    const bytes = Buffer.concat([framed(Buffer.alloc(10_000, "a")), framed(Buffer.alloc(10_000, "b"))]);
    one.feed(bytes, 0, bytes.length);
    const first = one.next()!;
    const second = one.next()!;
    one.recycle(first);
    other.recycle(second);
    other.feed(bytes, 0, bytes.length);
    const third = other.next()!;
    expect([first.buffer, second.buffer]).not.toContain(third.buffer);
  });
});
