import type { HttpBindings } from "@hono/node-server";
import type { Context, Hono } from "hono";
import type { FeedError, FeedHello, FeedTopic } from "../feed/feed.ts";
import type { HistoryFigure, HistorySpan } from "../feed/history.ts";
import { Query, QueryError } from "./query.ts";
import { type Beside, type DecisionFilter, type FeedSource, HistoryError } from "./source.ts";
import type { FeedStream } from "./stream.ts";

export const HISTORY_FIGURES = [
  ...(["requests", "errors", "ttft", "duration", "tokens", "prefix"] as const),
  ...(["saturation", "inFlight", "waiting", "endpoints", "messages", "backlog", "budget"] as const),
] as const satisfies readonly HistoryFigure[];
export const HISTORY_SPANS = ["1h", "6h", "24h", "7d"] as const satisfies readonly HistorySpan[];

const STATES = ["up", "blind", "down"] as const;
const FILTERS = ["q", "model", "endpoint", "key", "reason"] as const;
const STREAM_HEADERS = { "content-type": "text/event-stream", "cache-control": "no-store" };
const NO_HISTORY = "this process has no Prometheus; for longer spans start it with --prometheus URL";

/** Serves what the page asks for, below `/debug/feed`. */
export function feedRoutes(app: Hono, source: FeedSource, stream: FeedStream): void {
  const get = (path: string, names: readonly string[], answer: (query: Query, context: Context) => unknown): void => {
    app.get(path, async (context) => {
      context.header("cache-control", "no-store");
      try {
        const found = await answer(new Query(context.req.url, names), context);
        return found instanceof Response ? found : context.json(found as object);
      } catch (error) {
        if (error instanceof QueryError) return context.json({ error: error.message } satisfies FeedError, 400);
        if (error instanceof HistoryError) return context.json({ error: error.message } satisfies FeedError, 502);
        throw error;
      }
    });
  };
  const missing = (context: Context, error: string): Response => context.json({ error } satisfies FeedError, 404);

  get("/debug/feed", [], () => stream.hello());
  get("/debug/feed/overview", ["seconds"], (query) => {
    const seconds = query.whole("seconds", 1, 900, 900);
    const overview = source.overview(seconds);
    const { events } = source.events.after(0);
    const since = overview.from * 1000;
    return { ...overview, events: events.filter(({ at }) => at >= since), lastEventId: stream.position() };
  });
  get("/debug/feed/events", ["after", "limit"], (query) =>
    source.events.after(query.whole("after", 0, Number.MAX_SAFE_INTEGER, 0), query.whole("limit", 1, 512, 512)),
  );
  get("/debug/feed/queues", [], () => source.queues());
  get("/debug/feed/config", [], () => source.config());
  const { endpoints, decisions } = source;
  if (endpoints !== undefined) {
    get("/debug/feed/endpoints", ["state", "label*", "model", "q", "limit"], (query) =>
      endpoints.list({
        states: query.some("state", STATES),
        labels: query.all("label").map(labelOf),
        model: query.text("model"),
        q: query.text("q"),
        limit: query.whole("limit", 1, 1000, 1000),
      }),
    );
    get("/debug/feed/endpoint", ["id"], (query, context) => {
      const id = query.must("id");
      return endpoints.one(id) ?? missing(context, `the pool has no endpoint ${id}`);
    });
  }
  if (decisions !== undefined) {
    get("/debug/feed/decisions", [...FILTERS, "before", "limit"], (query) =>
      decisions.list(
        filterOf(query),
        query.whole("before", 1, Number.MAX_SAFE_INTEGER, undefined),
        query.whole("limit", 1, 200, 50),
      ),
    );
    get("/debug/feed/decision", ["id"], (query, context) => {
      const found = decisions.one(query.must("id"));
      return typeof found === "string" ? missing(context, found) : found;
    });
  }
  get("/debug/feed/history", ["figure", "span", "end"], (query, context) => {
    query.must("figure");
    const figure = query.one("figure", HISTORY_FIGURES)!;
    const span = query.one("span", HISTORY_SPANS) ?? "1h";
    const end = query.whole("end", 1, 4_102_444_800, undefined);
    return source.history === undefined ? missing(context, NO_HISTORY) : source.history.read(figure, span, end);
  });
  get("/debug/feed/stream", ["topics", "lastEventId", ...FILTERS], (query, context) => {
    const topics: readonly FeedTopic[] = query.some("topics", source.topics) ?? ["overview", "events"];
    const filter = filterOf(query);
    if (Object.values(filter).some((value) => value !== undefined) && !topics.includes("decisions"))
      throw new QueryError("filters need the topic decisions");
    // The headers alone: a stream that nobody reads would take the place of a reader.
    if (context.req.method === "HEAD") return context.body(null, 200, STREAM_HEADERS);
    const last = context.req.header("last-event-id") ?? query.text("lastEventId");
    const body = stream.open(topics, filter, last, () => void (context.env as HttpBindings).outgoing.destroy());
    if (body === undefined)
      return context.json({ error: "too many readers are open; close a page" } satisfies FeedError, 503);
    return context.body(body, 200, STREAM_HEADERS);
  });
}

function labelOf(text: string): readonly [string, string] {
  const at = text.indexOf("=");
  if (at < 1) throw new QueryError("label is name=value");
  return [text.slice(0, at), text.slice(at + 1)];
}

function filterOf(query: Query): DecisionFilter {
  return {
    q: query.text("q"),
    model: query.text("model"),
    endpoint: query.text("endpoint"),
    key: query.text("key"),
    reason: query.text("reason"),
  };
}

/** The whole of `hello`, with what the server knows. */
export function helloOf(source: FeedSource, readers: FeedHello["readers"], beside: Beside = {}): FeedHello {
  return {
    feed: 1,
    ...source.hello(),
    instance: source.instance,
    topics: source.topics,
    history: source.history !== undefined,
    ...{ demo: false, replicas: false, limits: false, batches: false, ...beside },
    readers,
  };
}
