import { Reader, Writer } from "../../base/grpc/protobuf.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import { EncodedStruct, type ProcessingRequest, type Struct, type StructValue } from "./messages.ts";

// Tags: field number << 3 | wire type. A map entry is a message with key (1) and value (2). A Struct's fields, a map entry's
// key and a ListValue's values are all field 1.
const LEN_1 = 0x0a;
const LEN_2 = 0x12;
const METADATA_CONTEXT = 0x42;
const ATTRIBUTES = 0x4a;

/** The namespace of Envoy's own attributes on an ext_proc stream (envoy-data-plane 2.4). */
const ATTRIBUTE_NAMESPACE = "envoy.filters.http.ext_proc";

/**
 * One namespace of `metadata_context.filter_metadata`; undefined when the message does not carry it. Decodes again on each call
 * and skips other namespaces.
 * @throws SluiceError PROTOBUF_MALFORMED
 */
export function metadataOf(request: ProcessingRequest, namespace: string): Struct | undefined {
  return structIn(metadataBytesOf(request, namespace));
}

/**
 * The bytes that `metadataOf` decodes: a view of the message.
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
 * The attribute `upstream.address`: `ip:port` of the endpoint that answered. Envoy adds it to `response_headers` when its
 * configuration asks for it; undefined otherwise.
 * @throws SluiceError PROTOBUF_MALFORMED
 */
export function upstreamAddressOf(request: ProcessingRequest): string | undefined {
  return attributeOf(request, "upstream.address");
}

/**
 * The attribute `source.address`: `ip:port` of the client as Envoy sees it. Envoy adds it to `request_headers` when its
 * configuration asks for it; undefined otherwise.
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

const NULL_VALUE = 0x08;
const NUMBER_VALUE = 0x11;
const STRING_VALUE = 0x1a;
const BOOL_VALUE = 0x20;
const STRUCT_VALUE = 0x2a;
const LIST_VALUE = 0x32;

/** The most levels of structs and lists. The reference decoders stop at 100 messages, which is about as deep. */
const MAX_DEPTH = 32;

/**
 * Decodes the `google.protobuf.Struct` that `reader` is limited to.
 * @throws SluiceError PROTOBUF_MALFORMED, also for values nested deeper than 32 levels
 */
export function readStruct(reader: Reader): Struct {
  return structAt(reader, 0);
}

function structAt(reader: Reader, depth: number): Struct {
  const struct: { [key: string]: StructValue } = Object.create(null);
  while (reader.more) {
    const tag = reader.tag();
    if (tag === LEN_1) entryAt(reader, depth, struct);
    else reader.skip(tag);
  }
  return struct;
}

function entryAt(reader: Reader, depth: number, into: { [key: string]: StructValue }): void {
  const outer = reader.enter();
  let key = "";
  let value: StructValue = null;
  while (reader.more) {
    const tag = reader.tag();
    if (tag === LEN_1) key = reader.utf8();
    else if (tag === LEN_2) value = valueAt(reader, depth);
    else reader.skip(tag);
  }
  reader.end = outer;
  into[key] = value;
}

/** The last member of the oneof counts. A value without a member is null. */
function valueAt(reader: Reader, depth: number): StructValue {
  if (depth >= MAX_DEPTH) {
    throw new SluiceError("PROTOBUF_MALFORMED", `malformed protobuf: values nested deeper than ${MAX_DEPTH} levels`);
  }
  const outer = reader.enter();
  let value: StructValue = null;
  while (reader.more) {
    const tag = reader.tag();
    switch (tag) {
      case NULL_VALUE:
        reader.varint();
        value = null;
        break;
      case NUMBER_VALUE:
        value = reader.double();
        break;
      case STRING_VALUE:
        value = reader.utf8();
        break;
      case BOOL_VALUE:
        value = reader.bool();
        break;
      case STRUCT_VALUE: {
        const end = reader.enter();
        value = structAt(reader, depth + 1);
        reader.end = end;
        break;
      }
      case LIST_VALUE:
        value = listAt(reader, depth + 1);
        break;
      default:
        reader.skip(tag);
    }
  }
  reader.end = outer;
  return value;
}

function listAt(reader: Reader, depth: number): StructValue[] {
  const outer = reader.enter();
  const values: StructValue[] = [];
  while (reader.more) {
    const tag = reader.tag();
    if (tag === LEN_1) values.push(valueAt(reader, depth));
    else reader.skip(tag);
  }
  reader.end = outer;
  return values;
}

/**
 * Encodes the fields of a `google.protobuf.Struct`, in the order of its keys. The caller closes the field that contains the
 * struct.
 */
export function writeStruct(writer: Writer, struct: Struct | EncodedStruct): void {
  if (struct instanceof EncodedStruct) {
    writer.bytes(struct.fields);
    return;
  }
  const keys = Object.keys(struct);
  for (let at = keys.length - 1; at >= 0; at--) {
    const key = keys[at]!;
    const entry = writer.length;
    writeValue(writer, struct[key]!);
    writer.close(LEN_2, entry);
    const name = writer.length;
    writer.utf8(key);
    writer.close(LEN_1, name);
    writer.close(LEN_1, entry);
  }
}

/** One thread encodes one struct after the other. */
const WRITER = new Writer();

/** Encodes a struct that is sent many times. */
export function encodedStruct(struct: Struct): EncodedStruct {
  WRITER.begin();
  writeStruct(WRITER, struct);
  // A copy: kept for long, a view would keep the slab of the writer alive.
  return new EncodedStruct(Uint8Array.from(WRITER.finish()));
}

/** Encodes a `google.protobuf.Value`. */
function writeValue(writer: Writer, value: StructValue): void {
  const mark = writer.length;
  if (typeof value === "string") {
    writer.utf8(value);
    writer.close(STRING_VALUE, mark);
  } else if (typeof value === "number") {
    writer.double(value);
    writer.varint(NUMBER_VALUE);
  } else if (typeof value === "boolean") {
    writer.varint(value ? 1 : 0);
    writer.varint(BOOL_VALUE);
  } else if (value === null) {
    writer.varint(0);
    writer.varint(NULL_VALUE);
  } else if (isList(value)) {
    for (let at = value.length - 1; at >= 0; at--) {
      const element = writer.length;
      writeValue(writer, value[at]!);
      writer.close(LEN_1, element);
    }
    writer.close(LIST_VALUE, mark);
  } else {
    writeStruct(writer, value);
    writer.close(STRUCT_VALUE, mark);
  }
}

function isList(value: StructValue): value is readonly StructValue[] {
  return Array.isArray(value);
}
