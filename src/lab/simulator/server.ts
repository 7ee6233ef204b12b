import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import type { Clock, Timer } from "../../base/clock/clock.ts";
import { type Random, SeededRandom, uuidFrom } from "../../base/clock/random.ts";
import { realClock } from "../../base/clock/real.ts";
import { hostPort } from "../../base/inference/endpoint.ts";
import { messageOf } from "../../base/inference/errors.ts";
import { listenFailed } from "../../base/inference/listen-address.ts";
import { Adapters } from "./adapters.ts";
import { SimApiError } from "./api-error.ts";
import type { SimContext } from "./context.ts";
import { SimEngine } from "./engine.ts";
import { settingsFor } from "./faults.ts";
import { CacheEvents } from "./kv-events/cache-events.ts";
import { addressOf, EventPublisher, isBound } from "./kv-events/publisher.ts";
import { SimMetrics } from "./metrics.ts";
import type { SimOptions } from "./options.ts";
import { RequestLog, type RequestRecord } from "./request-log.ts";
import { isAdmin, isRecorded, ROUTES, sendJson } from "./routes.ts";
import { errorBody } from "./shapes.ts";

/** Longer than the idle time of any proxy's connection pool, so the proxy closes first. */
const KEEP_ALIVE_MS = 75_000;

/** The last request of each connection. */
type LatestExchange = WeakMap<Socket, { readonly record: RequestRecord; readonly response: ServerResponse }>;

/** A running model server. */
export interface Simulator {
  /** `http://address:port`; the loopback address when the server listens on every address. */
  readonly url: string;
  readonly port: number;
  readonly engine: SimEngine;
  /** Ends running answers with an error, closes every connection and stops listening. */
  close(): Promise<void>;
}

/** The clock and the chance of a simulator; by default the machine's clock and chance from the option `seed`. */
export interface SimulatorParts {
  readonly clock?: Clock;
  readonly random?: Random;
  /** The number of the server among those of one process, from 0 up: it raises the ports of KV-cache events; default 0. */
  readonly number?: number;
  /** Called when the fault `crash-after` applies, after every connection is cut: the callback may end the process. */
  readonly onCrash?: () => void;
}

/**
 * Starts one model server (envoy-data-plane 5.3) on `options.port`; ignores options that concern several servers.
 * @throws SluiceError LISTEN_FAILED when it cannot listen there; KV_EVENTS_CLIENT_MISSING
 */
export async function startSimulator(options: SimOptions, parts: SimulatorParts = {}): Promise<Simulator> {
  const { clock = realClock, random = new SeededRandom(options.seed) } = parts;
  const modelNames = options.servedModelName.length > 0 ? options.servedModelName : [options.model];
  const metrics = new SimMetrics(clock, modelNames[0]!, options.maxModelLen);
  let crashTimer: Timer | undefined;
  let crashAt = Number.POSITIVE_INFINITY;
  const context: SimContext = {
    settings: options,
    engine: new SimEngine({
      config: { ...options, latency: options, resolution: 1 },
      clock,
      random,
      observer: metrics,
    }),
    adapters: new Adapters(options.loraModules),
    metrics,
    log: new RequestLog(),
    clock,
    random: new SeededRandom(options.seed ^ 0x5bd1e995),
    startedAt: clock.now(),
    startedWall: clock.wall(),
    modelNames,
    inferenceRequests: 0,
    generations: new Set(),
    crashAfter(ms) {
      if (clock.now() + ms >= crashAt) return;
      crashAt = clock.now() + ms;
      crashTimer?.cancel();
      crashTimer = clock.after(ms, () => {
        server.close();
        server.closeAllConnections();
        publisher?.close();
        parts.onCrash?.();
      });
    },
  };
  const identity = new Map<string, string>();
  const latest: LatestExchange = new WeakMap();
  const server = createServer({ keepAliveTimeout: KEEP_ALIVE_MS }, (request, response) => {
    void answer(context, identity, latest, request, response);
  });
  server.on("clientError", (error, socket) => refuseBytes(error, socket as Socket, latest));
  const port = await listen(server, options);
  let publisher: EventPublisher | undefined;
  try {
    publisher = await publisherOf(context, port, parts.number ?? 0);
  } catch (error) {
    server.close();
    throw error;
  }
  if (options.crashAfter > 0) context.crashAfter(options.crashAfter);
  identity.set("x-inference-pod", options.podName || `sim-${port}`);
  identity.set("x-inference-port", String(port));
  if (options.podNamespace) identity.set("x-inference-namespace", options.podNamespace);
  return {
    url: `http://${hostPort(addressIn(options), port)}`,
    port,
    engine: context.engine,
    close: () =>
      new Promise((resolve) => {
        crashTimer?.cancel();
        publisher?.close();
        server.close(() => resolve());
        for (const generation of context.generations)
          generation.interrupt(new SimApiError(503, "The server is stopping"));
        // Only after the last words of the ended streams.
        clock.soon(() => server.closeAllConnections());
      }),
  };
}

/**
 * Starts `instances` times `dataParallelSize` servers on consecutive ports (any free ports, when `port` is 0), each with its
 * own engine. With equal seeds, equal requests get equal answers from every server.
 * @throws SluiceError LISTEN_FAILED when one of them cannot listen; then none keeps running
 */
