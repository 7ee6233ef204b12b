import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Clock } from "../../src/base/clock/clock.ts";

/** Values of a vector, one series each; an object is the body of the answer, a word what happens instead of one. */
export type FakeReply =
  | readonly number[]
  | { readonly status?: number; readonly body: string; readonly headers?: Readonly<Record<string, string>> }
  | "hang"
  | "cut";

export interface FakeQuestion {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  readonly query: string;
}

/** A server on the loopback interface that answers instant queries as a test wants. */
export class FakePrometheus {
  readonly questions: FakeQuestion[] = [];
  /** What an expression gives. Those for the time of samples are answered from `sampleAge`. */
  reply: (query: string) => FakeReply = () => [];
  /** Milliseconds; undefined = a question for the time of samples gets no samples. */
  sampleAge: number | undefined = 0;
  /** Milliseconds by which its clock is ahead. */
  ahead = 0;
  /** Milliseconds by which its answers are older than its clock says. */
  stale = 0;
  /** Called when a question has arrived, before it is answered. */
  arrived: () => void = () => {};
  /** Whether it sends a Date header. */
  date = true;
  readonly #clock: Clock;
  readonly #server: Server;
  readonly #hanging = new Set<ServerResponse>();

  private constructor(clock: Clock) {
    this.#clock = clock;
    this.#server = createServer((request, response) => {
      let body = "";
      request.on("data", (piece: Buffer) => {
        body += piece.toString();
      });
      request.on("end", () => this.#answer(request, body, response));
    });
  }

  static async start(clock: Clock): Promise<FakePrometheus> {
    const fake = new FakePrometheus(clock);
    await new Promise<void>((resolve) => fake.#server.listen(0, "127.0.0.1", resolve));
    return fake;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** The expressions that were asked, without those for the time of samples. */
  get queries(): readonly string[] {
    return this.questions.map(({ query }) => query).filter((query) => !query.includes("timestamp("));
  }

  close(): Promise<void> {
    this.#server.closeAllConnections();
    return new Promise((resolve) => this.#server.close(() => resolve()));
  }

  #answer(request: IncomingMessage, body: string, response: ServerResponse): void {
    const url = new URL(request.url ?? "/", this.url);
    const query = new URLSearchParams(body).get("query") ?? url.searchParams.get("query") ?? "";
    this.arrived();
    this.questions.push({ method: request.method ?? "", path: url.pathname, headers: request.headers, query });
    const now = this.#clock.wall() + this.ahead;
    response.sendDate = false;
    if (this.date) response.setHeader("date", new Date(now).toUTCString());
    const reply = query.includes("timestamp(") ? this.#times(now) : this.reply(query);
    if (reply === "hang") this.#hanging.add(response);
    else if (reply === "cut") request.socket.destroy();
    else if ("body" in reply) response.writeHead(reply.status ?? 200, reply.headers ?? {}).end(reply.body);
    else response.end(vector(reply, now - this.stale));
  }

  #times(now: number): readonly number[] {
    return this.sampleAge === undefined ? [] : [(now - this.sampleAge) / 1000];
  }
}

function vector(values: readonly number[], time: number): string {
  const result = values.map((value, at) => ({ metric: { series: String(at) }, value: [time / 1000, text(value)] }));
  return JSON.stringify({ status: "success", data: { resultType: "vector", result } });
}

function text(value: number): string {
  if (Number.isFinite(value) || Number.isNaN(value)) return String(value);
  return value > 0 ? "+Inf" : "-Inf";
}
