import { Server, ServerCredentials } from "@grpc/grpc-js";
import protobuf from "protobufjs";

/** The fields that are read of OpenTelemetry's trace service. */
const PROTO = `
syntax = "proto3";
message AnyValue {
  oneof value { string string_value = 1; bool bool_value = 2; int64 int_value = 3; double double_value = 4; ArrayValue array_value = 5; }
}
message ArrayValue { repeated AnyValue values = 1; }
message KeyValue { string key = 1; AnyValue value = 2; }
message Event { fixed64 time_unix_nano = 1; string name = 2; repeated KeyValue attributes = 3; }
message Link { bytes trace_id = 1; bytes span_id = 2; }
message Status { string message = 2; uint32 code = 3; }
message Span {
  bytes trace_id = 1;
  bytes span_id = 2;
  bytes parent_span_id = 4;
  string name = 5;
  uint32 kind = 6;
  fixed64 start_time_unix_nano = 7;
  fixed64 end_time_unix_nano = 8;
  repeated KeyValue attributes = 9;
  repeated Event events = 11;
  repeated Link links = 13;
  Status status = 15;
}
message Scope { string name = 1; }
message ScopeSpans { Scope scope = 1; repeated Span spans = 2; }
message Resource { repeated KeyValue attributes = 1; }
message ResourceSpans { Resource resource = 1; repeated ScopeSpans scope_spans = 2; }
message ExportTraceServiceRequest { repeated ResourceSpans resource_spans = 1; }
`;
const EXPORT = protobuf.parse(PROTO, { keepCase: true }).root.lookupType("ExportTraceServiceRequest");

export type CollectedValue = string | number | boolean | readonly CollectedValue[];
type CollectedAttributes = Readonly<Record<string, CollectedValue>>;

/** A span as it arrived; ids in hex, empty where there is none. */
export interface CollectedSpan {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentId: string;
  /** 1 internal, 2 server, 3 client. */
  readonly kind: number;
  /** Name of what made it. */
  readonly scope: string;
  /** Milliseconds since the epoch. */
  readonly started: number;
  readonly ended: number;
  readonly attributes: CollectedAttributes;
  /** Name and milliseconds since the epoch. */
  readonly events: readonly (readonly [name: string, at: number])[];
  /** Trace and span id, a slash between them. */
  readonly links: readonly string[];
  /** Text of the error; undefined = no error. */
  readonly error: string | undefined;
  readonly resource: CollectedAttributes;
}

export interface OtlpCollector extends AsyncDisposable {
  /** `http://host:port`. */
  readonly endpoint: string;
  readonly spans: readonly CollectedSpan[];
  /** Calls that have begun. */
  readonly calls: number;
}

/** A trace collector on loopback that keeps what it gets. @param answers false = calls stay without an answer */
export async function startOtlpCollector({ answers = true } = {}): Promise<OtlpCollector> {
  const server = new Server();
  const spans: CollectedSpan[] = [];
  let calls = 0;
  server.register(
    "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    (call: { readonly request: Buffer }, reply: (error: null, answer: Buffer) => void) => {
      calls++;
      if (!answers) return;
      spans.push(...read(call.request));
      reply(null, Buffer.alloc(0));
    },
    (answer: Buffer) => answer,
    (request: Buffer) => request,
    "unary",
  );
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) =>
      error === null ? resolve(bound) : reject(error),
    ),
  );
  return {
    endpoint: `http://127.0.0.1:${port}`,
    spans,
    get calls() {
      return calls;
    },
    [Symbol.asyncDispose]: async () => server.forceShutdown(),
  };
}

interface AnyValue {
  readonly string_value?: string;
  readonly bool_value?: boolean;
  readonly int_value?: number;
  readonly double_value?: number;
  readonly array_value?: { readonly values: readonly AnyValue[] };
}

interface KeyValue {
  readonly key: string;
  readonly value?: AnyValue;
}

/** The messages above as protobufjs shows them, bytes in base64. */
interface Request {
  readonly resource_spans: readonly {
    readonly resource?: { readonly attributes: readonly KeyValue[] };
    readonly scope_spans: readonly {
      readonly scope?: { readonly name: string };
      readonly spans: readonly WireSpan[];
    }[];
  }[];
}

interface WireSpan {
  readonly trace_id: string;
  readonly span_id: string;
  readonly parent_span_id: string;
  readonly name: string;
  readonly kind: number;
  readonly start_time_unix_nano: number;
  readonly end_time_unix_nano: number;
  readonly attributes: readonly KeyValue[];
  readonly events: readonly { readonly name: string; readonly time_unix_nano: number }[];
  readonly links: readonly { readonly trace_id: string; readonly span_id: string }[];
  readonly status: { readonly message: string; readonly code: number } | null;
}

function read(request: Buffer): CollectedSpan[] {
  const options = { arrays: true, defaults: true, longs: Number, bytes: String };
  const message = EXPORT.toObject(EXPORT.decode(request), options) as Request;
  return message.resource_spans.flatMap(({ resource, scope_spans }) =>
    scope_spans.flatMap(({ scope, spans }) =>
      spans.map((span) => readSpan(span, scope?.name ?? "", mapOf(resource?.attributes ?? []))),
    ),
  );
}

function readSpan(span: WireSpan, scope: string, resource: CollectedSpan["resource"]): CollectedSpan {
  return {
    ...{ scope, started: millisecondsOf(span.start_time_unix_nano), ended: millisecondsOf(span.end_time_unix_nano) },
    ...{ name: span.name, kind: span.kind, traceId: hex(span.trace_id), spanId: hex(span.span_id) },
    ...{ parentId: hex(span.parent_span_id), attributes: mapOf(span.attributes), resource },
    events: span.events.map(({ name, time_unix_nano: at }) => [name, millisecondsOf(at)] as const),
    links: span.links.map((link) => `${hex(link.trace_id)}/${hex(link.span_id)}`),
    error: span.status?.code === 2 ? span.status.message : undefined,
  };
}

/** To a microsecond: a number holds no more of the nanoseconds since 1970. */
function millisecondsOf(nanoseconds: number): number {
  return Math.round(nanoseconds / 1000) / 1000;
}

function hex(base64: string): string {
  return Buffer.from(base64, "base64").toString("hex");
}

function mapOf(list: readonly KeyValue[]): Record<string, CollectedValue> {
  return Object.fromEntries(list.map(({ key, value }) => [key, plainOf(value ?? {})]));
}

function plainOf(value: AnyValue): CollectedValue {
  const { string_value, bool_value, int_value, double_value, array_value } = value;
  return array_value?.values.map(plainOf) ?? string_value ?? bool_value ?? int_value ?? double_value ?? "";
}
