import { request as httpRequest, type IncomingHttpHeaders } from "node:http";
import { type Dispatcher, Pool } from "undici";
import { fixedLimit } from "./slowness.ts";

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

/** Sends one request over a connection of its own and reads the whole answer. */
export function ask(
  url: string,
  options: {
    method?: string;
    headers?: Record<string, string>;
    body?: string | Buffer;
    timeoutMs?: number;
    /** Aborting it closes the connection. */
    signal?: AbortSignal;
  } = {},
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const request = httpRequest(url, {
      method: options.method ?? (options.body === undefined ? "GET" : "POST"),
      headers: options.headers ?? {},
      agent: false,
      ...(options.signal === undefined ? {} : { signal: options.signal }),
    });
    const limit = fixedLimit(options.timeoutMs ?? 30_000);
    request.setTimeout(limit, () => request.destroy(new Error(`no answer within ${limit} ms`)));
    request.on("error", reject);
    request.on("response", (response) => {
      const parts: Buffer[] = [];
      response.on("data", (part: Buffer) => parts.push(part));
      response.on("error", reject);
      response.on("end", () =>
        resolve({ status: response.statusCode ?? 0, headers: response.headers, text: Buffer.concat(parts).toString() }),
      );
    });
    request.end(options.body);
  });
}

/** A JSON value from a GET. */
export async function getJson<T>(url: string): Promise<T> {
  return JSON.parse((await ask(url)).text) as T;
}

/** The body of a chat request. */
export function chat(content: string, more: Record<string, unknown> = {}): string {
  return JSON.stringify({
    model: "sim",
    max_tokens: 5,
    ignore_eos: true,
    messages: [{ role: "user", content }],
    ...more,
  });
}

export const JSON_HEADERS = { "content-type": "application/json" };

/** Answers per status, 0 for those that failed without one. */
export type Tally = Map<number, number>;

export interface LoadOptions {
  readonly url: string;
  readonly connections: number;
  readonly requests: number;
  /** Method, path, headers and body of the n-th request. */
  make(n: number): Pick<Dispatcher.RequestOptions, "method" | "path" | "headers" | "body">;
  /** Called for each answer that is not 200. */
  onBad?(status: number, text: string): void;
}

/** Sends `requests` requests over `connections` keep-alive connections, each sending the next when the last is answered. */
export async function load(options: LoadOptions): Promise<Tally> {
  const pool = new Pool(options.url, { connections: options.connections, pipelining: 1 });
  const tally: Tally = new Map();
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < options.requests) {
      const made = options.make(next++);
      let status = 0;
      let text = "";
      try {
        const answer = await pool.request(made);
        status = answer.statusCode;
        text = await answer.body.text();
      } catch (error) {
        status = 0;
        text = String(error);
      }
      if (status !== 200) options.onBad?.(status, text);
      tally.set(status, (tally.get(status) ?? 0) + 1);
    }
  };
  await Promise.all(Array.from({ length: options.connections }, worker));
  await pool.destroy();
  return tally;
}
