import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Deframer, detach, FRAME_PREFIX, frameMessage, prependPrefix } from "./frames.ts";
import { Writer } from "./protobuf.ts";

const messages = fc.array(fc.uint8Array({ maxLength: 200 }), { maxLength: 12 });

/** Cuts `bytes` at the given positions, which may repeat: empty chunks are legal. */
function cut(bytes: Buffer, positions: readonly number[]): Buffer[] {
  const at = positions.map((position) => position % (bytes.length + 1)).sort((a, b) => a - b);
  return [0, ...at].map((from, i) => bytes.subarray(from, at[i] ?? bytes.length));
}

describe("Deframer", () => {
  it("returns the same messages for every way of cutting the bytes (D-3, E-16)", () => {
    fc.assert(
      fc.property(messages, fc.array(fc.nat(), { maxLength: 40 }), (sent, positions) => {
        const deframer = new Deframer();
        const received: Uint8Array[] = [];
        for (const chunk of cut(Buffer.concat(sent.map(frameMessage)), positions)) {
          deframer.push(chunk);
          for (let message = deframer.next(); message !== undefined; message = deframer.next()) received.push(message);
        }
        expect(received.map((message) => [...message])).toEqual(sent.map((message) => [...message]));
        expect(deframer.midMessage).toBe(false);
      }),
    );
  });

  it("returns the same messages when the reader asks late, after everything was pushed", () => {
    fc.assert(
      fc.property(messages, fc.array(fc.nat(), { maxLength: 40 }), (sent, positions) => {
        const deframer = new Deframer();
        for (const chunk of cut(Buffer.concat(sent.map(frameMessage)), positions)) deframer.push(chunk);
        for (const message of sent) expect([...deframer.next()!]).toEqual([...message]);
        expect(deframer.next()).toBeUndefined();
      }),
    );
  });

  it("takes bytes one by one, for a message larger than what is set aside first", () => {
    const message = Buffer.alloc(10_000, 5);
    const deframer = new Deframer();
    let received: Buffer | undefined;
    for (const byte of frameMessage(message)) {
      expect(received).toBeUndefined();
      deframer.push(Buffer.of(byte));
      received = deframer.next();
    }
    expect(received).toEqual(message);
  });

  it("returns a view, not a copy, of a message within one chunk", () => {
    const chunk = Buffer.concat([frameMessage(Buffer.from("first")), frameMessage(Buffer.from("second"))]);
    const deframer = new Deframer();
    deframer.push(chunk);
    deframer.next();
    const second = deframer.next()!;
    chunk[chunk.length - 1] = 0x21;
    expect(second.toString()).toBe("secon!");
  });

  it("accepts the limit and refuses one byte more at the prefix, before the message arrives", () => {
    const fits = new Deframer(100);
    fits.push(frameMessage(Buffer.alloc(100)));
    expect(fits.next()).toHaveLength(100);
    const deframer = new Deframer(100);
    deframer.push(frameMessage(Buffer.alloc(101)).subarray(0, FRAME_PREFIX));
    expect(() => deframer.next()).toThrow(expect.objectContaining({ code: "GRPC_MESSAGE_TOO_LARGE" }));
    const huge = new Deframer();
    huge.push(Buffer.of(0, 0xff, 0xff, 0xff, 0xff));
    expect(() => huge.next()).toThrow("4294967295 bytes");
  });

  it("tells compressed messages from plain ones and refuses other flags", () => {
    const deframer = new Deframer();
    deframer.push(Buffer.of(1, 0, 0, 0, 1, 42, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0));
    deframer.next();
    expect(deframer.compressed).toBe(true);
    deframer.next();
    expect(deframer.compressed).toBe(false);
    expect(() => deframer.next()).toThrow(expect.objectContaining({ code: "GRPC_FRAME_MALFORMED" }));
  });

  it("knows whether the bytes end within a message", () => {
    const bytes = frameMessage(Buffer.from("abc"));
    for (let end = 0; end <= bytes.length; end++) {
      const deframer = new Deframer();
      deframer.push(bytes.subarray(0, end));
      deframer.next();
      expect(deframer.midMessage).toBe(end > 0 && end < bytes.length);
    }
  });
});

describe("framing", () => {
  it("writes the prefix in front of a message in place, counting bytes that follow it", () => {
    const writer = new Writer();
    writer.begin();
    writer.bytes(Buffer.from("abc"));
    prependPrefix(writer);
    expect(writer.finish()).toEqual(frameMessage(Buffer.from("abc")));
    writer.begin();
    writer.bytes(Buffer.from("abc"));
    prependPrefix(writer, 70_000);
    expect([...writer.finish()]).toEqual([0, 0, 1, 0x11, 0x73, 97, 98, 99]);
  });

  it("detaches a small view of a large buffer and keeps everything else as it is", () => {
    const large = Buffer.from(new ArrayBuffer(65_536)).fill(9);
    const small = detach(large.subarray(10, 500));
    expect(small.buffer.byteLength).toBe(490);
    expect([...small]).toEqual([...large.subarray(10, 500)]);
    const half = large.subarray(0, 40_000);
    expect(detach(half)).toBe(half);
  });
});
