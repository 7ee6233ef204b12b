import type { ApiClient, ApiRequest } from "../../../src/pool/kubernetes/api-client.ts";
import { ApiError } from "../../../src/pool/kubernetes/api-error.ts";

/** A refusal as `HttpApiClient` makes it. */
export function refusal(status: number, reason = "", more: { retryAfter?: number; message?: string } = {}): ApiError {
  return new ApiError(more.message ?? `refused with ${status} ${reason}`, {
    status,
    reason,
    retryAfter: more.retryAfter,
  });
}

/** Objects of the collections that tests use. */
export interface Thing {
  readonly metadata: { readonly namespace: string; readonly name: string; readonly resourceVersion: string };
  readonly data: string;
}

interface Stream {
  readonly line: (text: string) => void;
  readonly end: (error?: unknown) => void;
}

/** One kind on an API server in memory: pages, versions, watches and what goes wrong with them; no sockets, no time. */
export class FakeCollection implements ApiClient {
  readonly server = "https://fake:6443";
  readonly requests: ApiRequest[] = [];
  /** Thrown by the next requests, one each. */
  readonly failures: unknown[] = [];
  /** How an expired version is told: by an event, or by the status of the answer. */
  expiredByEvent = true;
  readonly #things = new Map<string, Thing>();
  readonly #history: { readonly version: number; readonly type: string; readonly object: Thing }[] = [];
  readonly #pages = new Map<string, { readonly version: number; readonly things: readonly Thing[] }>();
  readonly #streams = new Set<Stream>();
  #mute = false;
  #version = 100;
  #oldest = 0;

  get things(): readonly Thing[] {
    return [...this.#things.values()];
  }

  get watching(): number {
    return this.#streams.size;
  }

  /** Watches are accepted and then nothing comes; those that were so break at the end of it. */
  setMute(on: boolean): void {
    if (this.#mute && !on) this.cutWatches();
    this.#mute = on;
  }

  put(name: string, data: string): void {
    const type = this.#things.has(name) ? "MODIFIED" : "ADDED";
    this.#version++;
    const thing: Thing = { metadata: { namespace: "ml", name, resourceVersion: `${this.#version}` }, data };
    this.#things.set(name, thing);
    this.#tell(type, thing);
  }

  delete(name: string): void {
    const thing = this.#things.get(name);
    if (thing === undefined) return;
    this.#version++;
    this.#things.delete(name);
    this.#tell("DELETED", { ...thing, metadata: { ...thing.metadata, resourceVersion: `${this.#version}` } });
  }

  bookmark(): void {
    if (this.#mute) return;
    const object = { metadata: { resourceVersion: `${this.#version}` } };
    for (const stream of this.#streams) stream.line(JSON.stringify({ type: "BOOKMARK", object }));
  }

  /** Forgets history and pages under way. */
  compact(): void {
    this.#oldest = this.#version;
    this.#history.length = 0;
  }

  /** An event of type ERROR to all who watch. */
  error(code: number, reason: string): void {
    const object = { kind: "Status", code, reason, message: `${reason} told` };
    for (const stream of this.#streams) stream.line(JSON.stringify({ type: "ERROR", object }));
  }

  /** A line as it is to all who watch. */
  raw(line: string): void {
    for (const stream of this.#streams) stream.line(line);
  }

  /** Ends all watches in order. */
  endWatches(): void {
    for (const stream of this.#streams) stream.end();
  }

  /** Breaks the connections of all watches. */
  cutWatches(): void {
    for (const stream of this.#streams) stream.end(refusal(0));
  }

  async request(request: ApiRequest): Promise<unknown> {
    this.#take(request);
    const { limit = 500, continue: rest } = request.query ?? {};
    const page = this.#pages.get(String(rest)) ?? { version: this.#version, things: this.things };
    await Promise.resolve();
    if (rest !== undefined && page.version < this.#oldest) throw refusal(410, "Expired");
    const left = page.things.slice(Number(limit));
    const token = left.length === 0 ? undefined : `rest ${this.#pages.size}`;
    if (token !== undefined) this.#pages.set(token, { version: page.version, things: left });
    return {
      metadata: { resourceVersion: `${page.version}`, continue: token },
      items: page.things.slice(0, Number(limit)),
    };
  }

  async stream(request: ApiRequest, onOpen: () => void, onLine: (line: string) => void): Promise<void> {
    this.#take(request);
    await Promise.resolve();
    const from = Number(request.query?.["resourceVersion"]);
    const expired = from < this.#oldest;
    if (expired && !this.expiredByEvent) throw refusal(410, "Expired");
    const over = Promise.withResolvers<void>();
    const stream: Stream = {
      line: (text) => {
        try {
          if (this.#streams.has(stream)) onLine(text);
        } catch (error) {
          stream.end(error);
        }
      },
      end: (error) => {
        this.#streams.delete(stream);
        if (error === undefined) over.resolve();
        else over.reject(error);
      },
    };
    request.signal?.addEventListener("abort", () =>
      stream.end(refusal(0, "", { message: "Sluice gave up the request" })),
    );
    this.#streams.add(stream);
    onOpen();
    if (expired) this.error(410, "Expired");
    else if (!this.#mute)
      for (const { version, type, object } of this.#history)
        if (version > from) stream.line(JSON.stringify({ type, object }));
    return over.promise;
  }

  async close(): Promise<void> {}

  #take(request: ApiRequest): void {
    this.requests.push(request);
    const failure = this.failures.shift();
    if (failure !== undefined) throw failure;
  }

  #tell(type: string, object: Thing): void {
    this.#history.push({ version: this.#version, type, object });
    if (!this.#mute) for (const stream of this.#streams) stream.line(JSON.stringify({ type, object }));
  }
}

/** An API server that answers with what a function says; what it throws is the refusal. */
export class FakeServer implements ApiClient {
  readonly server = "https://fake:6443";
  readonly requests: ApiRequest[] = [];
  readonly #answer: (request: ApiRequest) => unknown;

  constructor(answer: (request: ApiRequest) => unknown) {
    this.#answer = answer;
  }

  async request(request: ApiRequest): Promise<unknown> {
    this.requests.push(request);
    return this.#answer(request);
  }

  stream(): Promise<void> {
    return Promise.reject(refusal(404));
  }

  async close(): Promise<void> {}
}

/** A logger that keeps its lines. */
export function recordingLog() {
  const lines: { level: string; text: string }[] = [];
  const at = (level: string) => (fields: object, message: string) =>
    void lines.push({ level, text: `${message} ${JSON.stringify(fields)}` });
  const log = {
    debug: at("debug"),
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
    child: () => log,
  };
  return { log, lines, at: (level: string) => lines.filter((line) => line.level === level).map(({ text }) => text) };
}
