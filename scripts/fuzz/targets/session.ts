import { deepStrictEqual, strictEqual } from "node:assert/strict";
import { TestCore } from "../../../test/support/core.ts";
import { encodeRequest } from "../../../test/support/extproc-client.ts";
import { SessionHarness } from "../../../test/support/session-harness.ts";
import type { FuzzTarget } from "../target.ts";

const PATHS = ["/v1/chat/completions", "/v1/completions", "/v1/models", "/infer", "v1/messages", "/x?y=/z"];
const BODIES = [
  '{"model":"llama","messages":[{"role":"user","content":"hi"}]}',
  '{"model":"llama","prompt":"p","stream":true}',
  '{"prompt":"p"}',
  "{",
  "",
  "x".repeat(70_000),
];
const TYPES = ["application/json", "text/event-stream", "text/plain"];
const ANSWERS = ["{}", 'data: {"usage":{"completion_tokens":3}}\n\n', "data: [DONE]\n\n", "", "y".repeat(70_000)];
const SERVED = { metadata: { "envoy.lb": { "x-gateway-destination-endpoint-served": "10.0.0.1:8000" } } };

/** Sessions of one pool before it is made anew. */
const SESSIONS = 500;
/** Steps of one session; the harness looks at all replies after each. */
const STEPS = 24;
let core: TestCore | undefined;
let sessions = 0;

/**
 * Each input is a list of what a proxy does: messages in any order, cut and broken ones, ends. The session never throws,
 * answers in messages that can be read, sends nothing behind the end, and closes its books; where Envoy could have done
 * the same, its replies are legal.
 */
export const session: FuzzTarget = {
  name: "session",
  shortRuns: 600,
  tokens: [
    ...[
      [0x10, 0],
      [0x00, 0],
      [0x11, 0],
      [0x01, 0x80],
      [0x20, 0],
      [0x02, 0],
      [0x30, 0],
      [0x40, 0],
    ].map(bytes),
    ...[
      [0x31, 0x80],
      [0x41, 0x81],
      [0x42, 0x82],
      [0x50, 0],
      [0x60, 0],
      [0x70, 0],
      [0x80, 2, 0x12, 0],
      [0x90, 3],
    ].map(bytes),
  ],
  run(input) {
    if (core === undefined || ++sessions > SESSIONS) {
      core = new TestCore({ endpoints: 2, maxRequestBytes: 60_000, budget: 100_000 });
      sessions = 0;
    }
    const pool = core;
    // What one input breaks is not to be blamed on the next.
    core = undefined;
    const h = new SessionHarness(pool);
    const proxy = new DataPlane(h);
    const trace = play(proxy, input);
    h.session.closed();
    if (proxy.legal) deepStrictEqual(h.wrongs, []);
    deepStrictEqual(h.stream.breaches, []);
    deepStrictEqual(h.errors, []);
    deepStrictEqual(pool.errors, []);
    strictEqual(pool.inFlight, 0, "requests in flight");
    strictEqual(pool.budget.used, 0, "bytes in the budget");
    core = pool;
    const kinds = h.replies.map((reply) => Object.keys(reply)[0]);
    return `${trace} ${kinds.join()} ${h.stream.status}`;
  },
};

function bytes(list: readonly number[]): Uint8Array {
  return Uint8Array.from(list);
}

/** Drives a session, and knows whether Envoy could have done the same: only then its rules for replies hold. */
class DataPlane {
  readonly harness: SessionHarness;
  legal = true;
  #requestOpen = false;
  #requestSeen = false;
  #responseOpen = false;
  #responseSeen = false;

  constructor(harness: SessionHarness) {
    this.harness = harness;
  }

  get #answered(): boolean {
    const { filter, stream } = this.harness;
    return filter.immediate !== undefined || stream.status !== undefined;
  }

  #only(allowed: boolean): void {
    if (!allowed || this.#answered) this.legal = false;
  }

  requestHeaders(path: string, upgrade: boolean, end: boolean, modes: { request: number; response: number }): void {
    this.#only(!this.#requestSeen && modes.request === 4 && modes.response === 4 && !upgrade);
    this.#requestSeen = true;
    this.#requestOpen = !end;
    const headers = [[":method", "POST"], [":path", path], ...(upgrade ? [["upgrade", "ws"] as const] : [])] as const;
    this.harness.envoy.requestHeaders(headers, end, { modes });
  }

  requestBody(body: string, end: boolean): void {
    this.#only(this.#requestOpen);
    if (end) this.#requestOpen = false;
    this.harness.envoy.requestBody(body, end);
  }

  requestTrailers(): void {
    this.#only(this.#requestOpen);
    this.#requestOpen = false;
    this.harness.envoy.requestTrailers([["t", "1"]]);
  }

  responseHeaders(status: string, type: string, end: boolean, served: boolean): void {
    this.#only(this.harness.filter.request.headersAnswered && !this.#responseSeen);
    this.#responseSeen = true;
    this.#responseOpen = !end;
    const headers = [
      [":status", status],
      ["content-type", type],
    ] as const;
    this.harness.envoy.responseHeaders(headers, end, served ? SERVED : {});
  }

  responseBody(body: string, end: boolean): void {
    this.#only(this.#responseOpen);
    if (end) this.#responseOpen = false;
    this.harness.envoy.responseBody(body, end);
  }

  responseTrailers(): void {
    this.#only(this.#responseOpen);
    this.#responseOpen = false;
    this.harness.envoy.send({ responseTrailers: { trailers: { headers: [] } } });
  }

  raw(message: Uint8Array): void {
    this.legal = false;
    this.harness.session.message(message);
  }
}

/** @returns the kinds of steps, the first few */
function play(proxy: DataPlane, input: Buffer): string {
  const h = proxy.harness;
  let trace = "";
  for (let at = 0, step = 0; at + 1 < input.length && step < STEPS; at += 2, step++) {
    const [what, how] = [input[at]! >> 4, input[at + 1]!];
    const choice = input[at]! & 0x0f;
    const end = (how & 0x80) !== 0;
    if (step < 12) trace += what.toString(16);
    switch (what) {
      case 1: {
        const modes = how & 2 ? { request: how & 7, response: (how >> 3) & 7 } : { request: 4, response: 4 };
        proxy.requestHeaders(of(PATHS, choice), (how & 1) !== 0, end, modes);
        break;
      }
      case 0:
      case 2:
        proxy.requestBody(of(BODIES, choice), end);
        break;
      case 3:
        proxy.responseHeaders(how & 1 ? "503" : "200", of(TYPES, choice), end, (how & 2) !== 0);
        break;
      case 4:
        proxy.responseBody(of(ANSWERS, choice), end);
        break;
      case 5:
        proxy.requestTrailers();
        break;
      case 6:
        proxy.responseTrailers();
        break;
      case 7:
        h.session.halfClosed();
        return trace;
      case 8:
        proxy.raw(input.subarray(at + 2, at + 2 + how));
        at += how;
        break;
      case 9:
        proxy.raw(encodeRequest({ requestBody: { body: Buffer.from(of(BODIES, choice)) } }).subarray(0, how));
        break;
      case 10:
        h.stream.full = true;
        break;
      case 11:
        h.stream.drain();
        break;
      case 12:
        h.core.clock.advance(how);
        break;
      case 13:
        proxy.raw(encodeRequest({ observabilityMode: true, responseBody: { body: Buffer.from("x") } }));
        break;
      default:
        break;
    }
  }
  return trace;
}

function of(list: readonly string[], choice: number): string {
  return list[choice % list.length]!;
}
