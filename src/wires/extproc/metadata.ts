import { Reader } from "../../base/grpc/protobuf.ts";
import type { ProcessingRequest, Struct } from "./messages.ts";
import { readStruct } from "./struct.ts";

// Tags: field number << 3 | wire type.
const LEN_1 = 0x0a;
const LEN_2 = 0x12;
const METADATA_CONTEXT = 0x42;
const ATTRIBUTES = 0x4a;

/** The namespace of Envoy's own attributes on an ext_proc stream (envoy-data-plane 2.4). */
const ATTRIBUTE_NAMESPACE = "envoy.filters.http.ext_proc";

/**
 * One namespace of `metadata_context.filter_metadata`, or undefined when the message does not carry it. Decoded anew on
 * each call; other namespaces are stepped over.
 * @throws SluiceError PROTOBUF_MALFORMED
 */
export function metadataOf(request: ProcessingRequest, namespace: string): Struct | undefined {
  return structIn(metadataBytesOf(request, namespace));
}

/**
 * The same before it is decoded: a view of the message.
 * @throws SluiceError PROTOBUF_MALFORMED
 */
export function metadataBytesOf(request: ProcessingRequest, namespace: string): Buffer | undefined {
  const reader = new Reader(request.message);
  let found: Buffer | undefined;
  while (reader.more) {
    const tag = reader.tag();
    if (tag !== METADATA_CONTEXT) {
      reader.skip(tag);
      continue;
    }
    const outer = reader.enter();
    while (reader.more) {
      const field = reader.tag();
      if (field === LEN_1) found = readEntry(reader, namespace) ?? found;
      else reader.skip(field);
    }
    reader.end = outer;
  }
  return found;
}

/**
 * The attribute `upstream.address` (`ip:port` of the endpoint that answered), which Envoy adds to `response_headers` when
 * configured to; undefined otherwise.
 * @throws SluiceError PROTOBUF_MALFORMED
 */
export function upstreamAddressOf(request: ProcessingRequest): string | undefined {
  return attributeOf(request, "upstream.address");
}

/**
 * The attribute `source.address` (`ip:port` of the client as Envoy knows it), which Envoy adds to `request_headers` when
 * configured to; undefined otherwise.
 * @throws SluiceError PROTOBUF_MALFORMED
 */
export function sourceAddressOf(request: ProcessingRequest): string | undefined {
  return attributeOf(request, "source.address");
}

function attributeOf(request: ProcessingRequest, name: string): string | undefined {
  const reader = new Reader(request.message);
  let found: Buffer | undefined;
  while (reader.more) {
    const tag = reader.tag();
    if (tag === ATTRIBUTES) found = readEntry(reader, ATTRIBUTE_NAMESPACE) ?? found;
    else reader.skip(tag);
  }
  const value = structIn(found)?.[name];
  return typeof value === "string" && value !== "" ? value : undefined;
}

function structIn(bytes: Buffer | undefined): Struct | undefined {
  return bytes === undefined ? undefined : readStruct(new Reader(bytes));
}

/** The bytes of the struct in a `map<string, Struct>` entry when its key is `wanted`. */
function readEntry(reader: Reader, wanted: string): Buffer | undefined {
  const outer = reader.enter();
  let key = "";
  let from = 0;
  let to = 0;
  while (reader.more) {
    const tag = reader.tag();
    if (tag === LEN_1) {
      key = reader.utf8();
    } else if (tag === LEN_2) {
      const length = reader.length();
      from = reader.position;
      to = from + length;
      reader.position = to;
    } else {
      reader.skip(tag);
    }
  }
  reader.end = outer;
  return key === wanted ? reader.bytes.subarray(from, to) : undefined;
}
