import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { namespaces, pairs } from "../../../test/support/extproc-arbitraries.ts";
import { encodeRequest, headerMap, type Plain, struct } from "../../../test/support/extproc-client.ts";
import { decodeProcessingRequest, PassingChunk } from "./decode.ts";
import type { Struct } from "./messages.ts";
import { metadataOf, upstreamAddressOf } from "./metadata.ts";

/** Plain objects whatever their prototypes. */
function plain(thing: unknown): unknown {
  return JSON.parse(JSON.stringify(thing, (_key, inner) => (Object.is(inner, -0) ? 0 : inner)));
}

function structs(all: Record<string, Struct>): Plain {
  return Object.fromEntries(Object.entries(all).map(([name, inner]) => [name, struct(inner)]));
}

const request = fc
  .record({
    member: fc.oneof(
      fc.record({
        field: fc.constantFrom("requestHeaders", "responseHeaders"),
        pairs,
        raw: fc.boolean(),
        endOfStream: fc.boolean(),
      }),
      fc.record({
        field: fc.constantFrom("requestBody", "responseBody"),
        body: fc.uint8Array({ maxLength: 400 }),
        endOfStream: fc.boolean(),
      }),
      fc.record({ field: fc.constantFrom("requestTrailers", "responseTrailers"), pairs }),
      fc.constant(undefined),
    ),
    metadata: fc.option(namespaces),
    attributes: fc.option(namespaces),
    observabilityMode: fc.boolean(),
    config: fc.option(fc.tuple(fc.nat(5), fc.nat(5), fc.boolean())),
  })
  .map((all) => {
    const message: Plain = { observabilityMode: all.observabilityMode };
    const member = all.member;
    if (member !== undefined && "body" in member) {
      message[member.field] = { body: Buffer.from(member.body), endOfStream: member.endOfStream };
    } else if (member !== undefined && "raw" in member) {
      const headers = member.raw
        ? headerMap(member.pairs)
        : { headers: member.pairs.map(([name, text]) => ({ key: name, value: text })) };
      message[member.field] = { headers, endOfStream: member.endOfStream };
    } else if (member !== undefined) {
      message[member.field] = { trailers: headerMap(member.pairs) };
    }
    if (all.metadata !== null) message.metadataContext = { filterMetadata: structs(all.metadata) };
    if (all.attributes !== null) message.attributes = structs(all.attributes);
    if (all.config !== null) {
      const [requestBodyMode, responseBodyMode, sendBodyWithoutWaitingForHeaderResponse] = all.config;
      message.protocolConfig = { requestBodyMode, responseBodyMode, sendBodyWithoutWaitingForHeaderResponse };
    }
    return { ...all, message };
  });

