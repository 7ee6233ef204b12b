import type { IncomingHttpHeaders } from "node:http";
import { type ClientHttp2Session, connect as connectH2 } from "node:http2";
import { Agent, request as httpsRequest } from "node:https";
import type { TlsPair } from "../../src/base/grpc/tls.ts";
import { fixedLimit } from "../support/slowness.ts";

/** What a client connects with. */
export interface Trust {
  readonly port: number;
  /** Authorities that it trusts, PEM. */
  readonly ca: readonly string[];
  readonly client: TlsPair;
}

/** When a client leaves on purpose. */
export type Leaving = "never" | "in the answer" | "in the upload";

export interface Question {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly leaving: Leaving;
}

/** What came back. */
export interface Reply {
  /** 0 = no answer began. */
  status: number;
  headers: IncomingHttpHeaders;
  text: string;
  /** The answer came to its end. */
  whole: boolean;
  /** Why it did not. */
  problem: string;
}

/** One connection, for one request at a time. */
export interface DayClient {
  ask(question: Question): Promise<Reply>;
  /** Another one is needed. */
  readonly ended: boolean;
  close(): void;
}

const LIMIT = fixedLimit(60_000);
const nothing = (): Reply => ({ status: 0, headers: {}, text: "", whole: false, problem: "" });

/** A client of HTTP/1.1 that keeps its connection. */
export class Http1Client implements DayClient {
  readonly ended = false;
  readonly #trust: Trust;
  readonly #agent: Agent;

  constructor(trust: Trust) {
    this.#trust = trust;
    this.#agent = new Agent({ keepAlive: true, maxSockets: 1, ca: [...trust.ca], ...trust.client });
  }

  ask({ method, path, headers, body, leaving }: Question): Promise<Reply> {
    const reply = nothing();
    return new Promise((resolve) => {
      const over = (problem: string): void => {
        if (!reply.whole) reply.problem ||= problem;
        resolve(reply);
      };
      const { port } = this.#trust;
      const request = httpsRequest({
        ...{ host: "127.0.0.1", servername: "localhost", port, method, path, agent: this.#agent },
        headers: body === undefined ? headers : { ...headers, "content-length": String(Buffer.byteLength(body)) },
      });
      request.setTimeout(LIMIT, () => request.destroy(new Error(`no answer within ${LIMIT} ms`)));
      request.on("error", (error) => over(String(error)));
      request.on("close", () => over("closed"));
      request.on("response", (response) => {
        reply.status = response.statusCode ?? 0;
        reply.headers = response.headers;
        response.on("data", (part: Buffer) => {
          reply.text += part.toString();
          if (leaving === "in the answer") request.destroy();
        });
        response.on("error", (error) => over(String(error)));
        response.on("end", () => {
          reply.whole = response.complete;
          over("ended early");
        });
      });
      if (leaving === "in the upload") request.write(body!.slice(0, body!.length / 2), () => request.destroy());
      else request.end(body);
    });
  }

  close(): void {
    this.#agent.destroy();
  }
}

/** A client of HTTP/2 that keeps its session. */
export class Http2Client implements DayClient {
  ended = false;
  readonly #session: ClientHttp2Session;

  constructor({ port, ca, client }: Trust) {
    this.#session = connectH2(`https://localhost:${port}`, { ca: [...ca], ...client });
    this.#session.on("error", () => {
      this.ended = true;
    });
    for (const event of ["close", "goaway"])
      this.#session.on(event, () => {
        this.ended = true;
      });
  }

  ask({ method, path, headers, body, leaving }: Question): Promise<Reply> {
    const reply = nothing();
    return new Promise((resolve) => {
      const stream = this.#session.request(
        { ":method": method, ":path": path, ":authority": "gw", ...headers },
        { endStream: body === undefined },
      );
      const leave = (): void => stream.close(8);
      stream.setTimeout(LIMIT, () => stream.destroy(new Error(`no answer within ${LIMIT} ms`)));
      stream.on("response", (received) => {
        reply.status = received[":status"] ?? 0;
        reply.headers = received as IncomingHttpHeaders;
      });
      stream.on("data", (part: Buffer) => {
        reply.text += part.toString();
        if (leaving === "in the answer") leave();
      });
      stream.on("end", () => {
        reply.whole = reply.status !== 0;
      });
      stream.on("error", (error) => {
        reply.problem = String(error);
      });
      stream.on("close", () => {
        if (stream.rstCode !== 0) reply.whole = false;
        if (!reply.whole) reply.problem ||= `reset with ${stream.rstCode}`;
        resolve(reply);
      });
      if (leaving === "in the upload") stream.write(body!.slice(0, body!.length / 2), leave);
      else if (body !== undefined) stream.end(body);
    });
  }

  close(): void {
    this.#session.close();
  }
}
