import { DEFAULT_WIRE_OPTIONS, type WireOptions } from "../../src/wires/extproc/wire-options.ts";
import type { TestEndpoint } from "./core.ts";
import { fromStruct, headerMap, type Plain } from "./extproc-client.ts";

/** What `--parity v1.5` sets (epp-protocol 19): the scenarios of epp-protocol appendix B compare whole messages of v1.5. */
export const PARITY_WIRE: WireOptions = {
  ...DEFAULT_WIRE_OPTIONS,
  legacyHeaderOnly500: true,
  subsetMatch: "ip",
  emitDroppedReason: false,
  emitRequestId: false,
  removeControlHeaders: false,
};

/** Waiting requests, KV cache use, active adapters. */
export type Pod = readonly [queue: number, kv: number, ...adapters: string[]];

/** Pods at `192.168.1.N:8000`, N from 1 up, as epp-protocol appendix B has them. */
export function hermeticPods(pods: readonly Pod[]): TestEndpoint[] {
  return pods.map(([waiting, kvUsage, ...adapters], i) => ({
    address: `192.168.1.${i + 1}`,
    port: 8000,
    metrics: { waiting, kvUsage, loraRunning: new Set(adapters), maxLora: 4 },
  }));
}

/** The body of epp-protocol appendix B. */
export function hermeticBody(model: string, prompt = "test"): string {
  return JSON.stringify({ max_tokens: 100, model, prompt, temperature: 0 });
}

/** The headers of epp-protocol appendix B, with values in `value`; no `protocol_config`, as in the reference's tests. */
export function hermeticHeaders(...more: (readonly [string, string])[]): Plain {
  return {
    requestHeaders: {
      headers: headerMap([["hi", "mom"], ["x-request-id", "test-request-id"], ...more], "value"),
    },
  };
}

/** A reply to compare as a whole: headers sorted by key with their values as text, bytes as text, structs as objects. */
export function normalised(reply: Plain): Plain {
  const { dynamicMetadata, ...others } = reply;
  const plain = textual(others) as Plain;
  return dynamicMetadata === undefined ? plain : { ...plain, dynamicMetadata: fromStruct(dynamicMetadata) };
}

function textual(value: unknown): unknown {
  if (value instanceof Uint8Array) return Buffer.from(value).toString("latin1");
  if (Array.isArray(value)) return value.map(textual);
  if (typeof value !== "object" || value === null) return value;
  const { setHeaders, ...others } = value as Plain;
  const plain = Object.fromEntries(Object.entries(others).map(([key, inner]) => [key, textual(inner)]));
  if (setHeaders === undefined) return plain;
  const sorted = (setHeaders as Plain[])
    .map(textual)
    .sort((a: Plain, b: Plain) => (a.header.key < b.header.key ? -1 : 1));
  return { ...plain, setHeaders: sorted };
}

/** Headers of a mutation as `normalised` shows them. */
function setHeaders(headers: Readonly<Record<string, string>>): Plain[] {
  return Object.keys(headers)
    .sort()
    .map((key) => ({ header: { key, rawValue: headers[key] } }));
}

/** The whole answer to a routed request of epp-protocol appendix B. @param more headers that are echoed besides */
export function routedTo(destination: string, body: string, more: Readonly<Record<string, string>> = {}): Plain[] {
  const length = Buffer.byteLength(body, "latin1");
  const headers = {
    "x-gateway-destination-endpoint": destination,
    ...(length === 0 ? {} : { "Content-Length": String(length) }),
    hi: "mom",
    "x-request-id": "test-request-id",
    ...more,
  };
  return [
    {
      requestHeaders: { response: { headerMutation: { setHeaders: setHeaders(headers) }, clearRouteCache: true } },
      dynamicMetadata: { "envoy.lb": { "x-gateway-destination-endpoint": destination } },
    },
    {
      requestBody: {
        response: {
          bodyMutation: { streamedResponse: { ...(length === 0 ? {} : { body }), endOfStream: true } },
        },
      },
    },
  ];
}

/** The whole refusal of a request. */
export function refusedWith(status: number, text: string): Plain[] {
  return [{ immediateResponse: { status: { code: status }, body: `inference error: ${text}` } }];
}

/** The whole answer to response headers: the marker, then the echo. */
export function answeredHeaders(echoed: Readonly<Record<string, string>>): Plain {
  const headers = setHeaders({ "x-went-into-resp-headers": "true", ...echoed });
  return { responseHeaders: { response: { headerMutation: { setHeaders: headers } } } };
}

/** One body message of the response. */
export function answeredBody(body: string, endOfStream: boolean, metadata?: Record<string, unknown>): Plain {
  const streamedResponse = { ...(body === "" ? {} : { body }), ...(endOfStream ? { endOfStream } : {}) };
  return {
    responseBody: { response: { bodyMutation: { streamedResponse } } },
    ...(metadata === undefined ? {} : { dynamicMetadata: metadata }),
  };
}
