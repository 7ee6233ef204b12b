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

/** ASCII without control characters, and without those that JSON escapes. */
const PLAIN = /^[ !#-[\]-~]*$/;

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
  #every: number;
  #write: (line: string) => void;
  /** The second of the last line, in Unix seconds, and its text up to the point. */
  #second = Number.NaN;
  #upToSecond = "";

  /**
   * @param every one in this many requests that end well gets a line; 0 = none. All others always get one
   * @param write receives a line without its newline
   */
  constructor(clock: Clock, every: number, write: (line: string) => void) {
    this.#clock = clock;
    this.#every = every;
    this.#write = write;
  }

  /** Other settings from now on, for requests that run, too. The parameters are those of the constructor. */
  use(every: number, write: (line: string) => void): void {
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
    this.write(
      member("requestId", requestId) +
        member("key", key) +
        member("method", method) +
        member("path", path) +
        figure("status", status) +
        member("reason", reason) +
        figure("suppressed", suppressed) +
        member("endCause", "rejected"),
    );
  }

  /**
   * Whether a request that ended well gets a line. The id of the request decides, so gateways with the same setting choose the
   * same requests.
   */
  samples(requestId: string): boolean {
    return this.#every === 1 || (this.#every > 1 && hashOf(requestId) % this.#every === 0);
  }

  /** Writes a line. @param members from `member` and `figure` */
  write(members: string): void {
    this.#write(`{"time":"${this.#time()}"${members}}`);
  }

  /** The time as ISO 8601 has it. Most lines share their second with the line before. */
  #time(): string {
    const now = Math.floor(this.#clock.wall());
    const second = Math.floor(now / 1000);
    if (second !== this.#second) {
      this.#second = second;
      this.#upToSecond = new Date(second * 1000).toISOString().slice(0, -"000Z".length);
    }
    return `${this.#upToSecond}${String(now - second * 1000).padStart(3, "0")}Z`;
  }
}

/** Gathers the figures of one exchange until its end. It keeps neither the request nor its body. */
export class RequestEntry {
  readonly #log: RequestLog;
  #model: string | undefined;
  #targetModel: string | undefined;
  #fairnessId: string | undefined;
  #priority: number | undefined;
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
    this.#model = model;
    this.#targetModel = targetModel;
    this.#fairnessId = fairnessId;
    this.#priority = priority;
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
    const { usage } = response;
    const duration = endedAt - receivedAt;
    const whole = cause === "complete" && response.status !== 0 ? duration : Number.NaN;
    // One text for each member: an object with all of them took twice the time (bench/peers.ts).
    this.#log.write(
      member("requestId", details.requestId) +
        member("key", this.#wire.caller?.name) +
        member("method", details.headers.get(":method")) +
        member("path", pathOf(requestPath(details.headers))) +
        member("model", this.#model) +
        member("targetModel", this.#targetModel) +
        member("endpoint", details.attempts?.lastTried(retries).id) +
        figure("decision", this.#decision) +
        figure("status", status) +
        member("reason", reason) +
        member("endCause", cause) +
        (streaming ? ',"streaming":true' : ',"streaming":false') +
        // As in the metrics, an answer that is not streamed has its first token with its last (scheduling 8.3, rule 7).
        figure("ttftMs", rounded(streaming ? response.firstByteAt - receivedAt : whole)) +
        figure("durationMs", rounded(duration)) +
        figure("queuedMs", rounded(details.wait?.waitedMs ?? 0)) +
        figure("promptTokens", usage?.promptTokens) +
        figure("completionTokens", usage?.completionTokens) +
        figure("cachedTokens", usage?.cachedTokens) +
        figure("requestBytes", this.#bytes) +
        figure("responseBytes", response.bytes) +
        figure("retries", retries) +
        member("fairnessId", this.#fairnessId) +
        figure("priority", this.#priority),
    );
  }
}

/** The path of a target without its query. */
function pathOf(target: string): string {
  const end = target.search(/[?#]/);
  return end < 0 ? target : target.slice(0, end);
}

/** A member with a text, which becomes one bounded line without keys; nothing for no text. */
function member(name: string, given: string | undefined): string {
  if (given === undefined || given === "") return "";
  const value = withoutKeys(given);
  // Nearly every text.
  if (value.length <= MAX_TEXT && PLAIN.test(value)) return `,"${name}":"${value}"`;
  const short = value.length <= MAX_TEXT ? value : `${value.slice(0, MAX_TEXT - 3)}...`;
  // Also the controls of C1, and the separators of lines that are no controls.
  return `,"${name}":${JSON.stringify(short.toWellFormed().replace(/[\p{Cc}\u2028\u2029]/gu, "?"))}`;
}

/** A member with a number; nothing for undefined and NaN. */
function figure(name: string, value: number | undefined): string {
  return value === undefined || Number.isNaN(value) ? "" : `,"${name}":${value}`;
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
