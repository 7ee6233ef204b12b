import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { key, namespaces, pairs } from "../../../test/support/extproc-arbitraries.ts";
import {
  decodeResponse,
  fromStruct,
  type Plain,
  ProcessingResponseType,
} from "../../../test/support/extproc-client.ts";
import { Deframer } from "../../base/grpc/frames.ts";
import { Writer } from "../../base/grpc/protobuf.ts";
import type { GrpcStream } from "../../base/grpc/transport.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import {
  encodeHeadersReply,
  encodeImmediateReply,
  encodeTimeoutOverride,
  encodeTrailersReply,
  MAX_BODY_CHUNK,
  sendBody,
  sendWholeBody,
} from "./encode.ts";
import type { HeaderChanges, Phase } from "./messages.ts";

const WRITER = new Writer();

const phase = fc.constantFrom<Phase>("request", "response");

/** Changes to encode, and the mutation that protobufjs must find; undefined when nothing changes. */
const changes = fc
  .record({ set: fc.option(pairs), remove: fc.option(fc.array(key, { maxLength: 5 })), literal: fc.boolean() })
  .map(({ set, remove, literal }) => {
    const given: HeaderChanges = {
      set: set === null ? undefined : HeaderList.of(set),
      remove: remove ?? undefined,
      literalAppendAction: literal,
    };
    const setHeaders = (set ?? []).map(([name, text]) => ({
      header: {
        ...(name === "" ? {} : { key: name }),
        ...(text === "" ? {} : { rawValue: Buffer.from(text, "latin1") }),
      },
      ...(literal ? { appendAction: 2 } : {}),
    }));
    const wanted: Plain = {
      ...(setHeaders.length > 0 ? { setHeaders } : {}),
      ...(remove !== null && remove.length > 0 ? { removeHeaders: remove } : {}),
    };
    return { given, wanted: Object.keys(wanted).length > 0 ? wanted : undefined };
  });

/** The messages in framed bytes; protobufjs must find every byte of each meaningful. */
function unframed(framed: Uint8Array): Plain[] {
  const deframer = new Deframer();
  deframer.push(framed);
  const replies: Plain[] = [];
  for (let message = deframer.next(); message !== undefined; message = deframer.next()) {
    expect(ProcessingResponseType.encode(ProcessingResponseType.decode(message)).finish()).toHaveLength(message.length);
    replies.push(decodeResponse(message));
  }
  expect(deframer.midMessage).toBe(false);
  return replies;
}

/** Field names of a phase: `requestHeaders` and so on. */
function field(of: Phase, what: "Headers" | "Body" | "Trailers"): string {
  return `${of}${what}`;
}

describe("replies read by protobufjs", () => {
  it("headers: mutation in raw_value only, route cache, dynamic metadata (E-03, D-1)", () => {
    fc.assert(
      fc.property(phase, changes, fc.boolean(), fc.option(namespaces), (of, { given, wanted }, clear, metadata) => {
        const framed = encodeHeadersReply(WRITER, of, {
          ...given,
          clearRouteCache: clear,
          ...(metadata === null ? {} : { dynamicMetadata: metadata }),
        });
        const [reply, ...rest] = unframed(framed);
        expect(rest).toEqual([]);
        const { dynamicMetadata, ...others } = reply;
        expect(others).toEqual({
          [field(of, "Headers")]: {
            response: {
              ...(wanted === undefined ? {} : { headerMutation: wanted }),
              ...(clear ? { clearRouteCache: true } : {}),
            },
          },
        });
        if (metadata === null) expect(dynamicMetadata).toBeUndefined();
        else expect(fromStruct(dynamicMetadata)).toEqual({ ...metadata });
      }),
      { numRuns: 300 },
    );
  });

  it("trailers, with metadata where there is some", () => {
    fc.assert(
      fc.property(phase, changes, fc.option(namespaces), (of, { given, wanted }, metadata) => {
        const [reply] = unframed(encodeTrailersReply(WRITER, of, { ...given, dynamicMetadata: metadata ?? undefined }));
        expect(reply[field(of, "Trailers")]).toEqual(wanted === undefined ? {} : { headerMutation: wanted });
        if (metadata === null) expect(reply.dynamicMetadata).toBeUndefined();
        else expect(fromStruct(reply.dynamicMetadata)).toEqual({ ...metadata });
      }),
    );
  });

  it("more time, in seconds and nanoseconds", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 10_000_000 }), (ms) => {
        const [{ overrideMessageTimeout, ...others }] = unframed(encodeTimeoutOverride(WRITER, ms)) as [Plain];
        expect(others).toEqual({});
        const { seconds = 0, nanos = 0 } = overrideMessageTimeout;
        expect(seconds * 1000 + nanos / 1e6).toBe(ms);
        expect(nanos).toBeLessThan(1e9);
      }),
    );
  });

  it("immediate answers", () => {
    fc.assert(
      fc.property(fc.integer({ min: 200, max: 511 }), fc.uint8Array(), changes, (status, body, { given, wanted }) => {
        expect(unframed(encodeImmediateReply(WRITER, { status, body, ...given }))).toEqual([
          {
            immediateResponse: {
              status: { code: status },
              ...(wanted === undefined ? {} : { headers: wanted }),
              ...(body.length === 0 ? {} : { body: Buffer.from(body) }),
            },
          },
        ]);
      }),
    );
  });
});