describe("decoding against protobufjs", () => {
  it("reads every field of every kind of request (D-1, E-02)", () => {
    fc.assert(
      fc.property(request, ({ message, member, observabilityMode, config, metadata }) => {
        const decoded = decodeProcessingRequest(encodeRequest(message));
        const field = member?.field ?? "none";
        expect(decoded.kind).toBe(field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`));
        expect(decoded.observabilityMode).toBe(observabilityMode);
        expect(decoded.protocolConfig).toEqual(
          config === null
            ? undefined
            : {
                requestBodyMode: config[0],
                responseBodyMode: config[1],
                sendBodyWithoutWaitingForHeaderResponse: config[2],
              },
        );
        expect(decoded.endOfStream).toBe(member !== undefined && "endOfStream" in member && member.endOfStream);
        expect([...decoded.body]).toEqual(member !== undefined && "body" in member ? [...member.body] : []);
        if (member === undefined || "body" in member) {
          expect(decoded.headers).toBeUndefined();
        } else {
          // A `value` is UTF-8 on the wire; a header holds its bytes.
          const utf8 = "raw" in member && !member.raw;
          const expected = member.pairs.map(([name, text]) => [
            name,
            utf8 ? Buffer.from(text, "utf8").toString("latin1") : text,
          ]);
          expect(decoded.headers?.keys.map((name, i) => [name, decoded.headers?.values[i]])).toEqual(expected);
        }
        for (const [name, inner] of Object.entries(metadata ?? {})) {
          expect(plain(metadataOf(decoded, name))).toEqual(plain(inner));
        }
        expect(metadataOf(decoded, "no such namespace")).toBeUndefined();
      }),
      { numRuns: 300 },
    );
  });

  it("skips unknown fields before, between and after the known ones (D-2, E-04)", () => {
    const unknown = fc.constantFrom("6a03616263", "68ac02", "6901020304050607086d01020304", "827d0161", "6b08016c");
    fc.assert(
      fc.property(request, unknown, unknown, ({ message }, before, after) => {
        const bytes = encodeRequest(message);
        const padded = Buffer.concat([Buffer.from(before, "hex"), bytes, Buffer.from(after, "hex")]);
        const { message: _own, plainFrom, plainTo, ...wanted } = decodeProcessingRequest(bytes);
        const shift = plainTo > 0 ? before.length / 2 : 0;
        const found = { ...wanted, plainFrom: plainFrom + shift, plainTo: plainTo + shift };
        expect(decodeProcessingRequest(padded)).toMatchObject(found);
      }),
    );
  });

  it("answers every truncation and every flipped byte with a result or PROTOBUF_MALFORMED", () => {
    const read = (bytes: Uint8Array): void => {
      try {
        const decoded = decodeProcessingRequest(bytes);
        metadataOf(decoded, "envoy.lb");
        upstreamAddressOf(decoded);
      } catch (error) {
        expect(error).toMatchObject({ code: "PROTOBUF_MALFORMED" });
      }
    };
    fc.assert(
      fc.property(request, fc.nat(), fc.nat(255), ({ message }, at, byte) => {
        message.metadataContext ??= { filterMetadata: structs({ "envoy.lb": { a: ["b", { c: 1 }] } }) };
        const bytes = encodeRequest(message);
        for (let end = 0; end < bytes.length; end += 1 + Math.floor(bytes.length / 50)) read(bytes.subarray(0, end));
        bytes[at % bytes.length] = byte;
        read(bytes);
      }),
      { numRuns: 300 },
    );
    fc.assert(fc.property(fc.uint8Array({ maxLength: 100 }), read), { numRuns: 2000 });
  });
});

describe("a chunk that passes", () => {
  const chunk = new PassingChunk();
  const sizes = fc.oneof(fc.nat(300), fc.constantFrom(0, 1, 125, 126, 127, 128, 129, 130, 8000));
  const body = fc
    .record({ size: sizes, end: fc.boolean(), metadata: fc.option(namespaces), attributes: fc.option(namespaces) })
    .map(({ size, end, metadata, attributes }) => ({
      responseBody: { body: Buffer.alloc(size, 7), endOfStream: end },
      ...(metadata === null ? {} : { metadataContext: { filterMetadata: structs(metadata) } }),
      ...(attributes === null ? {} : { attributes: structs(attributes) }),
    }));

  it("is what protobufjs writes for a chunk of a response", () => {
    fc.assert(
      fc.property(body, (message) => {
        const { responseBody } = message;
        const bytes = Buffer.concat([Buffer.from("x"), encodeRequest(message), Buffer.from("y")]);
        expect(chunk.read(bytes, 1, bytes.length - 1)).toBe(true);
        expect(bytes.subarray(chunk.from, chunk.to)).toEqual(responseBody.body);
        expect(chunk.end).toBe(responseBody.endOfStream);
      }),
    );
  });

  it("is never another message than the decoder reads", () => {
    let read = 0;
    const changes = fc.array(fc.tuple(fc.nat(12), fc.constantFrom(0, 1, 2, 0x0a, 0x10, 0x2a, 0x80, 0xff)), {
      maxLength: 2,
    });
    fc.assert(
      fc.property(
        fc.oneof(
          request.map(({ message }) => message),
          body,
        ),
        changes,
        fc.nat(3),
        (message, bytes, cut) => {
          const encoded = Buffer.from(encodeRequest(message));
          for (const [at, byte] of bytes) if (at < encoded.length) encoded[at] = byte;
          const behind = Math.max(0, encoded.length - cut);
          if (!chunk.read(encoded, 0, behind)) return;
          read++;
          const decoded = decodeProcessingRequest(encoded.subarray(0, behind));
          expect(decoded).toMatchObject({ kind: "response_body", endOfStream: chunk.end, observabilityMode: false });
          expect([...decoded.body]).toEqual([...encoded.subarray(chunk.from, chunk.to)]);
          expect(decoded.protocolConfig).toBeUndefined();
        },
      ),
      { numRuns: 2000 },
    );
    expect(read).toBeGreaterThan(100);
  });
});
