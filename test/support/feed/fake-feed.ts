/**
 * A process that speaks the contract of src/wires/admin/feed/feed.ts with made-up figures, for what no real process shows at will:
 * a thousand endpoints, hundreds of requests a second, a second instance, a stream that is silent.
 */
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { getRequestListener } from "@hono/node-server";
import { Hono } from "hono";
import type { BatchCancel } from "../../../src/wires/admin/feed/batches.ts";
import type { FeedEvents, FeedHello } from "../../../src/wires/admin/feed/feed.ts";
import type { MessageCancel, MessagesFeed } from "../../../src/wires/admin/feed/messages.ts";
import { pageRoutes } from "../../../src/wires/admin/page-files.ts";
import { batchesOf } from "./batches.ts";
import { configOf } from "./config.ts";
import { decisionDetailOf, decisionRowOf } from "./decisions.ts";
import { demoStateOf } from "./demo.ts";
import { columnsOf, endpointDetailOf, endpointOf } from "./endpoints.ts";
import { figuresOf, overviewOf, totalsOf } from "./figures.ts";
import { peersOf } from "./peers.ts";
import { dispatchQueuesOf, flowQueuesOf, messagesOf } from "./queues.ts";

/** As many decisions as a process sends at a time. */
const BATCH = 10;

export interface FakeFeedOptions {
  readonly kind?: FeedHello["kind"];
  readonly endpoints?: number;
  /** Rows of each batch of decisions, four batches a second. */
  readonly batch?: number;
  readonly demo?: boolean;
  /** Shares with other replicas, and offers the Batch API. */
  readonly replicas?: boolean;
  readonly batches?: boolean;
  readonly port?: number;
  readonly queues?: "off" | "flow-control" | "dispatch";
}

/** The fake process. Its clock is the real one: the browser's is, too. */
export class FakeFeed {
  readonly options: Required<FakeFeedOptions>;
  readonly posts: { readonly path: string; readonly body: unknown }[] = [];
  /** The queries of the streams that were opened. */
  readonly streams: URLSearchParams[] = [];
  readonly instance = `i${Math.random()}`;
  isSilent = false;
  readonly #readers = new Map<ServerResponse, readonly string[]>();
  readonly #server = createServer();
  readonly #timer: NodeJS.Timeout;
  readonly #cancelled = new Set<string>();
  #tick = 0;
  #sequence = 100;

