import { constants, type ServerHttp2Stream } from "node:http2";
import { ClientStream, type Expectation } from "./client-stream.ts";
import type { LocalAnswer } from "./local-answer.ts";
import { HTTP2, type RequestLines } from "./request-head.ts";
import { flat, type ResponseHead } from "./response-head.ts";
import type { ProxyServices } from "./services.ts";

/** An empty piece, whose write ends after all writes before it. */
const NOTHING = Buffer.alloc(0);

/** Node resets a stream with INTERNAL_ERROR for any error. One object is enough, because no code reads its stack. */
const GIVEN_UP = new Error("the answer was given up");

/** The connection that carries the stream. */
interface OwnConnection {
  /** Address of the client. */
  readonly address: string;
  /** The stream is gone. */
  finished(): void;
}

/** The client's side over one stream of HTTP/2. Its end never ends the connection: other streams go on. */
export class Http2Stream extends ClientStream {
  readonly #connection: OwnConnection;
  readonly #stream: ServerHttp2Stream;
  #complete: boolean;
  #listens = false;

  /** @param raw as node's `stream` event has them: pseudo headers first */
  constructor(
    services: ProxyServices,
    connection: OwnConnection,
    stream: ServerHttp2Stream,
    raw: readonly string[],
    ended: boolean,
  ) {
    const lines = linesOf(raw, ended);
    super(services, connection.address, lines, expectationOf(lines.raw));
    this.#connection = connection;
    this.#stream = stream;
    this.#complete = ended;
    // An error is the reason of a close, and the close says all that counts.
    stream.on("error", () => {});
    stream.on("aborted", () => this.driver?.clientGone());
    stream.on("close", () => this.#closed());
    stream.on("drain", () => this.drained());
  }

  get requestComplete(): boolean {
    return this.#complete;
  }

  sendContinue(): void {
    if (!this.gone) this.#stream.additionalHeaders({ ":status": 100 });
  }

  pauseRequest(): void {
    this.#stream.pause();
  }

  resumeRequest(): void {
    this.#stream.resume();
  }

  /** @returns false: the caller must wait for `clientDrained` */
  write(bytes: Uint8Array): boolean {
    this.answered = "body";
    if (this.gone || this.#stream.write(bytes)) return true;
    this.needsDrain = true;
    return false;
  }

  /** The answer is complete. */
  end(): void {
    this.answered = "ended";
    this.#stream.end();
    this.watch(this.services.timers.clientStalled);
  }

  /** The answer will never be complete. The written bytes go out, then the stream is reset, so the client notices. */
  cut(): void {
    this.answered = "ended";
    this.watch(this.services.timers.linger);
    if (this.gone) return;
    this.#stream.write(NOTHING, () => this.#reset());
  }

  protected get gone(): boolean {
    return this.#stream.destroyed || this.#stream.closed;
  }

  protected sendHead(head: ResponseHead, bodyless: boolean): void {
    this.answered = "head";
    if (this.gone) return;
    this.#stream.respond([":status", String(head.status), ...flat(head.headers)], { endStream: bodyless });
  }

  protected sendAnswer(answer: LocalAnswer, _last: boolean): void {
    this.answered = "ended";
    if (this.gone) return;
    this.watch(this.services.timers.linger);
    this.#stream.respond([":status", String(answer.status), ...answer.headers]);
    this.#stream.end(answer.body);
    // The client need not send the rest of its request (RFC 9113 8.1). The reset leaves after the answer.
    if (!this.#complete) this.#stream.close(constants.NGHTTP2_NO_ERROR);
  }

  protected listen(): void {
    if (this.#listens) return;
    this.#listens = true;
    this.#stream.on("data", (chunk: Buffer) => {
      if (this.answered === "none") this.driver!.requestChunk(chunk);
    });
    this.#stream.on("end", () => {
      this.#complete = true;
      // After a reset, node ends the body too.
      if (!this.gone && !this.#stream.aborted) this.driver!.requestEnd();
    });
  }

  protected giveUp(): void {
    this.#reset();
  }

  #reset(): void {
    this.watch(this.services.timers.linger);
    // Node's `close` would end the answer in order before it resets the stream, and the client would take it for complete.
    this.#stream.destroy(GIVEN_UP);
  }

  #closed(): void {
    this.services.deadlines.delete(this);
    this.driver?.clientGone();
    this.#connection.finished();
  }
}

/** The pseudo headers, apart from the others. Node has checked that they are complete, first, and there once. */
function linesOf(raw: readonly string[], ended: boolean): RequestLines {
  let method = "";
  let target = "";
  let authority: string | undefined;
  let at = 0;
  for (; at < raw.length && raw[at]!.startsWith(":"); at += 2) {
    const value = raw[at + 1]!;
    if (raw[at] === ":method") method = value;
    else if (raw[at] === ":path") target = value;
    else if (raw[at] === ":authority") authority = value;
  }
  return { method, target, version: HTTP2, authority, raw: raw.slice(at), secure: true, ended };
}

function expectationOf(raw: readonly string[]): Expectation {
  for (let i = 0; i < raw.length; i += 2)
    if (raw[i] === "expect") return raw[i + 1]!.toLowerCase() === "100-continue" ? "continue" : "unknown";
  return "none";
}
