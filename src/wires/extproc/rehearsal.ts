import { connect, type Socket } from "node:net";
import type { Clock } from "../../base/clock/clock.ts";
import {
  DEFAULT_FRAME_SIZE,
  DEFAULT_WINDOW,
  FLAG,
  FRAME,
  FRAME_HEADER,
  MAX_31_BITS,
  PREFACE,
  SETTING,
  SETTING_SIZE,
} from "../../base/grpc/h2/protocol.ts";
import { createH2Server } from "../../base/grpc/h2/server.ts";
import { Writer } from "../../base/grpc/protobuf.ts";
import type { PlayExchanges, SyntheticExchange } from "../../picker/exchange/synthetic.ts";
import { BODY_MODE, PROCESS_PATH } from "./messages.ts";
import { Notices } from "./notices.ts";
import { processHandler } from "./session.ts";
import type { WireOptions } from "./wire-options.ts";

/** Bytes of a body in one message, as Envoy sends it. */
const CHUNK = 16 * 1024;

const LEN_1 = 0x0a;
const LEN_3 = 0x1a;
const VARINT_1 = 0x08;
const VARINT_2 = 0x10;
const PROTOCOL_CONFIG = 0x5a;
/** Tags of the members of `ProcessingRequest.request`. */
const REQUEST_HEADERS = 0x12;
const RESPONSE_HEADERS = 0x1a;
const REQUEST_BODY = 0x22;
const RESPONSE_BODY = 0x2a;

/** Exchanges on their way at a time. */
const AT_A_TIME = 16;
/** Milliseconds after which a rehearsal that does not end is given up; it takes a tenth of a second. */
const PATIENCE = 2000;

/** HPACK (RFC 7541, section 6): `:method: POST`, `:scheme: http`, fields by number, and fields that the tables keep. */
const POST_OVER_HTTP = [0x83, 0x86];
const KEPT = 0x40;
const INDEXED = 0x80;
const NEWEST = 62;
/** Names of fields that the tables do not keep. */
const PATH = [0x04];
const USER_AGENT = [0x0f, 58 - 0x0f];
const AUTHORITY = 0x01;
/** In the code of Huffman, which proxies use. */
const HUFFMAN = {
  path: Buffer.from("60b5773fa5d05b3b98855cbe5315761c8bf7657c1e525b2a1d1aec390a841ec635d8721508", "hex"),
  userAgent: Buffer.from("9acac8b13fdffb602bba05c0a4d6564588c34d2e25c0a7f541aab7cfda849d29ac5fdf", "hex"),
};

/**
 * Plays synthetic exchanges over a loopback connection of their own, as Envoy in the mode FULL_DUPLEX_STREAMED would: they
 * execute the transport, the sessions and the codec, too. Where the loopback interface cannot be used, nothing is played.
 */
export function rehearsal(wire: WireOptions, clock: Clock): PlayExchanges {
  return async (openExchange, exchanges) => {
    const process = processHandler({ wire, clock, notices: new Notices(() => {}), openExchange, onError() {} });
    let socket: Socket | undefined;
    const server = createH2Server({ host: "127.0.0.1", port: 0, handlers: new Map([[PROCESS_PATH, process]]) }, clock);
    try {
      const { port } = await server.listen();
      await new Promise<void>((resolve) => {
        const connection = connect(port, "127.0.0.1");
        socket = connection;
        const timer = clock.after(PATIENCE, () => resolve());
        for (const end of ["error", "close"] as const) connection.on(end, () => resolve());
        const client = new RehearsingClient(connection, exchanges);
        connection.on("data", (chunk: Buffer) => {
          if (client.read(chunk)) resolve();
        });
        connection.on("connect", () => {
          if (client.begin()) resolve();
        });
        connection.on("close", () => timer.cancel());
      });
    } catch {
      // Cold code serves, too.
    } finally {
      // A connection that the server has not accepted would stay.
      socket?.destroy();
      server.close();
    }
  };
}

/**
 * The client's side of the connection. It reads only where the frames of the answers begin: a call ends with the frame of its
 * trailers. So the sessions are those that the server has for a proxy, and their code is compiled for these.
 */
class RehearsingClient {
  readonly #socket: Socket;
  readonly #exchanges: Iterator<SyntheticExchange>;
  readonly #writer = new Writer();
  #stream = 1;
  #open = 0;
  #more = true;
  /** The header of the frame being read, and the bytes of it that have arrived. */
  readonly #head = Buffer.alloc(FRAME_HEADER);
  #filled = 0;
  /** Bytes of the payload being skipped. */
  #payload = 0;

  constructor(socket: Socket, exchanges: Iterable<SyntheticExchange>) {
    this.#socket = socket;
    this.#exchanges = exchanges[Symbol.iterator]();
  }