export async function startInstances(options: SimOptions, parts: SimulatorParts = {}): Promise<Simulator[]> {
  const started: Simulator[] = [];
  try {
    for (let i = 0; i < options.instances * options.dataParallelSize; i++) {
      const port = options.port === 0 ? 0 : options.port + i;
      started.push(await startSimulator({ ...options, port }, { ...parts, number: i }));
    }
  } catch (error) {
    await Promise.all(started.map((simulator) => simulator.close()));
    throw error;
  }
  return started;
}

/** Publishes the contents of the prefix cache, where the options say so. */
async function publisherOf(
  { settings, engine, clock, modelNames }: SimContext,
  port: number,
  number: number,
): Promise<EventPublisher | undefined> {
  if (settings.kvEvents === "") return undefined;
  const publisher = await EventPublisher.open({
    address: addressOf(settings.kvEvents, isBound(settings.kvEvents) ? number : 0),
    replayAddress: addressOf(settings.kvEventsReplay, number),
    topic: `kv@${hostPort(addressIn(settings), port)}@${modelNames[0]!}`,
    wall: () => clock.wall(),
  });
  engine.kv.listener = new CacheEvents(clock, settings.blockSize, (events) => publisher.publish(events));
  return publisher;
}

/** The address at which a program on this machine reaches the server. */
function addressIn({ host }: SimOptions): string {
  return host === "0.0.0.0" || host === "::" ? "127.0.0.1" : host;
}

function listen(server: Server, { host, port }: SimOptions): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once("error", (error) => {
      reject(listenFailed(hostPort(host, port), error));
    });
    server.listen({ host, port }, () => resolve((server.address() as AddressInfo).port));
  });
}

async function answer(
  context: SimContext,
  identity: ReadonlyMap<string, string>,
  latest: LatestExchange,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const url = request.url ?? "/";
  const mark = url.indexOf("?");
  const path = mark < 0 ? url : url.slice(0, mark);
  const record = newRecord(context, request, path);
  if (isRecorded(path)) context.log.add(record);
  latest.set(request.socket, { record, response });
  response.setHeaders(identity as Map<string, string>);
  if (context.settings.enableRequestIdHeaders) response.setHeader("x-request-id", record.id);
  response.on("close", () => close(context, record, response));
  try {
    const settings = isAdmin(path) ? context.settings : settingsFor(context, request.headers);
    if (settings !== context.settings && settings.crashAfter > 0) context.crashAfter(settings.crashAfter);
    if (settings.failConnect && !isAdmin(path)) {
      record.fault = "fail-connect";
      request.socket.resetAndDestroy();
      return;
    }
    const methods = ROUTES.get(path);
    if (!methods) throw new SimApiError(404, `There is nothing at ${path.slice(0, 256)}`);
    const handler = methods[request.method ?? ""];
    if (!handler) {
      response.setHeader("allow", Object.keys(methods).join(", "));
      throw new SimApiError(405, `${path} takes ${Object.keys(methods).join(" or ")} only`);
    }
    const query = new URLSearchParams(mark < 0 ? "" : url.slice(mark + 1));
    await handler({ context, request, response, record, settings, query });
  } catch (error) {
    if (response.headersSent || response.destroyed) return;
    const known = error instanceof SimApiError ? error : new SimApiError(500, messageOf(error));
    sendJson(response, known.status, errorBody(known, path));
  }
}

function newRecord(context: SimContext, request: IncomingMessage, path: string): RequestRecord {
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(request.headers)) {
    headers[name] = Array.isArray(value) ? value.join(", ") : String(value);
  }
  const declared = request.headers["content-length"];
  return {
    id: (headers["x-request-id"] ?? "").slice(0, 256) || uuidFrom(context.random),
    method: request.method ?? "",
    path: path.slice(0, 1024),
    headers,
    declaredContentLength: declared === undefined ? null : Number(declared),
    model: null,
    bodySha256: null,
    bodyLength: 0,
    trailingBytes: false,
    repeatedDocument: false,
    lengthMismatch: false,
    receivedAt: context.clock.wall(),
    firstTokenAt: null,
    endedAt: null,
    aborted: false,
    abortedAt: null,
    status: null,
    fault: null,
  };
}

function close(context: SimContext, record: RequestRecord, response: ServerResponse): void {
  if (response.headersSent) record.status = response.statusCode;
  record.endedAt = context.clock.wall();
  if (response.writableFinished || record.fault !== null) return;
  record.aborted = true;
  record.abortedAt = record.endedAt;
}

/**
 * Handles bytes that are not an HTTP request. Directly after a body of declared length they are excess bytes of that body. Then
 * the record of that request says so, and its answer continues.
 */
function refuseBytes(error: Error, socket: Socket, latest: LatestExchange): void {
  const exchange = latest.get(socket);
  if (exchange && exchange.record.declaredContentLength !== null && codeOf(error).startsWith("HPE_")) {
    exchange.record.lengthMismatch = true;
  }
  const response = exchange?.response;
  const underWay = response !== undefined && !response.writableFinished;
  if (underWay && response.req.complete) {
    response.shouldKeepAlive = false;
    response.once("finish", () => socket.end());
  } else if (!socket.writable || (underWay && response.headersSent)) {
    socket.destroy();
  } else {
    const body = JSON.stringify(new SimApiError(400, `InvalidRequest: ${messageOf(error)}`));
    const head = `content-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\nconnection: close`;
    socket.end(`HTTP/1.1 400 Bad Request\r\n${head}\r\n\r\n${body}`);
  }
}

function codeOf(error: Error): string {
  return String((error as NodeJS.ErrnoException).code);
}
