import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { CALL_BLOCK, frame, H2Peer, open } from "../../../../test/support/h2-peer.ts";
import type { GrpcHandler } from "../transport.ts";
import { FRAME, PREFACE } from "./protocol.ts";

const echo: GrpcHandler = (stream) => ({
  message: (bytes) => void stream.send(bytes),
  halfClosed: () => stream.end(0),
  closed() {},
});

const anyFrame = fc
  .record({
    type: fc.integer({ min: 0, max: 11 }),
    flags: fc.oneof(fc.constantFrom(0, 1, 4, 5, 8), fc.integer({ min: 0, max: 255 })),
    id: fc.oneof(fc.constantFrom(0, 1, 3, 5), fc.integer({ min: 0, max: 20 })),
    payload: fc.oneof(
      fc.uint8Array({ maxLength: 40 }),
      fc.constantFrom(
        CALL_BLOCK,
        Buffer.of(0, 0, 0, 0, 1),
        Buffer.of(0, 0, 0, 0, 3, 1, 2, 3),
        Buffer.alloc(8),
        Buffer.alloc(4, 1),
      ),
    ),
  })
  .map(({ type, flags, id, payload }) => frame(type, flags, id, payload));

const conversation = fc.array(
  fc.oneof(
    anyFrame,
    fc.integer({ min: 0, max: 5 }).map((n) => open(2 * n + 1)),
    fc.constant(frame(FRAME.settings, 0, 0)),
  ),
  { maxLength: 60 },
);

/** Feeds `bytes` in pieces of the given sizes. */
function feedInPieces(peer: H2Peer, bytes: Buffer, sizes: readonly number[]): void {
  let at = 0;
  for (let i = 0; at < bytes.length; i++) {
    const size = sizes[i % sizes.length]!;
    peer.feed(bytes.subarray(at, at + size));
    at += size;
  }
}

function expectSane(peer: H2Peer): void {
  expect(peer.errors).toEqual([]);
  expect(peer.streams).toBe(peer.connection.streams.size);
  // What it has sent is whole frames within the default size.
  for (const { payload } of peer.frames()) expect(payload.length).toBeLessThanOrEqual(16_384);
  peer.connection.destroy();
  expect(peer.streams).toBe(0);
}

const sizes = fc.array(fc.integer({ min: 1, max: 300 }), { minLength: 1, maxLength: 5 });

describe("an HTTP/2 connection under random input", () => {
  it("survives any sequence of frames, cut anywhere", () => {
    fc.assert(
      fc.property(conversation, sizes, (frames, cuts) => {
        const peer = new H2Peer(echo);
        feedInPieces(peer, Buffer.concat(frames), cuts);
        expectSane(peer);
      }),
      { numRuns: 1500 },
    );
  });

  it("survives changed bytes in an ordinary conversation", () => {
    fc.assert(
      fc.property(
        conversation,
        sizes,
        fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 8 }),
        (frames, cuts, changes) => {
          const bytes = Buffer.concat([PREFACE, frame(FRAME.settings, 0, 0), ...frames]);
          for (const [at, value] of changes) bytes[at % bytes.length] = value;
          const peer = new H2Peer(echo, { greet: false });
          feedInPieces(peer, bytes, cuts);
          expectSane(peer);
        },
      ),
      { numRuns: 1500 },
    );
  });

  it("answers the same, however the input is cut", () => {
    fc.assert(
      fc.property(conversation, sizes, (frames, cuts) => {
        const whole = new H2Peer(echo);
        const cut = new H2Peer(echo);
        whole.feed(Buffer.concat(frames));
        feedInPieces(cut, Buffer.concat(frames), cuts);
        expect(cut.verdict()).toBe(whole.verdict());
        expect(cut.streams).toBe(whole.streams);
        expect(cut.resets).toBe(whole.resets);
      }),
      { numRuns: 500 },
    );
  });
});
