import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import fc from "fast-check";
import { afterAll, beforeAll, expect, it } from "vitest";
import { undiciTransport } from "../../../../test/support/undici-transport.ts";
import { realClock } from "../../../base/clock/real.ts";
import { connector } from "../../../base/grpc/server-connector.ts";
import { BeginQueue } from "../begin-queue.ts";
import { EndpointConnections } from "./endpoint-connections.ts";
import type { UpstreamRequest, UpstreamTransport } from "./transport.ts";

const HEADER_BYTES = 2000;

/** The end of a request, as a handler sees it. */
interface Outcome {
  /** The server has got a part of the request. */
  readonly sent: boolean;
  /** A byte of an answer has come. */
  readonly answered: boolean;
  readonly head: unknown;
  readonly body: string;
  readonly end: "complete" | "error";
}

/** What the server does with the request that it gets next. */
interface Reply {
  readonly pieces: readonly Buffer[];
  /** What follows the bytes. */
  readonly after: "keep" | "end" | "reset";
}

/** What one transport did with all requests: what the server read, over which connection, and what came back. */
interface Course {
  readonly requests: string[];
  readonly outcomes: Outcome[];
}

let server: Server;
let onRequest: (bytes: string, socket: Socket) => void;
let hostPort = "";
beforeAll(async () => {
  server = createServer({ noDelay: true }, (socket) => {
    let bytes = "";
    socket.on("error", () => {});
    socket.on("data", (chunk: Buffer) => {
      bytes += chunk.toString("latin1");
      const head = bytes.indexOf("\r\n\r\n");
      if (head < 0) return;
      const length = Number(/\r\ncontent-length: (\d+)/.exec(bytes.slice(0, head))?.[1] ?? 0);
      if (bytes.length < head + 4 + length) return;
      const request = bytes;
      bytes = "";
      onRequest(request, socket);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  hostPort = `127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => void server.close());

/** Lets everything that is on its way arrive: both sides run in this process. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 12; turn++) await new Promise((resolve) => setImmediate(resolve));
}

async function reply(socket: Socket, { pieces, after }: Reply, over: () => boolean): Promise<void> {
  for (const piece of pieces) {
    if (socket.destroyed) return;
    await new Promise<void>((resolve) => void socket.write(piece, () => resolve()));
    await settle();
  }
  // The rest of an answer never comes.
  if (after === "reset") socket.resetAndDestroy();
  else if (after === "end" || !over()) socket.end();
  await settle();
}

async function ask(transport: UpstreamTransport, request: UpstreamRequest): Promise<Outcome> {
  return new Promise((resolve) => {
    let [sent, answered] = [false, false];
    let head: unknown;
    const body: Buffer[] = [];
    const end = (how: Outcome["end"]): void =>
      resolve({ sent, answered, head, body: Buffer.concat(body).toString("latin1"), end: how });
    transport.dispatch(request, {
      onRequestStart: () => {
        sent = true;
      },
      onRequestSent() {},
      onResponseStarted: () => {
        answered = true;
      },
      onResponseStart: (status, headers) => {
        head = [status, ...headers];
      },
      onResponseData: (chunk) => void body.push(chunk),
      onResponseEnd: () => end("complete"),
      onResponseError: () => end("error"),
    });
  });
}

/** Runs the requests one after the other. */
async function run(
  transport: UpstreamTransport,
  steps: readonly { readonly request: UpstreamRequest; readonly reply: Reply }[],
): Promise<Course> {
  const course: Course = { requests: [], outcomes: [] };
  const sockets: Socket[] = [];
  for (const step of steps) {
    let replied = Promise.resolve();
    let over = false;
    onRequest = (bytes, socket) => {
      if (!sockets.includes(socket)) sockets.push(socket);
      course.requests.push(`${sockets.indexOf(socket)} ${bytes}`);
      replied = reply(socket, step.reply, () => over);
    };
    const outcome = await ask(transport, step.request);
    over = true;
    course.outcomes.push(outcome);
    await replied;
    await settle();
  }
  await transport.destroy();
  for (const socket of sockets) socket.destroy();
  return course;
}

const text = fc.constantFrom("", "ok", "a longer body of some bytes", "x".repeat(300));
const header = fc.constantFrom(
  "",
  "",
  "Connection: close\r\n",
  "connection: keep-alive\r\n",
  "connection: close, x-a\r\n",
  "keep-alive: timeout=1\r\n",
  "Keep-Alive: timeout=100\r\n",
  "X-Empty:\r\n",
  "x-a: 1\r\nx-a: 2\r\n",
  "x-obs: \xe9\xff\r\n",
  "x-tab: \ta \t\r\n",
  "x-fold: a\r\n b\r\n",
  "x bad: 1\r\n",
  "x-nul: \0\r\n",
  "x-lf: 1\n",
  "upgrade: h2c\r\nconnection: upgrade\r\n",
  `x-long: ${"y".repeat(HEADER_BYTES)}\r\n`,
  `x-part: ${"z".repeat(700)}\r\n`,
  "transfer-encoding: chunked\r\n",
  "transfer-encoding: gzip\r\n",
  "content-length: 2\r\n",
  "content-length: +2\r\n",
);
const chunked = fc
  .record({
    parts: fc.array(text, { maxLength: 4 }),
    extension: fc.constantFrom("", "", ";a=b", " "),
    end: fc.constantFrom("0\r\n\r\n", "0\r\n\r\n", "0\r\nx-trailer: 1\r\n\r\n", "", "0\r\n", "g\r\n"),
  })
  .map(
    ({ parts, extension, end }) =>
      parts
        .filter((part) => part !== "")
        .map((part) => `${part.length.toString(16)}${extension}\r\n${part}\r\n`)
        .join("") + end,
  );
const message = fc
  .record({
    interim: fc.constantFrom("", "", "", "HTTP/1.1 103 Early\r\nlink: x\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n"),
    version: fc.constantFrom("1.1", "1.1", "1.1", "1.0", "2.0"),
    status: fc.constantFrom(200, 200, 200, 201, 204, 205, 304, 404, 503, 101, 999),
    headers: fc.array(header, { maxLength: 4 }).map((lines) => lines.join("")),
    framing: fc.oneof(
      text.map((body) => ({ line: `content-length: ${body.length}\r\n`, body })),
      text.map((body) => ({ line: `Content-Length: ${body.length + 1}\r\n`, body })),
      chunked.map((body) => ({ line: "Transfer-Encoding: chunked\r\n", body })),
      text.map((body) => ({ line: "", body })),
    ),
    more: fc.constantFrom("", "", "", "", "HTTP/1.1 200 X\r\ncontent-length: 2\r\n\r\nno", "garbage"),
  })
  .map(
    ({ interim, version, status, headers, framing, more }) =>
      `${interim}HTTP/${version} ${status} X\r\n${headers}${framing.line}\r\n${framing.body}${more}`,
  );
/** A message with at most one fault, cut into pieces. */
const answer = fc
  .record({
    bytes: message,
    fault: fc.option(fc.record({ at: fc.nat(), byte: fc.integer({ min: 0, max: 255 }), cut: fc.boolean() }), {
      freq: 3,
    }),
    cuts: fc.array(fc.nat(), { maxLength: 5 }),
    after: fc.constantFrom("keep", "keep", "end", "reset"),
  })
  .map(({ bytes, fault, cuts, after }): Reply => {
    let whole = Buffer.from(bytes, "latin1");
    if (fault !== null && whole.length > 0) {
      const at = fault.at % whole.length;
      if (fault.cut) whole = whole.subarray(0, at);
      else whole[at] = fault.byte;
    }
    const places = cuts.map((cut) => cut % (whole.length + 1)).toSorted((a, b) => a - b);
    const pieces = [0, ...places].map((from, i) => whole.subarray(from, places[i] ?? whole.length));
    return { pieces: pieces.filter((piece) => piece.length > 0), after: after as Reply["after"] };
  });
const request = fc
  .record({
    method: fc.constantFrom("GET", "POST", "POST", "HEAD", "DELETE", "PUT", "OPTIONS", "BAD METHOD"),
    path: fc.constantFrom("/v1/completions", "/v1/x?y=\xff", "/a b", "none"),
    more: fc.array(
      fc.constantFrom(
        ["x-a", "1"],
        ["x-b", "\xe9"],
        ["x-c", "a\r\nb: c"],
        ["x d", "1"],
        ["upgrade", "h2c"],
        ["expect", "1"],
      ),
      { maxLength: 2 },
    ),
    body: fc.constantFrom("none", "empty", "one", "pieces", "long"),
  })
  .map(({ method, path, more, body }): UpstreamRequest => {
    const headers = ["host", "model", "content-type", "text/plain", ...more.flat()];
    if (body === "none") return { method, path, headers };
    const pieces = { empty: [""], one: ["a body"], pieces: ["in ", "two"], long: ["b".repeat(20_000)] }[body]!;
    const bytes = pieces.map((piece) => Buffer.from(piece));
    if (body !== "pieces") return { method, path, headers, body: bytes[0] };
    return { method, path, headers: [...headers, "content-length", "6"], body: bytes };
  });

it("sends what undici sends, and reads every answer as undici does", async () => {
  const steps = fc.array(fc.record({ request, reply: answer }), { minLength: 1, maxLength: 3 });
  await fc.assert(
    fc.asyncProperty(steps, async (all) => {
      const own = new EndpointConnections(hostPort, {
        clock: realClock,
        open: connector({ clock: realClock, timeout: 60_000 }),
        beginnings: new BeginQueue(realClock),
        keepAlive: 60_000,
        headerBytes: HEADER_BYTES,
      });
      const course = await run(own, all);
      expect(course).toEqual(await run(undiciTransport(hostPort, HEADER_BYTES), all));
    }),
    { numRuns: 400 },
  );
}, 120_000);
