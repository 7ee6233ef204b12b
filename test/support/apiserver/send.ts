import { Agent, type Dispatcher, request } from "undici";
import type { ApiAnswer, RequestOptions } from "./admin.ts";
import type { TestApiServer } from "./server.ts";

/** A client of an API server that speaks over sockets. */
export class SocketClient {
  readonly #server: Pick<TestApiServer, "url" | "token" | "ca">;
  readonly #agent: Agent;

  constructor(server: Pick<TestApiServer, "url" | "token" | "ca">) {
    this.#server = server;
    // A watch is silent for as long as nothing happens.
    this.#agent = new Agent({ bodyTimeout: 0, ...(server.ca === undefined ? {} : { connect: { ca: server.ca } }) });
  }

  async send(method: string, path: string, body?: unknown, options: RequestOptions = {}): Promise<ApiAnswer> {
    const { statusCode: status, headers, body: answer } = await this.#open(method, path, body, options);
    const text = await answer.text();
    const isJson = String(headers["content-type"]).startsWith("application/json");
    return {
      status,
      headers: headers as Record<string, string>,
      body: isJson && text !== "" ? JSON.parse(text) : text,
    };
  }

  /** A GET whose answer comes line by line. */
  async watch(path: string): Promise<WatchedLines> {
    const { statusCode, body } = await this.#open("GET", path, undefined, {});
    return new WatchedLines(statusCode, body);
  }

  /** Cuts what is open. */
  close(): Promise<void> {
    return this.#agent.destroy();
  }

  #open(method: string, path: string, body: unknown, options: RequestOptions): Promise<Dispatcher.ResponseData> {
    const token = options.token === undefined ? this.#server.token : options.token;
    return request(this.#server.url + path, {
      method: method as Dispatcher.HttpMethod,
      dispatcher: this.#agent,
      headers: {
        ...(token === null ? {} : { authorization: `Bearer ${token}` }),
        ...(body === undefined ? {} : { "content-type": options.contentType ?? "application/json" }),
      },
      body: body === undefined ? null : typeof body === "string" ? body : JSON.stringify(body),
    });
  }
}

/** What a watch has told so far. */
export class WatchedLines {
  readonly status: number;
  readonly events: { readonly type: string; readonly object: WatchedObject }[] = [];
  /** undefined while it is open. */
  ended: "in order" | "cut" | undefined;

  constructor(status: number, body: Dispatcher.ResponseData["body"]) {
    this.status = status;
    let rest = "";
    body.on("data", (chunk: Buffer) => {
      const lines = (rest + chunk.toString()).split("\n");
      rest = lines.pop()!;
      for (const line of lines) this.events.push(JSON.parse(line));
    });
    body.on("end", () => {
      this.ended ??= "in order";
    });
    body.on("error", () => {
      this.ended ??= "cut";
    });
  }

  /** Types and names, in order; without bookmarks. */
  told(): string[] {
    const changes = this.events.filter(({ type }) => type !== "BOOKMARK");
    return changes.map(({ type, object }) => `${type} ${object.metadata.name ?? object.reason}`);
  }
}

interface WatchedObject {
  readonly kind: string;
  readonly metadata: {
    readonly name?: string;
    readonly resourceVersion?: string;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly code?: number;
  readonly reason?: string;
}
