import { fileURLToPath } from "node:url";
import protobuf from "protobufjs";
import { type GrpcCall, GrpcClient, type GrpcClientOptions } from "./grpc-client.ts";

/** Envoy's definitions, as protobufjs reads them. */
export const root = protobuf.loadSync(fileURLToPath(new URL("../../src/wires/extproc/extproc.proto", import.meta.url)));

/** The messages as protobufjs reads them from the .proto: nothing is shared with the codec under test. */
export const ProcessingRequestType = root.lookupType("envoy.service.ext_proc.v3.ProcessingRequest");
export const ProcessingResponseType = root.lookupType("envoy.service.ext_proc.v3.ProcessingResponse");

const PATH = "/envoy.service.ext_proc.v3.ExternalProcessor/Process";

/** A decoded message: field names in camel case, absent members absent, bytes as buffers, enums as numbers. */
// biome-ignore lint/suspicious/noExplicitAny: tests reach deep into generic messages
export type Plain = any;

export function encodeRequest(request: Plain): Buffer {
  return Buffer.from(ProcessingRequestType.encode(ProcessingRequestType.fromObject(request)).finish());
}

export function decodeRequest(bytes: Uint8Array): Plain {
  return ProcessingRequestType.toObject(ProcessingRequestType.decode(bytes), { oneofs: false, longs: Number });
}

export function decodeResponse(bytes: Uint8Array): Plain {
  return ProcessingResponseType.toObject(ProcessingResponseType.decode(bytes), { oneofs: false, longs: Number });
}

/** A header map as Envoy fills it: values in `raw_value`; some other proxies use `value`. */
export function headerMap(
  pairs: Iterable<readonly [string, string]>,
  member: "rawValue" | "value" = "rawValue",
): Plain {
  return {
    headers: [...pairs].map(([key, value]) => ({
      key,
      [member]: member === "value" ? value : Buffer.from(value, "latin1"),
    })),
  };
}

/** A plain value as `google.protobuf.Value`. */
export function structValue(value: unknown): Plain {
  if (value === null || value === undefined) return { nullValue: 0 };
  if (typeof value === "string") return { stringValue: value };
  if (typeof value === "number") return { numberValue: value };
  if (typeof value === "boolean") return { boolValue: value };
  if (Array.isArray(value)) return { listValue: { values: value.map(structValue) } };
  return { structValue: struct(value as Record<string, unknown>) };
}

/** A plain object as `google.protobuf.Struct`. */
export function struct(object: Record<string, unknown>): Plain {
  return { fields: Object.fromEntries(Object.entries(object).map(([key, value]) => [key, structValue(value)])) };
}

/** The inverse of `struct`. */
export function fromStruct(value: Plain): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries((value?.fields ?? {}) as Record<string, Plain>).map(([key, inner]) => [key, fromValue(inner)]),
  );
}

function fromValue(value: Plain): unknown {
  if (value.stringValue !== undefined) return value.stringValue;
  if (value.numberValue !== undefined) return value.numberValue;
  if (value.boolValue !== undefined) return value.boolValue;
  if (value.listValue !== undefined) return (value.listValue.values ?? []).map(fromValue);
  if (value.structValue !== undefined) return fromStruct(value.structValue);
  return null;
}

/** What a request's first message adds, by namespace and as Envoy's configuration would. */
export interface RequestExtras {
  readonly metadata?: Record<string, Record<string, unknown>>;
  readonly attributes?: Record<string, Record<string, unknown>>;
  /** Body modes of `protocol_config`; FULL_DUPLEX_STREAMED (4) both ways unless given, null = no `protocol_config`. */
  readonly modes?: { readonly request: number; readonly response: number } | null;
}

/** One `Process` stream, driven as Envoy drives it. */
export class ExtProcStream {
  readonly call: GrpcCall;
  #first = true;

  constructor(call: GrpcCall) {
    this.call = call;
  }

  requestHeaders(pairs: Iterable<readonly [string, string]>, endOfStream = false, extras: RequestExtras = {}): void {
    this.#send({ requestHeaders: { headers: headerMap(pairs), endOfStream } }, extras);
  }

  requestBody(body: Uint8Array | string, endOfStream = false, extras: RequestExtras = {}): void {
    this.#send({ requestBody: { body: Buffer.from(body), endOfStream } }, extras);
  }

  requestTrailers(pairs: Iterable<readonly [string, string]> = [], extras: RequestExtras = {}): void {
    this.#send({ requestTrailers: { trailers: headerMap(pairs) } }, extras);
  }

  responseHeaders(pairs: Iterable<readonly [string, string]>, endOfStream = false, extras: RequestExtras = {}): void {
    this.#send({ responseHeaders: { headers: headerMap(pairs), endOfStream } }, extras);
  }

  responseBody(body: Uint8Array | string, endOfStream = false, extras: RequestExtras = {}): void {
    this.#send({ responseBody: { body: Buffer.from(body), endOfStream } }, extras);
  }

  responseTrailers(pairs: Iterable<readonly [string, string]> = [], extras: RequestExtras = {}): void {
    this.#send({ responseTrailers: { trailers: headerMap(pairs) } }, extras);
  }

  /** Any message, as a plain object. */
  send(request: Plain): void {
    this.call.send(encodeRequest(request));
  }

  /** The next reply; undefined once the stream is over. */
  async next(): Promise<Plain | undefined> {
    const message = await this.call.next();
    return message === undefined ? undefined : decodeResponse(message);
  }

  /** How Envoy ends every exchange: RST_STREAM, code 2 since 1.37, 0 before. */
  reset(code = 2): void {
    this.call.reset(code);
  }

  halfClose(): void {
    this.call.halfClose();
  }

  #send(member: Plain, extras: RequestExtras): void {
    const request = { ...member };
    if (extras.metadata !== undefined) request.metadataContext = { filterMetadata: structs(extras.metadata) };
    if (extras.attributes !== undefined) request.attributes = structs(extras.attributes);
    if (this.#first && extras.modes !== null) {
      const { request: requestBodyMode, response: responseBodyMode } = extras.modes ?? { request: 4, response: 4 };
      request.protocolConfig = { requestBodyMode, responseBodyMode };
    }
    this.#first = false;
    this.send(request);
  }
}

/** An ext_proc client over one connection. */
export class ExtProcClient {
  readonly grpc: GrpcClient;

  private constructor(grpc: GrpcClient) {
    this.grpc = grpc;
  }

  static async connect(port: number, options: GrpcClientOptions = {}): Promise<ExtProcClient> {
    return new ExtProcClient(await GrpcClient.connect(port, options));
  }

  open(): ExtProcStream {
    return new ExtProcStream(this.grpc.open(PATH));
  }

  close(): void {
    this.grpc.close();
  }
}

/** Structs by namespace, as metadata and attributes come. */
export function structs(namespaces: Record<string, Record<string, unknown>>): Plain {
  return Object.fromEntries(Object.entries(namespaces).map(([name, value]) => [name, struct(value)]));
}
