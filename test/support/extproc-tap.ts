import http2 from "node:http2";
import { Deframer } from "../../src/base/grpc/frames.ts";
import { poll } from "./poll.ts";
import type { Line } from "./recording.ts";

const PATH = "/envoy.service.ext_proc.v3.ExternalProcessor/Process";
const SETTINGS: http2.Settings = { initialWindowSize: 1 << 20 };

interface TappedStream {
  readonly lines: Line[];
  over: boolean;
}

/**
 * Stands between a real Envoy and a real picker and writes down what they say to each other on `Process` streams. HTTP/2
 * is spoken with either of them; messages pass as they are.
 */
export class ExtProcTap {
  readonly port: number;
  readonly #streams: TappedStream[] = [];
  readonly #pickerPort: number;
  readonly #sessions = new Set<http2.Http2Session>();
  readonly #server: http2.Http2Server;

  private constructor(server: http2.Http2Server, pickerPort: number) {
    this.#server = server;
    this.#pickerPort = pickerPort;
    const address = server.address();
    this.port = typeof address === "object" && address !== null ? address.port : 0;
    server.on("session", (session) => this.#accepted(session));
  }

  /** Listens on a free port of loopback. */
  static async open(pickerPort: number): Promise<ExtProcTap> {
    const server = http2.createServer({ settings: SETTINGS });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return new ExtProcTap(server, pickerPort);
  }

  /** The streams that `exchange` causes, each to its end. */
  async during(exchange: () => Promise<unknown>): Promise<(readonly Line[])[]> {
    this.#streams.length = 0;
    await exchange();
    await poll("the recorded streams to be over", () => this.#streams.every(({ over }) => over));
    return this.#streams.map(({ lines }) => lines);
  }

  stop(): void {
    this.#server.close();
    for (const session of this.#sessions) session.destroy();
  }

  /** Each connection of Envoy's gets one of its own to the picker. */
  #accepted(proxy: http2.ServerHttp2Session): void {
    const picker = http2.connect(`http://127.0.0.1:${this.#pickerPort}`, { settings: SETTINGS });
    for (const session of [proxy, picker]) {
      this.#sessions.add(session);
      session.on("close", () => this.#sessions.delete(session));
      session.on("error", () => {});
    }
    picker.on("close", () => proxy.destroy());
    proxy.on("close", () => picker.destroy());
    proxy.on("stream", (stream, headers) => this.#relay(stream, headers, picker));
  }

  #relay(proxy: http2.ServerHttp2Stream, headers: http2.IncomingHttpHeaders, session: http2.ClientHttp2Session): void {
    const tapped: TappedStream = { lines: [], over: false };
    // Health checks come this way, too.
    if (headers[":path"] === PATH) this.#streams.push(tapped);
    const { lines } = tapped;
    const { ":authority": _, ...rest } = headers;
    const picker = session.request(rest as http2.OutgoingHttpHeaders);
    const fromProxy = cut((bytes) => lines.push({ from: "proxy", bytes }));
    proxy.on("data", (chunk: Buffer) => {
      fromProxy(chunk);
      picker.write(chunk);
    });
    proxy.on("end", () => {
      // Where a reset has code 0, Node tells of an end that was none.
      if (proxy.aborted) return;
      lines.push({ from: "proxy", event: "half-close" });
      picker.end();
    });
    proxy.on("error", () => {});
    proxy.on("close", () => {
      const { rstCode } = proxy;
      if (proxy.aborted || rstCode) {
        lines.push({ from: "proxy", event: "reset" });
        picker.close(rstCode ?? 0);
      }
      tapped.over = true;
    });

    const fromPicker = cut((bytes) => lines.push({ from: "picker", bytes }));
    let trailers: http2.OutgoingHttpHeaders = {};
    picker.on("response", (answer) => proxy.respond(answer, { waitForTrailers: true }));
    picker.on("data", (chunk: Buffer) => {
      fromPicker(chunk);
      if (!proxy.destroyed) proxy.write(chunk);
    });
    picker.on("trailers", (received) => {
      trailers = received as http2.OutgoingHttpHeaders;
    });
    proxy.on("wantTrailers", () => proxy.sendTrailers(trailers));
    picker.on("end", () => proxy.end());
    picker.on("error", () => {});
    picker.on("close", () => {
      if (!proxy.destroyed && picker.aborted) proxy.close(picker.rstCode ?? 0);
    });
  }
}

/** Takes a byte stream in chunks and hands on its messages in base64. */
function cut(take: (message: string) => void): (chunk: Buffer) => void {
  const deframer = new Deframer();
  return (chunk) => {
    deframer.push(chunk);
    for (let message = deframer.next(); message !== undefined; message = deframer.next())
      take(message.toString("base64"));
  };
}
