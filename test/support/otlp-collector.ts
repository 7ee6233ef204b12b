import { Server, ServerCredentials } from "@grpc/grpc-js";
import protobuf from "protobufjs";

/** The fields that are read of OpenTelemetry's trace service. */
const PROTO = `
syntax = "proto3";
message AnyValue { oneof value { string string_value = 1; bool bool_value = 2; int64 int_value = 3; double double_value = 4; } }
message KeyValue { string key = 1; AnyValue value = 2; }
message Link { bytes trace_id = 1; bytes span_id = 2; }
message Status { string message = 2; uint32 code = 3; }
message Span {
  bytes trace_id = 1;
  bytes span_id = 2;
  bytes parent_span_id = 4;
  string name = 5;
  uint32 kind = 6;
  repeated KeyValue attributes = 9;
  repeated Link links = 13;
  Status status = 15;
}
message ScopeSpans { repeated Span spans = 2; }
message Resource { repeated KeyValue attributes = 1; }
message ResourceSpans { Resource resource = 1; repeated ScopeSpans scope_spans = 2; }
message ExportTraceServiceRequest { repeated ResourceSpans resource_spans = 1; }
`;
const EXPORT = protobuf.parse(PROTO, { keepCase: true }).root.lookupType("ExportTraceServiceRequest");

/** A span as it arrived; ids in hex, empty where there is none. */
export interface CollectedSpan {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentId: string;
  /** 1 internal, 3 client. */
  readonly kind: number;
  readonly attributes: Readonly<Record<string, string | number>>;
  /** Trace and span id, a slash between them. */
  readonly links: readonly string[];
  /** Text of the error; undefined = no error. */
  readonly error: string | undefined;
  readonly resource: Readonly<Record<string, string | number>>;
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

interface KeyValue {
  readonly key: string;
  readonly value?: Readonly<Record<string, string | number>>;
}

/** The messages above as protobufjs shows them, bytes in base64. */
interface Request {
  readonly resource_spans: readonly {
    readonly resource?: { readonly attributes: readonly KeyValue[] };
    readonly scope_spans: readonly { readonly spans: readonly WireSpan[] }[];
  }[];
}

interface WireSpan {
  readonly trace_id: string;
  readonly span_id: string;
  readonly parent_span_id: string;
  readonly name: string;
  readonly kind: number;
  readonly attributes: readonly KeyValue[];
  readonly links: readonly { readonly trace_id: string; readonly span_id: string }[];
  readonly status: { readonly message: string; readonly code: number } | null;
}

function read(request: Buffer): CollectedSpan[] {
  const options = { arrays: true, defaults: true, longs: Number, bytes: String };
  const message = EXPORT.toObject(EXPORT.decode(request), options) as Request;
  return message.resource_spans.flatMap(({ resource, scope_spans }) =>
    scope_spans.flatMap(({ spans }) => spans.map((span) => readSpan(span, mapOf(resource?.attributes ?? [])))),
  );
}

function readSpan(span: WireSpan, resource: CollectedSpan["resource"]): CollectedSpan {
  return {
    ...{ name: span.name, kind: span.kind, traceId: hex(span.trace_id), spanId: hex(span.span_id) },
    ...{ parentId: hex(span.parent_span_id), attributes: mapOf(span.attributes), resource },
    links: span.links.map((link) => `${hex(link.trace_id)}/${hex(link.span_id)}`),
    error: span.status?.code === 2 ? span.status.message : undefined,
  };
}

function hex(base64: string): string {
  return Buffer.from(base64, "base64").toString("hex");
}

function mapOf(list: readonly KeyValue[]): Record<string, string | number> {
  return Object.fromEntries(list.map(({ key, value }) => [key, Object.values(value ?? {})[0] ?? ""]));
}