  constructor(options: FakeFeedOptions = {}) {
    this.options = {
      kind: "gateway",
      endpoints: 4,
      batch: 2,
      ...{ demo: false, replicas: false, batches: false },
      port: 0,
      queues: options.kind === "dispatch" || options.kind === "batch-server" ? "dispatch" : "flow-control",
      ...options,
    };
    const app = this.#app();
    const pages = getRequestListener(app.fetch);
    this.#server.on("request", (request, response) => {
      const url = new URL(request.url ?? "/", "http://fake");
      if (url.pathname === "/debug/feed/stream") this.#open(response, url.searchParams);
      else void pages(request, response);
    });
    this.#timer = setInterval(() => this.#send(), 250);
  }

  async listen(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(this.options.port, "127.0.0.1", resolve));
    return `http://127.0.0.1:${this.port}`;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    for (const reader of this.#readers.keys()) reader.destroy();
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #hello(): FeedHello {
    const { kind, demo, replicas, batches } = this.options;
    return {
      ...{ feed: 1, kind, name: "fake-pool", version: "0.0.0", startedAt: Date.now() - 3_700_000, at: Date.now() },
      ...{ instance: this.instance, phase: "serving", unready: null, history: false },
      ...{ demo, replicas, batches, limits: false },
      topics: ["overview", "events", "endpoints", "decisions", "queues"],
      rings: { seconds: 900, events: 512, decisions: 4096, bytes: 1 << 20 },
      readers: { open: this.#readers.size, most: 32 },
    };
  }

  #app(): Hono {
    const app = new Hono();
    const { kind, endpoints, queues } = this.options;
    pageRoutes(app);
    app.get("/debug/feed/overview", (context) =>
      context.json(overviewOf(kind, Number(context.req.query("seconds") ?? 900))),
    );
    app.get("/debug/feed/endpoints", (context) =>
      context.json({
        at: Date.now(),
        total: endpoints,
        matched: endpoints,
        states: {},
        endpoints: [],
        columns: columnsOf(0, 0),
        labels: {},
        leftOut: endpointDetailOf(0).leftOut,
      }),
    );
    app.get("/debug/feed/endpoint", (context) =>
      context.json(endpointDetailOf(Number(context.req.query("id")?.replace(/\D/g, "") ?? 0))),
    );
    app.get("/debug/feed/decisions", (context) =>
      context.json({
        rows: Array.from({ length: 60 }, (_, at) => decisionRowOf(100 - at)),
        next: 40,
        kept: { count: 100, most: 4096, oldestAt: Date.now() - 60_000 },
        alike: [],
      }),
    );
    app.get("/debug/feed/decision", (context) =>
      context.json(decisionDetailOf(Number(context.req.query("id")?.replace(/\D/g, "") || 1))),
    );
    app.get("/debug/feed/config", (context) => context.json(configOf(kind)));
    app.get("/debug/feed/queues", (context) => context.json(this.#queues(queues)));
    app.get("/debug/peers", (context) => context.json(peersOf()));
    app.get("/debug/batches", (context) => context.json(batchesOf(this.#cancelled)));
    app.post("/debug/batches/cancel", async (context) => {
      const body = (await context.req.json()) as BatchCancel;
      this.posts.push({ path: context.req.path, body });
      this.#cancelled.add(body.id);
      return context.json(batchesOf(this.#cancelled).batches.find(({ id }) => id === body.id)!);
    });
    app.get("/debug/queues/messages", (context) =>
      context.json({ ...messagesOf(), queue: context.req.query("queue") ?? "" } satisfies MessagesFeed),
    );
    app.post("/debug/queues/cancel", async (context) => {
      const body = (await context.req.json()) as MessageCancel;
      this.posts.push({ path: context.req.path, body });
      return body.id === "none" ? context.json({ error: "it has ended" }, 404) : context.json({ id: body.id });
    });
    app.get("/demo/state", (context) => context.json(demoStateOf()));
    app.post("/demo/:what", async (context) => {
      this.posts.push({ path: context.req.path, body: await context.req.json() });
      return context.json(demoStateOf());
    });
    return app;
  }

  #queues(kind: "off" | "flow-control" | "dispatch") {
    if (kind === "off") return { kind, at: Date.now(), text: "The feature gate flowControl turns it on." } as const;
    if (kind === "flow-control") return flowQueuesOf();
    const queues = dispatchQueuesOf();
    return this.options.kind === "batch-server" ? { ...queues, queues: [] } : queues;
  }

  #open(response: ServerResponse, query: URLSearchParams): void {
    this.streams.push(query);
    const topics = (query.get("topics") ?? "overview,events").split(",");
    response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" });
    response.write("retry: 200\n\n");
    this.#readers.set(response, topics);
    response.on("close", () => this.#readers.delete(response));
    write(response, "hello", this.#hello());
    if (topics.includes("endpoints")) {
      const all = Array.from({ length: this.options.endpoints }, (_, at) => endpointOf(at));
      write(response, "endpoints", { generation: 1, endpoints: all, total: all.length });
    }
  }

  /** Four times a second; what comes once a second comes with each fourth call. */
  #send(): void {
    if (this.isSilent) return;
    const isSecond = this.#tick++ % 4 === 0;
    const rows = Array.from({ length: this.options.batch }, () => decisionRowOf(++this.#sequence));
    const second = Math.floor(Date.now() / 1000) - 1;
    for (const [response, topics] of this.#readers) {
      if (topics.includes("decisions"))
        write(response, "decisions", {
          rows: rows.slice(0, BATCH),
          leftOut: Math.max(0, rows.length - BATCH),
          passed: rows.length,
        });
      if (!isSecond) continue;
      write(
        response,
        "tick",
        { second, figures: figuresOf(this.options.kind, second), totals: totalsOf() },
        String(second),
      );
      if (topics.includes("endpoints"))
        write(response, "loads", { generation: 1, at: Date.now(), columns: columnsOf(this.options.endpoints, second) });
      if (topics.includes("queues")) write(response, "queues", this.#queues(this.options.queues));
    }
  }
}

function write<Name extends keyof FeedEvents>(
  response: ServerResponse,
  name: Name,
  data: FeedEvents[Name],
  id?: string,
): void {
  response.write(`${id === undefined ? "" : `id: ${id}\n`}event: ${name}\ndata: ${JSON.stringify(data)}\n\n`);
}
