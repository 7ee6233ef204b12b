import { Reader, WIRE, Writer } from "../../base/grpc/protobuf.ts";

/** The service of KEDA's published `externalscaler.proto`. */
export const SCALER_SERVICE = "externalscaler.ExternalScaler";

/** `ScaledObjectRef`: the ScaledObject that asks, and the metadata of its trigger. */
export interface ScaledObjectRef {
  readonly name: string;
  readonly namespace: string;
  readonly metadata: ReadonlyMap<string, string>;
}

/** `GetMetricsRequest`. */
export interface MetricsRequest {
  readonly ref: ScaledObjectRef;
  /** "" = none. */
  readonly metricName: string;
}

/** The fields of both messages that carry a figure, and of the lists that hold them: numbers and wire types are the same. */
const FIELD = {
  list: 8 + WIRE.bytes,
  name: 8 + WIRE.bytes,
  whole: 16 + WIRE.varint,
  exact: 24 + WIRE.fixed64,
} as const;

const NAME = 8 + WIRE.bytes;
const NAMESPACE = 16 + WIRE.bytes;
const METADATA = 24 + WIRE.bytes;
const REF = 8 + WIRE.bytes;
const METRIC_NAME = 16 + WIRE.bytes;

/** @throws SluiceError PROTOBUF_MALFORMED */
export function decodeRef(bytes: Uint8Array): ScaledObjectRef {
  const ref = emptyRef();
  readRef(new Reader(bytes), ref);
  return ref;
}

/** @throws SluiceError PROTOBUF_MALFORMED */
export function decodeMetricsRequest(bytes: Uint8Array): MetricsRequest {
  const reader = new Reader(bytes);
  const ref = emptyRef();
  let metricName = "";
  while (reader.more) {
    const tag = reader.tag();
    if (tag === REF) {
      // A field that comes twice is merged, as protobuf asks.
      const end = reader.enter();
      readRef(reader, ref);
      reader.end = end;
    } else if (tag === METRIC_NAME) metricName = reader.utf8();
    else reader.skip(tag);
  }
  return { ref, metricName };
}

/** `IsActiveResponse`. */
export function isActiveResponse(result: boolean): Uint8Array {
  return Uint8Array.of(0x08, Number(result));
}

/**
 * `GetMetricSpecResponse` with one metric, or `GetMetricsResponse` with one value: both look the same. The figure is there twice,
 * because releases of KEDA without the floating-point field read the whole number. That one is rounded up: 0.2 is not nothing.
 * @param figure 0 to 2^53
 */
export function figureResponse(metricName: string, figure: number): Buffer {
  const writer = new Writer();
  writer.begin();
  writer.double(figure);
  writer.varint(FIELD.exact);
  writer.varint(Math.ceil(figure));
  writer.varint(FIELD.whole);
  const name = writer.length;
  writer.utf8(metricName);
  writer.close(FIELD.name, name);
  writer.close(FIELD.list, 0);
  return writer.finish();
}

interface MutableRef {
  name: string;
  namespace: string;
  readonly metadata: Map<string, string>;
}

function emptyRef(): MutableRef {
  return { name: "", namespace: "", metadata: new Map() };
}

function readRef(reader: Reader, ref: MutableRef): void {
  while (reader.more) {
    const tag = reader.tag();
    if (tag === NAME) ref.name = reader.utf8();
    else if (tag === NAMESPACE) ref.namespace = reader.utf8();
    else if (tag === METADATA) readEntry(reader, ref.metadata);
    else reader.skip(tag);
  }
}

/** An entry of a map: key = 1, value = 2. Either may be missing, which means "". */
function readEntry(reader: Reader, map: Map<string, string>): void {
  const end = reader.enter();
  let key = "";
  let value = "";
  while (reader.more) {
    const tag = reader.tag();
    if (tag === NAME) key = reader.utf8();
    else if (tag === NAMESPACE) value = reader.utf8();
    else reader.skip(tag);
  }
  reader.end = end;
  map.set(key, value);
}
