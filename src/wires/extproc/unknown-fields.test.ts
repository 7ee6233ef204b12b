import type { Field, MapField, Type } from "protobufjs";
import { describe, expect, it } from "vitest";
import { TestCore } from "../../../test/support/core.ts";
import {
  decodeResponse,
  encodeRequest,
  headerMap,
  type Plain,
  ProcessingRequestType,
  structs,
} from "../../../test/support/extproc-client.ts";
import { chatBody, SessionHarness } from "../../../test/support/session-harness.ts";
import { Writer } from "../../base/grpc/protobuf.ts";
import type { GrpcStream } from "../../base/grpc/transport.ts";
import { sendBody } from "./encode.ts";

/** Fields 13 and 2000, of every wire type. */
const UNKNOWN = Buffer.from(
  "6801" + "6a03616263" + "6901020304050607086d01020304" + "807d07827d03616263" + "857d01020304",
  "hex",
);
const LENGTH_DELIMITED = 2;

function varint(bytes: Uint8Array, at: number): [value: number, next: number] {
  let value = 0;
  let shift = 0;
  for (;;) {
    const byte = bytes[at++]!;
    value += (byte & 0x7f) * 2 ** shift;
    if (byte < 0x80) return [value, at];
    shift += 7;
  }
}

function asVarint(value: number): Buffer {
  const bytes: number[] = [];
  for (; value > 0x7f; value = Math.floor(value / 128)) bytes.push((value & 0x7f) | 0x80);
  return Buffer.from([...bytes, value]);
}

/** The message type of a field; of a map the pair that stands for it on the wire. */
function typeOf(field: Field | MapField | undefined): Type | "entry" | undefined {
  if (field === undefined) return undefined;
  if (field.map) return "entry";
  const { resolvedType } = field.resolve();
  return resolvedType !== null && "fieldsById" in resolvedType ? (resolvedType as Type) : undefined;
}

/** The same message with unknown fields before and behind the known ones of it and of every message in it. */
function padded(bytes: Uint8Array, type: Type): Buffer {
  return Buffer.concat([UNKNOWN, rewritten(bytes, (id) => type.fieldsById[id]), UNKNOWN]);
}

function rewritten(bytes: Uint8Array, fieldOf: (id: number) => Field | MapField | undefined): Buffer {
  const parts: Uint8Array[] = [];
  for (let at = 0; at < bytes.length; ) {
    const start = at;
    const [tag, behindTag] = varint(bytes, at);
    if ((tag & 7) !== LENGTH_DELIMITED) {
      const fixed = { 0: varint(bytes, behindTag)[1], 1: behindTag + 8, 5: behindTag + 4 }[tag & 7];
      at = fixed!;
      parts.push(bytes.subarray(start, at));
      continue;
    }
    const [length, content] = varint(bytes, behindTag);
    at = content + length;
    const field = fieldOf(tag >>> 3);
    const type = typeOf(field);
    if (type === undefined) {
      parts.push(bytes.subarray(start, at));
      continue;
    }
    const inner = bytes.subarray(content, at);
    const value = field?.resolve().resolvedType as Type | null | undefined;
    const grown =
      type === "entry"
        ? Buffer.concat([
            UNKNOWN,
            rewritten(inner, (id) =>
              id === 2 && value ? ({ map: false, resolve: () => ({ resolvedType: value }) } as Field) : undefined,
            ),
            UNKNOWN,
          ])
        : padded(inner, type);
    parts.push(bytes.subarray(start, behindTag), asVarint(grown.length), grown);
  }
  return Buffer.concat(parts);
}

const metadataContext = {
  filterMetadata: structs({
    "envoy.lb.subset_hint": { "x-gateway-destination-endpoint-subset": ["10.0.0.2:8000", { deep: [1, null, true] }] },
    "envoy.lb": { "x-gateway-destination-endpoint-served": "10.0.0.3:8000" },
  }),
};
const attributes = structs({ "envoy.filters.http.ext_proc": { "upstream.address": "10.0.0.3:8000" } });
const pairs = [
  [":path", "/v1/chat/completions"],
  ["x-request-id", "r"],
  ["hi", "mom"],
] as const;

const EXCHANGE: readonly Plain[] = [
  {
    requestHeaders: { headers: headerMap(pairs) },
    metadataContext,
    attributes,
    protocolConfig: { requestBodyMode: 4, responseBodyMode: 4 },
  },
  { requestBody: { body: Buffer.from(chatBody()) }, metadataContext },
  { requestTrailers: { trailers: headerMap([["checksum", "1"]]) } },
  {
    responseHeaders: {
      headers: headerMap(
        [
          [":status", "200"],
          ["server", "vllm"],
        ],
        "value",
      ),
    },
    metadataContext,
    attributes,
  },
  { responseBody: { body: Buffer.from('{"usage":{"prompt_tokens":7}}') } },
  { responseTrailers: { trailers: headerMap([["grpc-status", "0"]]) } },
];

function play(bytesOf: (message: Plain) => Buffer): SessionHarness {
  const h = new SessionHarness(new TestCore());
  for (const message of EXCHANGE) h.receive(bytesOf(message));
  return h;
}

describe("fields nobody knows (D-2, E-04)", () => {
  it("at every level of every message change nothing", () => {
    const plain = play(encodeRequest);
    const grown = play((message) => padded(encodeRequest(message), ProcessingRequestType));
    expect(grown.replies).toEqual(plain.replies);
    expect(grown.destination).toBe("10.0.0.2:8000");
    expect(grown.core.total("llm_d_epp_request_input_tokens_sum")).toBe(7);
    expect(grown.wrongs).toEqual([]);
  });

  it("are put in by the test where it says: the oracle reads the same, and the bytes are many more", () => {
    for (const message of EXCHANGE) {
      const bytes = encodeRequest(message);
      const grown = padded(bytes, ProcessingRequestType);
      expect(grown.length).toBeGreaterThanOrEqual(bytes.length + 4 * UNKNOWN.length);
      expect(ProcessingRequestType.toObject(ProcessingRequestType.decode(grown))).toEqual(
        ProcessingRequestType.toObject(ProcessingRequestType.decode(bytes)),
      );
    }
  });
});

describe("vector W-3 (D-1)", () => {
  it("is what a decoder reads in our last chunk of a body", () => {
    const parts: Uint8Array[] = [];
    const stream: Partial<GrpcStream> = {
      sendFramed: (bytes, from, to) => parts.push(bytes.slice(from, to)) > 0,
    };
    sendBody(stream as GrpcStream, new Writer(), "request", [Buffer.from("{}")], true);
    expect(decodeResponse(Buffer.concat(parts).subarray(5))).toEqual(
      decodeResponse(Buffer.from("1a0c0a0a1a081a060a027b7d1001", "hex")),
    );
  });
});