describe("bodies", () => {
  /** What is handed to the transport. */
  function collected(send: (stream: GrpcStream) => void): Uint8Array[] {
    const parts: Uint8Array[] = [];
    const stream = {
      sendFramed(bytes: Uint8Array, from?: number, to?: number) {
        parts.push(bytes.subarray(from, to));
        return true;
      },
    };
    send(stream as Partial<GrpcStream> as GrpcStream);
    return parts;
  }

  const sent = (of: Phase, pieces: readonly Uint8Array[], endOfStream: boolean) =>
    collected((stream) => sendBody(stream, WRITER, of, pieces, endOfStream));

  function chunksOf(parts: readonly Uint8Array[], of: Phase): { body: Buffer; end: boolean }[] {
    return unframed(Buffer.concat(parts)).map((reply) => {
      expect(Object.keys(reply)).toEqual([field(of, "Body")]);
      const streamed = reply[field(of, "Body")].response.bodyMutation.streamedResponse;
      return { body: streamed.body ?? Buffer.alloc(0), end: streamed.endOfStream ?? false };
    });
  }

  it.each([
    [0, [0]],
    [1, [1]],
    [8192, [8192]],
    [8193, [8193]],
    [62_000, [62_000]],
    [62_001, [62_000, 1]],
    [125_000, [62_000, 62_000, 1000]],
  ])("of %i bytes become replies of %j, the flag on the last only (E-18, E-19)", (length, sizes) => {
    for (const endOfStream of [true, false]) {
      const chunks = chunksOf(sent("request", [Buffer.alloc(length, 3)], endOfStream), "request");
      expect(chunks.map(({ body }) => body.length)).toEqual(sizes);
      expect(chunks.map(({ end }) => end)).toEqual(sizes.map((_size, i) => endOfStream && i === sizes.length - 1));
    }
  });

  it("come out byte for byte, however they are cut into pieces", () => {
    const size = fc.oneof(
      fc.nat(40),
      fc.constantFrom(107, 113, 119, 125, 127, 128, 16_350, 16_351, 16_352, 16_383, 16_384),
      fc.nat(9000),
      fc.nat(150_000),
    );
    fc.assert(
      fc.property(phase, fc.array(size, { maxLength: 6 }), fc.boolean(), (of, sizes, endOfStream) => {
        const pieces = sizes.map((length, i) => Buffer.alloc(length, `piece ${i};`));
        const chunks = chunksOf(sent(of, pieces, endOfStream), of);
        expect(Buffer.concat(chunks.map(({ body }) => body)).equals(Buffer.concat(pieces))).toBe(true);
        expect(chunks.every(({ body }) => body.length <= MAX_BODY_CHUNK)).toBe(true);
        expect(chunks.filter(({ end }) => end)).toHaveLength(endOfStream ? 1 : 0);
        expect(chunks.at(-1)?.end).toBe(endOfStream);
      }),
      { numRuns: 60 },
    );
  });

  it("carry metadata on their last reply only", () => {
    fc.assert(
      fc.property(phase, fc.nat(130_000), namespaces, (of, length, metadata) => {
        const replies = unframed(
          Buffer.concat(collected((stream) => sendBody(stream, WRITER, of, [Buffer.alloc(length, 7)], true, metadata))),
        );
        expect(fromStruct(replies.at(-1)!.dynamicMetadata)).toEqual({ ...metadata });
        for (const reply of replies.slice(0, -1)) expect(Object.keys(reply)).toEqual([field(of, "Body")]);
        const bytes = replies.map(
          (reply) => reply[field(of, "Body")].response.bodyMutation.streamedResponse.body ?? Buffer.alloc(0),
        );
        expect(Buffer.concat(bytes)).toEqual(Buffer.alloc(length, 7));
      }),
      { numRuns: 40 },
    );
  });

  it("as a whole come with all that their reply may change", () => {
    const size = fc.oneof(fc.nat(40), fc.nat(9000), fc.nat(150_000));
    fc.assert(
      fc.property(
        phase,
        fc.array(size, { maxLength: 4 }),
        changes,
        fc.boolean(),
        fc.option(namespaces),
        (of, sizes, { given, wanted }, clearRouteCache, metadata) => {
          const pieces = sizes.map((length, i) => Buffer.alloc(length, `piece ${i};`));
          const body = Buffer.concat(pieces);
          const reply = { ...given, clearRouteCache, dynamicMetadata: metadata ?? undefined };
          const parts = collected((stream) => sendWholeBody(stream, WRITER, of, pieces, reply));
          const [message, ...others] = unframed(Buffer.concat(parts));
          expect(others).toEqual([]);
          expect(message[field(of, "Body")]).toEqual({
            response: {
              ...(wanted === undefined ? {} : { headerMutation: wanted }),
              ...(body.length === 0 ? {} : { bodyMutation: { body } }),
              ...(clearRouteCache ? { clearRouteCache: true } : {}),
            },
          });
          if (metadata === null) expect(message.dynamicMetadata).toBeUndefined();
          else expect(fromStruct(message.dynamicMetadata)).toEqual({ ...metadata });
          const copied = parts.filter(
            (part) => !pieces.some((piece) => piece.length > 0 && piece.buffer === part.buffer),
          );
          if (body.length > 8192) expect(Buffer.concat(copied).length).toBeLessThan(8192);
        },
      ),
      { numRuns: 100 },
    );
  });

  it("are not copied when they are large", () => {
    const body = Buffer.alloc(100_000, 1);
    const shared = sent("response", [body], true).filter((part) => part.buffer === body.buffer);
    expect(shared.reduce((sum, part) => sum + part.length, 0)).toBe(100_000);
  });
});
