import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { WireOptions } from "../../src/wires/extproc/wire-options.ts";
import { decodeResponse, encodeRequest, headerMap, type Plain, structs } from "./extproc-client.ts";

/**
 * One stream between a proxy and a picker, as a file of JSON lines. The first line says what it is; each other is one
 * message or event, in the order of the wire:
 *
 *   {"from": "proxy", "bytes": "<base64 of a ProcessingRequest>"}       as recorded
 *   {"from": "proxy", "requestHeaders": [["key", "value"], ...], ...}   the same, written by hand
 *   {"from": "proxy", "event": "half-close"}                            or "reset"
 *   {"from": "picker", "bytes": "<base64 of a ProcessingResponse>"}     as recorded
 *   {"from": "picker", "is": "requestHeaders"}                          its kind, written by hand
 */
export interface Recording {
  readonly about: About;
  readonly lines: readonly Line[];
}

export interface About {
  /** What happens, and who did it. */
  readonly about: string;
  /** `ip:port` of the pool. */
  readonly pool: readonly string[];
  /** What differs from the default options of the picker. */
  readonly wire?: Partial<WireOptions>;
  /** How the exchange is booked: an `EndCause`. */
  readonly outcome: string;
  /** HTTP status of the refusal, where the picker refuses. */
  readonly refused?: number;
  /** The model has another name at its server: bodies come back changed. */
  readonly rewrites?: boolean;
}

export type Line =
  | { readonly from: "proxy"; readonly bytes: string }
  | ({ readonly from: "proxy" } & CompactMessage)
  | { readonly from: "proxy"; readonly event: "half-close" | "reset" }
  | { readonly from: "picker"; readonly bytes: string }
  | { readonly from: "picker"; readonly is: string };

type Pairs = readonly (readonly [string, string])[];

/** A `ProcessingRequest` that people can read. */
export interface CompactMessage {
  readonly requestHeaders?: Pairs;
  readonly responseHeaders?: Pairs;
  readonly requestBody?: string;
  readonly responseBody?: string;
  readonly requestTrailers?: Pairs;
  readonly responseTrailers?: Pairs;
  /** `end_of_stream`. */
  readonly end?: boolean;
  /** The body is its text so many times. */
  readonly times?: number;
  /** Request and response body mode of `protocol_config`. */
  readonly modes?: readonly [number, number];
  readonly metadata?: Record<string, Record<string, unknown>>;
  readonly attributes?: Record<string, Record<string, unknown>>;
  readonly observability?: boolean;
  /** Where header values stand; `rawValue` unless said. */
  readonly member?: "rawValue" | "value";
}

const FOLDER = fileURLToPath(new URL("../recordings/", import.meta.url));

/** Names of the recordings that are kept, without `.jsonl`. */
export function recordingNames(): string[] {
  return readdirSync(FOLDER)
    .filter((name) => name.endsWith(".jsonl"))
    .map((name) => name.slice(0, -".jsonl".length))
    .sort();
}

export function loadRecording(name: string): Recording {
  return parseRecording(readFileSync(`${FOLDER}${name}.jsonl`, "utf8"));
}

/** Throws for a line that is not JSON. */
export function parseRecording(text: string): Recording {
  const [about, ...lines] = text
    .split("\n")
    .filter((line) => line.trim() !== "")
    .map((line) => JSON.parse(line) as unknown);
  return { about: about as About, lines: lines as Line[] };
}

export function formatRecording({ about, lines }: Recording): string {
  return [about, ...lines].map((line) => `${JSON.stringify(line)}\n`).join("");
}

/** The bytes of a message of the proxy; undefined for an event. */
export function requestBytes(line: Line): Buffer | undefined {
  if (line.from !== "proxy" || "event" in line) return undefined;
  return "bytes" in line ? Buffer.from(line.bytes, "base64") : encodeRequest(expand(line));
}

/** The kind of a picker's reply, as the name of its member; undefined for other lines. */
export function replyKind(line: Line): string | undefined {
  if (line.from !== "picker") return undefined;
  return "is" in line ? line.is : Object.keys(decodeResponse(Buffer.from(line.bytes, "base64")))[0];
}

function expand(line: CompactMessage): Plain {
  const { end: endOfStream = false, member = "rawValue", times = 1 } = line;
  const message: Plain = {};
  for (const phase of ["request", "response"] as const) {
    const headers = line[`${phase}Headers`];
    if (headers !== undefined) message[`${phase}Headers`] = { headers: headerMap(headers, member), endOfStream };
    const body = line[`${phase}Body`];
    if (body !== undefined) message[`${phase}Body`] = { body: Buffer.from(body.repeat(times)), endOfStream };
    const trailers = line[`${phase}Trailers`];
    if (trailers !== undefined) message[`${phase}Trailers`] = { trailers: headerMap(trailers, member) };
  }
  if (line.metadata !== undefined) message.metadataContext = { filterMetadata: structs(line.metadata) };
  if (line.attributes !== undefined) message.attributes = structs(line.attributes);
  if (line.modes !== undefined)
    message.protocolConfig = { requestBodyMode: line.modes[0], responseBodyMode: line.modes[1] };
  if (line.observability !== undefined) message.observabilityMode = line.observability;
  return message;
}
