import type { Exchange } from "../../src/picker/exchange/wire.ts";
import { Notices } from "../../src/wires/extproc/notices.ts";
import { Session } from "../../src/wires/extproc/session.ts";
import { DEFAULT_WIRE_OPTIONS, type WireOptions } from "../../src/wires/extproc/wire-options.ts";
import type { TestCore } from "./core.ts";
import { EnvoyFilter, type FilterOptions } from "./envoy-filter.ts";
import {
  decodeRequest,
  decodeResponse,
  ExtProcStream,
  encodeRequest,
  fromStruct,
  type Plain,
} from "./extproc-client.ts";
import { FakeExchange, type FakePlan } from "./fake-exchange.ts";
import { FakeGrpcStream } from "./fake-grpc-stream.ts";
import type { GrpcCall } from "./grpc-client.ts";

export interface HarnessOptions {
  /** What differs from the defaults. */
  readonly wire?: Partial<WireOptions>;
  readonly filter?: FilterOptions;
  /** Puts something between session and exchange. */
  wrap?(exchange: Exchange): Exchange;
  /** A fake exchange that behaves so, in place of the core's. */
  readonly plan?: FakePlan;
}

/** Bytes of the longest message that a transport offers where it lies, and bytes around it. */
const LONGEST_PASSED = 8192;
const AROUND = 3;

const DESTINATION = "x-gateway-destination-endpoint";

/** `BodySendMode` of a mode that is presumed. */
const PRESUMED = { "full-duplex": 4, buffered: 2, streamed: 1, none: 0 };

/** A real session over a fake stream, driven and judged as Envoy does: replies by protobufjs, order by `EnvoyFilter`. */
export class SessionHarness {
  readonly core: TestCore;
  readonly stream = new FakeGrpcStream();
  readonly envoy: ExtProcStream;
  readonly filter: EnvoyFilter;
  readonly session: Session;
  readonly errors: unknown[] = [];
  /** What the operator was told, once each. */
  readonly told: string[] = [];
  readonly notices = new Notices((text) => this.told.push(text));
  readonly #fake: FakeExchange | undefined;
  /** Messages that the session took where they lay. */
  passed = 0;
  #judged = 0;
  #taken = 0;
  #endJudged = false;

  constructor(core: TestCore, options: HarnessOptions = {}) {
    this.core = core;
    const wire = { ...DEFAULT_WIRE_OPTIONS, ...options.wire };
    const presumed = PRESUMED[wire.defaultBodyMode];
    this.filter = new EnvoyFilter({
      modes: { request: presumed, response: PRESUMED[wire.defaultResponseBodyMode ?? wire.defaultBodyMode] },
      literal: wire.literalAppendAction,
      ...options.filter,
    });
    let fake: FakeExchange | undefined;
    this.session = new Session(this.stream, {
      wire,
      clock: core.clock,
      notices: this.notices,
      openExchange: (session) => {
        if (options.plan !== undefined) {
          fake = new FakeExchange({ endpoints: core.endpoints.list(), ...options.plan }, session);
          return fake;
        }
        const exchange = core.openExchange(session);
        return options.wrap?.(exchange) ?? exchange;
      },
      onError: (error) => this.errors.push(error),
    });
    this.#fake = fake;
    const call = { send: (bytes: Uint8Array) => this.#deliver(bytes) } as unknown as GrpcCall;
    this.envoy = new ExtProcStream(call);
    this.envoy.send = (message: Plain) => this.receive(encodeRequest(message));
  }

  /** One message of the proxy, as it stood on the wire. */
  receive(bytes: Uint8Array): this {
    this.filter.sent(decodeRequest(bytes));
    this.#deliver(bytes);
    this.#judge();
    return this;
  }

  /** As a transport delivers: short messages first where they lie, in memory that has other bytes afterwards. */
  #deliver(bytes: Uint8Array): void {
    if (bytes.length <= LONGEST_PASSED) {
      const chunk = Buffer.allocUnsafeSlow(bytes.length + 2 * AROUND).fill(0xbb);
      chunk.set(bytes, AROUND);
      this.stream.lent = chunk;
      const taken = this.session.passing(chunk, AROUND, AROUND + bytes.length);
      this.stream.lent = undefined;
      chunk.fill(0xaa);
      if (taken) {
        this.passed++;
        return;
      }
    }
    this.session.message(bytes);
  }

  /** The fake exchange behind the session, where a plan was given. */
  get fake(): FakeExchange {
    if (this.#fake === undefined) throw new Error("the session has a real exchange");
    return this.#fake;
  }

  /** Lets a promised decision arrive, and judges what it brings. */
  async settle(): Promise<this> {
    await this.core.clock.advanceAsync(0);
    this.#judge();
    return this;
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
    const reply = this.replies.find(
      ({ requestHeaders, requestBody }) => (requestHeaders ?? requestBody)?.response.headerMutation !== undefined,
    );
    return reply === undefined ? undefined : destinationOf(reply);
  }

  /** Everything that must never happen, whatever the test is about. */
  get wrongs(): string[] {
    return [
      ...this.filter.violations,
      ...this.stream.breaches,
      ...this.errors.map(String),
      ...(this.#fake?.breaches ?? []),
    ];
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

/** The destination in a reply to request headers or body; throws unless header and metadata agree (E-40, E-41). */
export function destinationOf(reply: Plain): string {
  const { response } = reply.requestHeaders ?? reply.requestBody;
  const header = headersOf(response.headerMutation)[DESTINATION];
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
