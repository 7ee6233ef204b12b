import type { Clock } from "../../base/clock/clock.ts";
import type { RecordedWait } from "../../base/inference/decision-record.ts";
import { type HeaderList, requestPath } from "../../base/inference/headers.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import { withoutKeys } from "../../base/inference/secrets.ts";
import type { Attempts } from "./attempts.ts";
import type { EndedExchange } from "./exchange-metrics.ts";
import type { Wire } from "./wire.ts";

/** Most characters of a text in a line: models, ids and paths come from clients. */
const MAX_TEXT = 256;

/** ASCII without control characters. */
const PLAIN = /^[ -~]*$/;

/** A request that the wire answered, or a connection that it closed, before there was an exchange. */
export interface UnopenedRequest {
  /** The id in the answer; undefined for a connection. */
  readonly requestId?: string;
  /** Undefined where the request line was not readable. */
  readonly method?: string | undefined;
  /** Path and query. */
  readonly target?: string | undefined;
  /** Undefined for a connection that was closed without an answer. */
  readonly status?: number;
  /** A word of a fixed set, such as `headers_too_large`. */
  readonly reason: string;
  /** Requests of the same reason before this one that got no line. */
  readonly suppressed?: number | undefined;
  /** The name of the caller's key. */
  readonly key?: string | undefined;
}

type LoggedWire = Pick<Wire, "caller" | "ownAnswer" | "retries">;

/** What the exchange alone knows about its end. */
interface EndDetails {
  readonly requestId: string;
  readonly headers: HeaderList;
  /** Undefined when no endpoint was tried. */
  readonly attempts: Attempts | undefined;
  /** The wait in flow control. */
  readonly wait: RecordedWait | undefined;
}

/**
 * Writes one JSON line for each request. A line has no prompt text, of the headers only the request id and the fairness ID, no
 * key of this gateway, and no text that is long or has control characters.
 */
export class RequestLog {
  readonly #clock: Clock;
  readonly #every: number;
  readonly #write: (line: string) => void;

  /**
   * @param every one in this many requests that end well gets a line; 0 = none. All others always get one
   * @param write receives a line without its newline
   */
  constructor(clock: Clock, every: number, write: (line: string) => void) {
    this.#clock = clock;
    this.#every = every;
    this.#write = write;
  }

  /** Begins the entry of one exchange. */
  open(wire: LoggedWire): RequestEntry {
    return new RequestEntry(this, wire);
  }

  /** The wire has answered a request that opened no exchange. */
  unopened({ requestId, method, target, status, reason, suppressed, key }: UnopenedRequest): void {
    const path = target === undefined ? undefined : pathOf(target);
    const about = { requestId: text(requestId), key: text(key), method: text(method), path };
    this.write({ ...about, status, reason, suppressed, endCause: "rejected" });
  }

  /**
   * Whether a request that ended well gets a line. The id of the request decides, so gateways with the same setting choose the
   * same requests.
   */
  samples(requestId: string): boolean {
    return this.#every === 1 || (this.#every > 1 && hashOf(requestId) % this.#every === 0);
  }

  /** Writes a line; values that are undefined or NaN are left out. */
  write(fields: Readonly<Record<string, string | number | boolean | undefined>>): void {
    // An object for `JSON.stringify` would take twice the time (bench/proxy.ts).
    let line = `{"time":"${new Date(this.#clock.wall()).toISOString()}"`;
    for (const key in fields) {
      const value = fields[key];
      if (typeof value === "string") line += `,"${key}":${JSON.stringify(value)}`;
      else if (value !== undefined && !Number.isNaN(value)) line += `,"${key}":${value}`;
    }
    this.#write(`${line}}`);
  }
}

/** Gathers the figures of one exchange until its end. It keeps neither the request nor its body. */
export class RequestEntry {
  readonly #log: RequestLog;
  #about: Readonly<Record<string, string | number>> = {};
  readonly #wire: LoggedWire;
  #bytes = 0;
  #decision: number | undefined;

  constructor(log: RequestLog, wire: LoggedWire) {
    this.#log = log;
    this.#wire = wire;
  }

  /** @param bytes of a piece of the request body */
  received(bytes: number): void {
    this.#bytes += bytes;
  }

  /**
   * The request was understood, and later: decided about.
   * @param decision the number of its decision record
   */
  understood({ model, targetModel, fairnessId, priority }: InferenceRequest, decision?: number): void {
    this.#about = { model, targetModel, fairnessId, priority };
    this.#decision = decision;
  }

  /** The exchange is over: writes its line, or leaves it out. */
  ended(end: EndedExchange, details: EndDetails): void {
    const { cause, response, streaming, receivedAt, endedAt } = end;
    const { ownAnswer, retries = 0 } = this.#wire;
    const refusal = end.rejection ?? ownAnswer;
    const status = response.status === 0 ? refusal?.status : response.status;
    // An answer of a model server that was passed on to its end has no reason.
    const reason = refusal?.reason ?? (cause === "interrupted" ? "upstream_reset" : undefined);
    const wentWell = cause === "complete" && reason === undefined && (status ?? 0) < 400;
    if (wentWell && !this.#log.samples(details.requestId)) return;
    const { model, targetModel, fairnessId, priority } = this.#about;
    const { usage } = response;
    const duration = endedAt - receivedAt;
    const whole = cause === "complete" && response.status !== 0 ? duration : Number.NaN;
    this.#log.write({
      requestId: text(details.requestId),
      key: text(this.#wire.caller?.name),
      method: text(details.headers.get(":method")),
      path: pathOf(requestPath(details.headers)),
      model: text(model),
      targetModel: text(targetModel),
      endpoint: text(details.attempts?.lastTried(retries).id),
      decision: this.#decision,
      status,
      reason,
      endCause: cause,
      streaming,
      // As in the metrics, an answer that is not streamed has its first token with its last (scheduling 8.3, rule 7).
      ttftMs: rounded(streaming ? response.firstByteAt - receivedAt : whole),
      durationMs: rounded(duration),
      queuedMs: rounded(details.wait?.waitedMs ?? 0),
      promptTokens: usage?.promptTokens,
      completionTokens: usage?.completionTokens,
      cachedTokens: usage?.cachedTokens,
      requestBytes: this.#bytes,
      responseBytes: response.bytes,
      retries,
      fairnessId: text(fairnessId),
      priority,
    });
  }
}

/** The path of a target without its query. */
function pathOf(target: string): string | undefined {
  const end = target.search(/[?#]/);
  return text(end < 0 ? target : target.slice(0, end));
}

/** One bounded line of text; undefined for nothing. */
function text(value: string | number | undefined): string | undefined {
  if (value === undefined || value === "") return undefined;
  const whole = withoutKeys(String(value));
  // Nearly every text.
  if (whole.length <= MAX_TEXT && PLAIN.test(whole)) return whole;
  const short = whole.length <= MAX_TEXT ? whole : `${whole.slice(0, MAX_TEXT - 3)}...`;
  // Also the controls of C1, and the separators of lines that are no controls.
  return short.toWellFormed().replace(/[\p{Cc}\u2028\u2029]/gu, "?");
}

/** Milliseconds with three places. */
function rounded(ms: number): number {
  return Math.round(ms * 1000) / 1000;
}

/** FNV-1a of the UTF-16 units, mixed so that ids with a common beginning and a counter spread well. */
function hashOf(id: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < id.length; i++) hash = Math.imul(hash ^ id.charCodeAt(i), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  return (hash ^ (hash >>> 13)) >>> 0;
}
