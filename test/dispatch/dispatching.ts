import { createServer, type IncomingHttpHeaders, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { createClient } from "@redis/client";
import { realClock } from "../../src/base/clock/real.ts";
import { ask, getJson } from "../support/client.ts";
import { type DispatchProcessOptions, spawnDispatch } from "../support/dispatch-process.ts";
import { freePort } from "../support/free-port.ts";
import { poll } from "../support/poll.ts";
import type { TestProcess } from "../support/process.ts";

/** What a test ends when it is over, the latest first. */
export class Cleanup {
  readonly #ends: (() => Promise<unknown> | unknown)[] = [];

  add<T>(part: T, end: (part: T) => Promise<unknown> | unknown): T {
    this.#ends.push(() => end(part));
    return part;
  }

  async run(): Promise<void> {
    for (const end of this.#ends.splice(0).reverse()) await end();
  }
}

/** A request as it came to a gateway. */
export interface Seen {
  readonly id: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  /** Of this id, from 1 up. */
  readonly attempt: number;
  /** `performance.now()` of this process. */
  readonly at: number;
}

export interface Reply {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
  /** Milliseconds until it answers; Infinity = never. */
  readonly after?: number;
  /** It answers when this resolves. */
  readonly until?: Promise<unknown>;
  /** Cuts the connection in the middle of the body. */
  readonly cut?: boolean;
}

/** A gateway whose answers the test decides. */
export class ScriptedGateway {
  readonly seen: Seen[] = [];
  reply: (seen: Seen) => Reply = () => ({});
  running = 0;
  peak = 0;
  readonly #server: Server;
  readonly #attempts = new Map<string, number>();
  #port = 0;

  constructor() {
    this.#server = createServer((request, response) => {
      const parts: Buffer[] = [];
      request.on("data", (part: Buffer) => parts.push(part));
      request.on("end", () => {
        const id = String(request.headers["x-request-id"] ?? "");
        const attempt = (this.#attempts.get(id) ?? 0) + 1;
        this.#attempts.set(id, attempt);
        const body = Buffer.concat(parts).toString();
        const at = performance.now();
        const seen = { id, path: request.url ?? "", headers: request.headers, body, attempt, at };
        this.seen.push(seen);
        this.peak = Math.max(this.peak, ++this.running);
        response.on("close", () => this.running--);
        this.#answer(response, this.reply(seen));
      });
    });
  }

  async open(): Promise<this> {
    // One that may be closed and opened again.
    this.#port ||= await freePort();
    await new Promise<void>((resolve, reject) => {
      this.#server.once("error", reject).listen(this.#port, "127.0.0.1", resolve);
    });
    return this;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** Refuses connections from now on, and cuts those there are. */
  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }

  #answer(response: ServerResponse, { until, ...reply }: Reply): void {
    if (until !== undefined) {
      void until.then(() => this.#answer(response, reply));
      return;
    }
    const { status = 200, headers = {}, body = '{"ok":true}', after = 0, cut } = reply;
    if (after === Number.POSITIVE_INFINITY) return;
    setTimeout(() => {
      const length = Buffer.byteLength(body);
      response.writeHead(status, { "content-type": "application/json", "content-length": length, ...headers });
      if (cut === true) response.write(Buffer.from(body).subarray(0, length >> 1), () => response.destroy());
      else response.end(body);
    }, after);
  }
}

/** A page of metrics that Prometheus reads. */
export class MetricsPage {
  text = "";
  /** `performance.now()` of each time that it was read. */
  readonly read: number[] = [];
  readonly #server = createServer((_, response) => {
    this.read.push(performance.now());
    response.end(this.text);
  });

  async open(): Promise<this> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    return this;
  }

  get address(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }
}

/** A dispatcher as a process, with what it shows. */
export class Dispatching {
  readonly process: TestProcess;
  readonly #health: string;
  readonly #admin: string;

  private constructor(process: TestProcess, health: string, admin: string) {
    this.process = process;
    this.#health = `http://${health}`;
    this.#admin = `http://${admin}`;
  }

  static async start(options: DispatchProcessOptions): Promise<Dispatching> {
    return Dispatching.of(spawnDispatch(options));
  }

  static async of(process: TestProcess): Promise<Dispatching> {
    return new Dispatching(process, await process.listening("health"), await process.listening("metrics"));
  }

  /** `host:port` of `/metrics`. */
  get metricsAddress(): string {
    return this.#admin.slice("http://".length);
  }

  async probe(path: string): Promise<{ status: number; type: string | undefined; body: unknown }> {
    const { status, headers, text } = await ask(`${this.#health}${path}`);
    return { status, type: headers["content-type"], body: JSON.parse(text) };
  }

  ready(): Promise<unknown> {
    return poll("it to be ready", async () => (await this.probe("/readyz")).status === 200);
  }

  async page(): Promise<string> {
    return (await ask(`${this.#admin}/metrics`)).text;
  }

  /** The value of the one series of this name whose labels contain the text; NaN when there is none. */
  async metric(name: string, labels = ""): Promise<number> {
    const prefix = `llm_d_async_async_${name}`;
    for (const line of (await this.page()).split("\n"))
      if ((line.startsWith(`${prefix}{`) || line.startsWith(`${prefix} `)) && line.includes(labels))
        return Number(line.slice(line.lastIndexOf(" ")));
    return Number.NaN;
  }

  debug<T>(what: "gates" | "queues"): Promise<T> {
    return getJson<T>(`${this.#admin}/debug/${what}`);
  }
}

/** Sends one command and resolves with its answer. */
export type Command = (...words: string[]) => Promise<unknown>;

/** A connection to Redis that has nothing of ours: what a producer in another language does. */
export async function otherClient(url: string, cleanup: Cleanup): Promise<Command> {
  const client = createClient({ url, RESP: 2 });
  client.on("error", () => {});
  await client.connect();
  cleanup.add(client, () => client.destroy());
  return (...words) => client.sendCommand(words);
}

/** Unix seconds from now. */
export const inSeconds = (seconds: number): number => Math.floor(realClock.wall() / 1000) + seconds;
