import { deepStrictEqual, ok, strictEqual } from "node:assert/strict";
import { readFileSync } from "node:fs";
import protobuf from "protobufjs";
import { SluiceError } from "../../../src/base/inference/errors.ts";
import { decodeProcessingRequest } from "../../../src/wires/extproc/decode.ts";
import type { ProcessingRequest } from "../../../src/wires/extproc/messages.ts";
import { metadataOf, upstreamAddressOf } from "../../../src/wires/extproc/metadata.ts";
import { fromStruct } from "../../../test/support/extproc-client.ts";
import type { FuzzTarget } from "../target.ts";

// Keys and values of headers as the bytes they are, so that the oracle loses none of them.
const PROTO = readFileSync(new URL("../../../src/wires/extproc/extproc.proto", import.meta.url), "utf8").replace(
  /message HeaderValue \{[^}]*\}/,
  "message HeaderValue { bytes key = 1; bytes value = 2; bytes raw_value = 3; }",
);
const Oracle = protobuf.parse(PROTO).root.lookupType("envoy.service.ext_proc.v3.ProcessingRequest");

// biome-ignore lint/suspicious/noExplicitAny: generic messages
type Plain = any;

/** The decoder of Envoy's messages says what protobufjs says, or that the message is malformed. */
export const codec: FuzzTarget = {
  name: "codec",
  shortRuns: 30_000,
  tokens: [
    ...[
      [0x12, 2, 0x0a, 0],
      [0x1a, 0],
      [0x22, 4, 0x0a, 0, 0x10, 1],
      [0x2a, 2, 0x10, 1],
      [0x32, 0],
      [0x3a, 0],
      [0x50, 1],
    ].map((list) => Uint8Array.from(list)),
    ...[[0x5a, 4, 8, 4, 0x10, 4], [0x42, 0], [0x4a, 0], [0x0a, 4, 0x0a, 1, 0x61, 0x1a], [0x0b, 0x0c], [0x69]].map(
      (list) => Uint8Array.from(list),
    ),
    "envoy.lb",
    ":path",
    "x-gateway-destination-endpoint-served",
  ],
  run(input) {
    let ours: ProcessingRequest;
    try {
      ours = decodeProcessingRequest(input);
    } catch (error) {
      ok(error instanceof SluiceError && error.code === "PROTOBUF_MALFORMED", String(error));
      return error.message.replace(/\d+/g, "n");
    }
    const metadata = laxly(() => metadataOf(ours, "envoy.lb"));
    const address = laxly(() => upstreamAddressOf(ours));
    let canonical: Buffer;
    let theirs: Plain;
    try {
      const message = Oracle.decode(input);
      theirs = Oracle.toObject(message, { longs: Number, enums: Number });
      canonical = Buffer.from(Oracle.encode(message).finish());
    } catch {
      return `${ours.kind}, protobufjs refuses`;
    }
    // Protobuf merges a message that comes twice; our decoder takes the last one, as no proxy sends one in parts.
    const twice = comesTwice(input);
    if (!twice) compare(ours, theirs);
    const again = decodeProcessingRequest(canonical);
    compare(again, theirs);
    const struct = laxly(() => metadataOf(again, "envoy.lb"));
    if (struct !== "malformed")
      deepStrictEqual(plain(struct), plain(theirs.metadataContext?.filterMetadata?.["envoy.lb"]));
    const config = ours.protocolConfig !== undefined;
    return `${ours.kind} ${ours.headers?.length} ${ours.endOfStream} ${config} ${shape(metadata)} ${address !== undefined} ${twice}`;
  },
};

/** Of a struct, ours or protobufjs's: what it says, in JSON. */
function plain(struct: Plain): unknown {
  if (struct === undefined) return undefined;
  return JSON.parse(JSON.stringify(Object.getPrototypeOf(struct) === null ? struct : fromStruct(struct)));
}

/** Whether a message field of the top level is there more than once. */
function comesTwice(input: Buffer): boolean {
  const reader = protobuf.Reader.create(input);
  const seen = new Set<number>();
  while (reader.pos < reader.len) {
    const tag = reader.uint32();
    reader.skipType(tag & 7, 0, tag >>> 3);
    if ((tag & 7) !== 2) continue;
    if (seen.has(tag)) return true;
    seen.add(tag);
  }
  return false;
}

function shape(struct: unknown): string {
  return typeof struct === "object" ? `${Object.keys(struct as object).length}` : String(struct);
}

function laxly(read: () => unknown): unknown {
  try {
    return read();
  } catch (error) {
    ok(error instanceof SluiceError && error.code === "PROTOBUF_MALFORMED", String(error));
    return "malformed";
  }
}

function compare(ours: ProcessingRequest, theirs: Plain): void {
  strictEqual(ours.observabilityMode, theirs.observabilityMode ?? false);
  const field = ours.kind.replace(/_./g, (letter) => letter[1]!.toUpperCase());
  const member: Plain = theirs[field];
  if (ours.kind === "none") {
    deepStrictEqual(
      Object.keys(theirs).filter((key) => /^re(quest|sponse)/.test(key)),
      [],
    );
    return;
  }
  ok(member !== undefined, `${field} is not there`);
  const {
    requestBodyMode = 0,
    responseBodyMode = 0,
    sendBodyWithoutWaitingForHeaderResponse: sends = false,
  } = theirs.protocolConfig ?? {};
  if (
    ours.protocolConfig !== undefined &&
    Math.max(ours.protocolConfig.requestBodyMode, ours.protocolConfig.responseBodyMode) < 2 ** 31
  )
    deepStrictEqual(ours.protocolConfig, {
      requestBodyMode,
      responseBodyMode,
      sendBodyWithoutWaitingForHeaderResponse: sends,
    });
  strictEqual(ours.endOfStream, member.endOfStream ?? false);
  if (ours.kind.endsWith("_body")) {
    deepStrictEqual([...ours.body], [...(member.body ?? [])]);
    return;
  }
  const map: Plain[] = (ours.kind.endsWith("_headers") ? member.headers : member.trailers)?.headers ?? [];
  const text = (bytes: Uint8Array | undefined): string => Buffer.from(bytes ?? []).toString("latin1");
  deepStrictEqual(
    ours.headers?.keys,
    map.map(({ key }) => text(key).toLowerCase()),
  );
  deepStrictEqual(
    ours.headers?.values,
    map.map(({ value, rawValue }) => text(rawValue) || text(value)),
  );
}