  /** @returns whether there is nothing to play */
  begin(): boolean {
    const window = Buffer.alloc(SETTING_SIZE);
    window.writeUInt16BE(SETTING.initialWindowSize);
    window.writeUInt32BE(MAX_31_BITS, 2);
    const increment = Buffer.alloc(4);
    increment.writeUInt32BE(MAX_31_BITS - DEFAULT_WINDOW);
    this.#socket.write(
      Buffer.concat([PREFACE, frame(FRAME.settings, 0, 0, window), frame(FRAME.windowUpdate, 0, 0, increment)]),
    );
    this.#fill();
    return this.#open === 0;
  }

  /** Takes bytes of the answers. @returns whether the last call has ended */
  read(chunk: Buffer): boolean {
    for (let at = 0; at < chunk.length; ) {
      if (this.#payload > 0) {
        const skipped = Math.min(this.#payload, chunk.length - at);
        this.#payload -= skipped;
        at += skipped;
        continue;
      }
      const taken = chunk.copy(this.#head, this.#filled, at);
      at += taken;
      this.#filled += taken;
      if (this.#filled < FRAME_HEADER) continue;
      this.#filled = 0;
      this.#payload = this.#head.readUIntBE(0, 3);
      if (this.#head[3] === FRAME.headers && (this.#head[4]! & FLAG.endStream) !== 0) this.#open--;
    }
    if (this.#more && this.#open === 0) this.#fill();
    return this.#open === 0;
  }

  #fill(): void {
    const exchanges: { readonly stream: number; readonly exchange: SyntheticExchange }[] = [];
    while (this.#open < AT_A_TIME) {
      const next = this.#exchanges.next();
      if (next.done === true) {
        this.#more = false;
        break;
      }
      this.#open++;
      exchanges.push({ stream: this.#stream, exchange: next.value });
      this.#stream += 2;
    }
    if (exchanges.length === 0) return;
    const requests = exchanges.flatMap(({ stream, exchange }) => [...this.#requestOf(stream, exchange)]);
    const answers = exchanges.flatMap(({ stream, exchange }) => [...this.#answerOf(stream, exchange)]);
    this.#socket.write(Buffer.concat([...requests, ...answers]));
  }

  *#requestOf(stream: number, exchange: SyntheticExchange): Iterable<Buffer> {
    yield frame(FRAME.headers, FLAG.endHeaders, stream, stream === 1 ? FIRST_HEAD : HEAD);
    for (const message of requestMessages(exchange, this.#writer)) yield* dataFrames(stream, message);
  }

  *#answerOf(stream: number, exchange: SyntheticExchange): Iterable<Buffer> {
    for (const message of answerMessages(exchange, this.#writer)) yield* dataFrames(stream, message);
    yield frame(FRAME.data, FLAG.endStream, stream, Buffer.alloc(0));
  }
}

const literal = (text: string): Buffer => Buffer.concat([Buffer.from([text.length]), Buffer.from(text, "latin1")]);

const coded = (bytes: Buffer): Buffer => Buffer.concat([Buffer.from([0x80 | bytes.length]), bytes]);

/** The fields that each call has in full. */
const PATH_FIELD = Buffer.concat([Buffer.from(PATH), coded(HUFFMAN.path)]);
const AGENT_FIELD = Buffer.concat([Buffer.from(USER_AGENT), coded(HUFFMAN.userAgent)]);
/** The headers of the first call. The tables keep three of them. */
const FIRST_HEAD = Buffer.concat([
  Buffer.from(POST_OVER_HTTP),
  PATH_FIELD,
  Buffer.from([KEPT | AUTHORITY]),
  literal("warm-up"),
  Buffer.from([KEPT]),
  literal("te"),
  literal("trailers"),
  Buffer.from([KEPT]),
  literal("content-type"),
  literal("application/grpc"),
  AGENT_FIELD,
]);
/** The headers of the others: the kept ones by their numbers. */
const HEAD = Buffer.concat([
  Buffer.from(POST_OVER_HTTP),
  PATH_FIELD,
  Buffer.from([2, 1, 0].map((age) => INDEXED | (NEWEST + age))),
  AGENT_FIELD,
]);

function frame(type: number, flags: number, stream: number, payload: Uint8Array): Buffer {
  const head = Buffer.alloc(FRAME_HEADER);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

/** A gRPC message in DATA frames. */
function* dataFrames(stream: number, message: Buffer): Iterable<Buffer> {
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(message.length, 1);
  const framed = Buffer.concat([prefix, message]);
  for (let at = 0; at < framed.length; at += DEFAULT_FRAME_SIZE)
    yield frame(FRAME.data, 0, stream, framed.subarray(at, at + DEFAULT_FRAME_SIZE));
}

function* requestMessages({ headers, body }: SyntheticExchange, writer: Writer): Iterable<Buffer> {
  yield headersMessage(writer, REQUEST_HEADERS, headers, true);
  for (let at = 0; at < body.length; at += CHUNK)
    yield bodyMessage(writer, REQUEST_BODY, body.subarray(at, at + CHUNK), at + CHUNK >= body.length);
}

function* answerMessages({ answerType, answer }: SyntheticExchange, writer: Writer): Iterable<Buffer> {
  const answerHeaders = [
    [":status", "200"],
    ["content-type", answerType],
  ] as const;
  yield headersMessage(writer, RESPONSE_HEADERS, answerHeaders, false);
  for (const [at, chunk] of answer.entries()) yield bodyMessage(writer, RESPONSE_BODY, chunk, at + 1 === answer.length);
}

// A writer writes back to front.
function headersMessage(writer: Writer, member: number, headers: SyntheticExchange["headers"], first: boolean): Buffer {
  writer.begin();
  if (first) {
    const config = writer.length;
    for (const tag of [VARINT_2, VARINT_1]) {
      writer.varint(BODY_MODE.fullDuplexStreamed);
      writer.varint(tag);
    }
    writer.close(PROTOCOL_CONFIG, config);
  }
  const whole = writer.length;
  const map = writer.length;
  for (const [name, value] of headers.toReversed()) {
    const header = writer.length;
    writer.latin1(value);
    writer.close(LEN_3, header);
    const key = writer.length;
    writer.latin1(name);
    writer.close(LEN_1, key);
    writer.close(LEN_1, header);
  }
  writer.close(LEN_1, map);
  writer.close(member, whole);
  return writer.finish();
}

function bodyMessage(writer: Writer, member: number, chunk: Buffer, isLast: boolean): Buffer {
  writer.begin();
  if (isLast) {
    writer.varint(1);
    writer.varint(VARINT_2);
  }
  const bytes = writer.length;
  writer.bytes(chunk);
  writer.close(LEN_1, bytes);
  writer.close(member, 0);
  return writer.finish();
}
