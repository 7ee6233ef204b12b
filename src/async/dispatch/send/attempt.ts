import type { IncomingHttpHeaders } from "node:http";
import type { Dispatcher } from "undici";
import type { Clock } from "../../../base/clock/clock.ts";
import { messageOf, oneLine } from "../../../base/inference/errors.ts";
import { HEADER } from "../../../base/inference/headers.ts";
import type { Slotted } from "../unordered-set.ts";
import { BodyCollector, decodeBody, longerThan } from "./answer-body.ts";
import type { GatewayConnection, GatewayOrigin } from "./connection.ts";
import type { GatewayAnswer } from "./inference-client.ts";
import { retryAfterMs } from "./retry-after.ts";

/** The parts of the client that attempts need. */
export interface GatewayAttemptOwner {
  readonly clock: Clock;
  readonly maxResponseBytes: number;
  readonly connectTimeoutMs: number;
  /** Called exactly once, when the attempt is over. */
  finished(attempt: GatewayAttempt): void;
}

/**
 * One request on one connection, as a handler of undici's `dispatch`: gathers the answer, and resolves with the first of
 * answer, failure, timeout and abort.
 *
 * The attempt does not repeat a request that fails on a kept connection, even if the server only closed it before the request
 * came. A gateway that broke down over this very request looks the same, and a model may have worked on it. The dispatcher's
 * retry, some seconds later, costs latency-tolerant work nothing and is counted. The case is rare: undici checks a kept
 * connection before it writes, and honours the server's `Keep-Alive`.
 */
export class GatewayAttempt implements Dispatcher.DispatchHandler, Slotted {
  /** Place in the set of running attempts. */
  slot = -1;
  readonly signal: AbortSignal;
  /** Monotonic milliseconds at which the attempt is given up. */
  readonly #deadline: number;
  /** Monotonic milliseconds by which a connection must exist; Infinity once it does. */
  #connectBy: number;
  readonly #timeoutMs: number;
  readonly #owner: GatewayAttemptOwner;
  readonly #origin: GatewayOrigin;
  /** Undefined after the connection was given back or cut. */
  #connection: GatewayConnection | undefined;
  readonly #resolve: (answer: GatewayAnswer) => void;
  readonly #body = new BodyCollector();
  #over = false;
  #status = 0;
  #retryAfterMs: number | undefined;
  #dropReason = "";
  #contentType = "";
  #coding = "";
  #announced = Number.NaN;

  constructor(
    owner: GatewayAttemptOwner,
    origin: GatewayOrigin,
    timeoutMs: number,
    signal: AbortSignal,
    resolve: (answer: GatewayAnswer) => void,
  ) {
    this.#owner = owner;
    this.#origin = origin;
    this.#connection = origin.take();
    const now = owner.clock.now();
    this.#deadline = now + timeoutMs;
    this.#connectBy = now + owner.connectTimeoutMs;
    this.#timeoutMs = timeoutMs;
    this.signal = signal;
    this.#resolve = resolve;
  }

  /** Sends the request. */
  start(options: Dispatcher.DispatchOptions): void {
    this.#connection?.dispatch(options, this);
  }

  /** Ends the attempt with this answer and cuts its connection. */
  giveUp(answer: GatewayAnswer): void {
    if (this.#over) return;
    this.#finish(answer);
    this.#cut();
  }

  /** Ends the attempt if its time is over. @param now monotonic milliseconds */
  expire(now: number): void {
    const { name } = this.#origin;
    if (now >= this.#deadline) {
      const message = `${name}: no complete answer within ${Math.round(this.#timeoutMs)} ms`;
      this.giveUp({ kind: "timeout", message });
    } else if (now >= this.#connectBy) {
      this.giveUp({ kind: "no-answer", message: `${name}: no connection within ${this.#owner.connectTimeoutMs} ms` });
    }
  }

  onRequestStart(): void {
    this.#connectBy = Number.POSITIVE_INFINITY;
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: IncomingHttpHeaders): void {
    // Interim answers (100-199) concern the hop alone.
    if (this.#over || status < 200) return;
    this.#status = status;
    this.#contentType = text(headers["content-type"]);
    this.#coding = text(headers["content-encoding"]).toLowerCase();
    this.#announced = Number(text(headers["content-length"]) || Number.NaN);
    this.#dropReason = oneLine(text(headers[HEADER.droppedReason]));
    this.#retryAfterMs = retryAfterMs(
      headers["retry-after"] === undefined ? undefined : text(headers["retry-after"]),
      headers.date,
      this.#owner.clock.wall(),
    );
    if (this.#announced > this.#owner.maxResponseBytes) this.#tooLong();
  }

  onResponseData(_controller: Dispatcher.DispatchController, piece: Buffer): void {
    if (this.#over) return;
    if (this.#body.size + piece.length > this.#owner.maxResponseBytes) this.#tooLong();
    else this.#body.add(piece, this.#announced);
  }

  onResponseEnd(): void {
    if (this.#over) return;
    this.#origin.give(this.#connection!);
    this.#connection = undefined;
    if (this.#coding === "") this.#complete(this.#body.bytes());
    else
      decodeBody(this.#body.bytes(), this.#coding, this.#owner.maxResponseBytes, (decoded) => {
        if (decoded.kind === "content") this.#complete(decoded.body);
        else this.#truncated(decoded.message, decoded.tooLong);
      });
  }

  onResponseError(_controller: Dispatcher.DispatchController | null, error: Error): void {
    if (this.#over) return;
    const message = `${this.#origin.name}: ${failureText(error)}`;
    if (this.#status === 0) this.#finish({ kind: "no-answer", message });
    else this.#truncated(`the answer ended early: ${message}`, false);
    this.#cut();
  }

  /** Comes last: the cut may report the failure of the same request. */
  #cut(): void {
    if (this.#connection !== undefined) this.#origin.drop(this.#connection);
    this.#connection = undefined;
  }

  #tooLong(): void {
    this.#truncated(longerThan(this.#owner.maxResponseBytes), true);
    this.#cut();
  }

  #truncated(message: string, tooLong: boolean): void {
    this.#finish({ kind: "truncated", status: this.#status, retryAfterMs: this.#retryAfterMs, message, tooLong });
  }

  #complete(body: Uint8Array): void {
    this.#finish({
      kind: "response",
      status: this.#status,
      body,
      contentType: this.#contentType,
      retryAfterMs: this.#retryAfterMs,
      dropReason: this.#dropReason,
    });
  }

  #finish(answer: GatewayAnswer): void {
    if (this.#over) return;
    this.#over = true;
    this.#owner.finished(this);
    this.#resolve(answer);
  }
}

/** The first value of a header, or "". */
function text(value: string | readonly string[] | undefined): string {
  return typeof value === "string" ? value : (value?.[0] ?? "");
}

/**
 * Why a request failed, in one line that is never empty. For a host name with several addresses the error has no message of its
 * own, but one for each address.
 */
export function failureText(error: Error & { code?: string; errors?: readonly unknown[] }): string {
  const causes = Array.isArray(error.errors) ? oneLine(error.errors.map(messageOf).join("; ")) : "";
  return causes || messageOf(error) || (error.code ?? error.name);
}
