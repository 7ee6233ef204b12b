import type { Exchange } from "../../src/exchange/wire.ts";
import { Session } from "../../src/extproc/session.ts";
import type { TestCore } from "./core.ts";
import { EnvoyFilter } from "./envoy-filter.ts";
import { decodeResponse, ExtProcStream, encodeRequest, fromStruct, type Plain } from "./extproc-client.ts";
import { FakeGrpcStream } from "./fake-grpc-stream.ts";
import type { GrpcCall } from "./grpc-client.ts";

export interface SessionOptions {
  readonly emitDroppedReason?: boolean;
  /** Puts something between session and exchange. */
  wrap?(exchange: Exchange): Exchange;
}

const DESTINATION = "x-gateway-destination-endpoint";

/** A real session over a fake stream, driven and judged as Envoy does: replies by protobufjs, order by `EnvoyFilter`. */
export class SessionHarness {
  readonly core: TestCore;
  readonly stream = new FakeGrpcStream();
  readonly envoy: ExtProcStream;
  readonly filter = new EnvoyFilter();
  readonly session: Session;
  readonly errors: unknown[] = [];
  #judged = 0;
  #taken = 0;
  #endJudged = false;

  constructor(core: TestCore, options: SessionOptions = {}) {
    this.core = core;
    this.session = new Session(this.stream, {
      emitDroppedReason: options.emitDroppedReason ?? true,
      openExchange: (wire) => {
        const exchange = core.openExchange(wire);
        return options.wrap?.(exchange) ?? exchange;
      },
      onError: (error) => this.errors.push(error),
    });
    const call = { send: (bytes: Uint8Array) => this.session.message(bytes) } as unknown as GrpcCall;
    this.envoy = new ExtProcStream(call);
    this.envoy.send = (message: Plain) => {
      this.filter.sent(message);
      this.session.message(encodeRequest(message));
      this.#judge();
    };
  }

  /** All replies so far. */
  get replies(): Plain[] {
    return this.stream.messages().map(decodeResponse);
  }

  /** The replies since the last call. */
  take(): Plain[] {
    const fresh = this.replies.slice(this.#taken);
    this.#taken += fresh.length;
    return fresh;
  }

  /** The one reply since the last call that answers in place of the model server. */
  refusal(): { status: number; text: string; dropped: string | undefined } {
    const [reply, ...others] = this.take();
    if (reply?.immediateResponse === undefined || others.length > 0)
      throw new Error(`expected one immediate response, got ${JSON.stringify([reply, ...others])}`);
    const { status, body, headers } = reply.immediateResponse;
    return {
      status: status.code,
      text: Buffer.from(body).toString(),
      dropped: headersOf(headers)["x-llm-d-request-dropped-reason"],
    };
  }

  /** A whole POST in one body message; `path` defaults to chat completions. */
  post(body: string | Buffer, headers: readonly (readonly [string, string])[] = []): this {
    const path = headers.some(([key]) => key === ":path") ? [] : [[":path", "/v1/chat/completions"] as const];
    this.envoy.requestHeaders([[":method", "POST"], ...path, ...headers]);
    this.envoy.requestBody(body, true);
    return this;
  }

  /** A whole answer in one body message. */
  answer(body: string | Buffer, status = "200", contentType = "application/json"): this {
    this.envoy.responseHeaders([
      [":status", status],
      ["content-type", contentType],
    ]);
    this.envoy.responseBody(body, true);
    return this;
  }

  /** How Envoy ends every exchange. */
  reset(): this {
    this.session.closed();
    this.#judge();
    return this;
  }

  halfClose(): this {
    this.session.halfClosed();
    this.#judge();
    return this;
  }

  /** Where the request was sent, from the header; undefined when it was not. */
  get destination(): string | undefined {
    const reply = this.replies.find((candidate) => candidate.requestHeaders !== undefined);
    return reply === undefined ? undefined : destinationOf(reply);
  }

  /** Everything that must never happen, whatever the test is about. */
  get wrongs(): string[] {
    return [...this.filter.violations, ...this.stream.breaches, ...this.errors.map(String)];
  }

  #judge(): void {
    for (const reply of this.replies.slice(this.#judged)) {
      this.#judged++;
      this.filter.replied(reply);
    }
    if (this.stream.status === undefined || this.#endJudged) return;
    this.#endJudged = true;
    this.filter.ended(this.stream.status);
  }
}

/** The set headers of a mutation by key; a key set twice keeps its last value. */
export function headersOf(mutation: Plain): Record<string, string> {
  return Object.fromEntries(
    (mutation?.setHeaders ?? []).map(({ header }: Plain) => [
      header.key,
      Buffer.from(header.rawValue ?? []).toString("latin1"),
    ]),
  );
}

/** The keys of a mutation in order. */
export function keysOf(mutation: Plain): string[] {
  return (mutation?.setHeaders ?? []).map(({ header }: Plain) => header.key);
}

/** The destination in a request-header reply; throws unless header and metadata agree (E-40, E-41). */
export function destinationOf(reply: Plain): string {
  const header = headersOf(reply.requestHeaders.response.headerMutation)[DESTINATION];
  const metadata = fromStruct(reply.dynamicMetadata)["envoy.lb"] as Record<string, string> | undefined;
  if (header === undefined || metadata?.[DESTINATION] !== header)
    throw new Error(`header says ${header}, metadata ${JSON.stringify(metadata)}`);
  return header;
}

/** The bytes of body replies in one direction, joined, and the flags of their ends. */
export function bodyOf(
  replies: readonly Plain[],
  direction: "request" | "response",
): { bytes: Buffer; ends: boolean[] } {
  const chunks = replies
    .map((reply) => reply[`${direction}Body`]?.response.bodyMutation.streamedResponse)
    .filter((chunk) => chunk !== undefined);
  return {
    bytes: Buffer.concat(chunks.map((chunk) => Buffer.from(chunk.body ?? []))),
    ends: chunks.map((chunk) => chunk.endOfStream === true),
  };
}

/** A chat request. */
export function chatBody(content = "hello", more: Record<string, unknown> = {}): string {
  return JSON.stringify({ model: "llama", messages: [{ role: "user", content }], ...more });
}
