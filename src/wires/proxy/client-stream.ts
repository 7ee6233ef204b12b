import type { Caller } from "../../base/inference/caller.ts";
import { messageOf } from "../../base/inference/errors.ts";
import { withoutQuery } from "../../base/inference/headers.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import { forAnthropic, isAnthropic } from "./api-shapes.ts";
import { BadRequest, EXPECTATION_UNKNOWN } from "./bad-request.ts";
import type { ClientSide } from "./client-side.ts";
import type { CorsHeaders } from "./cors.ts";
import type { Timed } from "./deadlines.ts";
import { ExchangeDriver } from "./exchange-driver.ts";
import { badRequestAnswer, type LocalAnswer, rejectionAnswer, rejectionSlug, requestIdOf } from "./local-answer.ts";
import { LocalDriver } from "./local-driver.ts";
import type { Verdict } from "./options.ts";
import type { RequestDriver } from "./request-driver.ts";
import { type HttpRequestHead, type RequestLines, readHead } from "./request-head.ts";
import type { ResponseHead } from "./response-head.ts";
import type { ProxyServices } from "./services.ts";

/** The value of the request header `Expect`. */
export type Expectation = "none" | "continue" | "unknown";

/**
 * The progress of the answer. `head`: the status line waits for the first bytes of the body. `lingering`: the answer is
 * complete, and the proxy still reads the rest of the request.
 */
type Answer = "none" | "head" | "body" | "lingering" | "ended";

/**
 * The client's side of one exchange, without the version of HTTP: what a request may do, and who answers it. After the last byte
 * it watches that the client reads the answer.
 */
export abstract class ClientStream implements ClientSide, Timed {
  /** The driver sets it while its exchange is open; afterwards this class sets it. */
  deadline = Number.POSITIVE_INFINITY;
  /** The client has not yet read all written bytes; `clientDrained` follows. */
  needsDrain = false;
  protected readonly services: ProxyServices;
  protected readonly lines: RequestLines;
  protected readonly expectation: Expectation;
  protected driver: RequestDriver | undefined;
  protected answered: Answer = "none";
  readonly #peer: string;
  /** For the page of another origin that asked; undefined = none. */
  #cors: CorsHeaders | undefined;

  /** @param peer address of the client */
  constructor(services: ProxyServices, peer: string, lines: RequestLines, expectation: Expectation) {
    this.services = services;
    this.#peer = peer;
    this.lines = lines;
    this.expectation = expectation;
  }

  /** No answer can reach the client any more. */
  protected abstract get gone(): boolean;
  abstract get requestComplete(): boolean;
  abstract sendContinue(): void;
  abstract pauseRequest(): void;
  abstract resumeRequest(): void;
  abstract write(bytes: Uint8Array): boolean;
  abstract end(): void;
  abstract cut(): void;
  /** Writes the head of the model server's answer. */
  protected abstract sendHead(head: ResponseHead, bodyless: boolean): void;
  /** Sends an answer of the proxy. @param last the request is broken or not read to its end */
  protected abstract sendAnswer(answer: LocalAnswer, last: boolean): void;
  /** Begins to read the request body. */
  protected abstract listen(): void;
  /** Gives up the answer, which the client does not read. */
  protected abstract giveUp(): void;

  /** Answers the request, or opens its exchange. An error of Sluice ends this request alone. */
  begin(): void {
    try {
      this.#begin();
    } catch (error) {
      this.#failed(error);
    }
  }

  #begin(): void {
    const { cors, deadlines, limits, allowUnderscores } = this.services;
    deadlines.add(this);
    this.#cors = cors?.headersFor(this.lines.raw);
    const head =
      this.expectation === "unknown" ? EXPECTATION_UNKNOWN : readHead(this.lines, this.#peer, limits, allowUnderscores);
    if (head instanceof BadRequest) {
      this.#refuse(head);
      return;
    }
    // A browser sends no key with its question whether it may send one.
    const preflight = cors?.preflight(head.method, this.lines.raw);
    if (preflight !== undefined) {
      this.answer(preflight, !head.end);
      return;
    }
    const verdict = this.services.authenticate?.(head);
    // Until the promise is settled, nobody reads the body, so the connection is not read for long.
    if (verdict instanceof Promise)
      verdict.then((found) => this.#recognised(head, found)).catch((error: unknown) => this.#failed(error));
    else this.#recognised(head, verdict);
  }

  /** The client is known, or refused. */
  #recognised(head: HttpRequestHead, verdict: Verdict): void {
    if (this.gone) return;
    const { local } = this.services;
    if (local?.claims(withoutQuery(head.path)) === true && !(verdict instanceof Rejection)) {
      this.driver = new LocalDriver(this.services, local, this, head, verdict);
      if (!head.end) this.listen();
      this.driver.start(this.expectation === "continue");
      return;
    }
    const refusal = verdict instanceof Rejection ? verdict : this.services.paths.judge(head.method, head.path);
    if (refusal !== undefined) {
      this.#refuse(refusal);
      return;
    }
    const caller = verdict as Caller | undefined;
    const own = this.services.ownAnswer?.(head, this, caller);
    if (own !== undefined) {
      this.answer(own, !head.end);
      return;
    }
    this.driver = new ExchangeDriver(this.services, this, head, caller);
    if (!head.end) this.listen();
    this.driver.start(this.expectation === "continue");
  }

  /** An internal error of Sluice, before there was an exchange. */
  #failed(error: unknown): void {
    this.services.onError(error);
    if (this.gone) return;
    if (this.headWritten) this.giveUp();
    else this.#refuse(new Rejection("internal", messageOf(error)));
  }

  get peer(): string {
    return this.#peer;
  }

  /** The client has the head of an answer, or will have it before anything else. */
  get headWritten(): boolean {
    return this.answered !== "none";
  }

  /** `x-request-id` of the client; without it a new id on each read. */
  get requestId(): string {
    return requestIdOf(this.lines.raw, this.services.random);
  }

  /** The id for the answer to a request that is refused. A request without an exchange is logged here. */
  answerId({ status, reason }: BadRequest | Rejection): string {
    const { requestId } = this;
    const { method, target } = this.lines;
    if (!this.opened) this.services.onUnopened?.({ requestId, method, target, status, reason });
    return requestId;
  }

  /** The head of the model server's answer. */
  writeHead(head: ResponseHead, bodyless: boolean): void {
    this.sendHead(this.#cors === undefined ? head : { ...head, headers: this.#cors.onto(head.headers) }, bodyless);
  }

  /** An answer of the proxy. @param last the connection ends with it: the request is broken or not read to its end */
  answer(answer: LocalAnswer, last: boolean): void {
    const { target, raw } = this.lines;
    const shaped = isAnthropic(target, raw) ? forAnthropic(answer) : answer;
    const cors = this.#cors?.flat;
    this.sendAnswer(cors === undefined ? shaped : { ...shaped, headers: [...shaped.headers, ...cors] }, last);
  }

  /** Whether the request has an exchange, now or before. */
  get opened(): boolean {
    return this.driver?.opened === true;
  }

  /** The client closed its half of the connection, or broke it. @param answer what it still gets, because it broke HTTP */
  clientGone(answer?: BadRequest): void {
    this.driver?.clientGone(answer);
  }

  drained(): void {
    this.needsDrain = false;
    this.driver?.clientDrained();
  }

  expired(): void {
    if (this.driver?.done === false) this.driver.expired();
    else this.giveUp();
  }

  protected watch(ms: number): void {
    this.deadline = this.services.clock.now() + ms;
  }

  /** Answers a request that opens no exchange. */
  #refuse(refusal: BadRequest | Rejection): void {
    const { metrics } = this.services;
    if (refusal instanceof BadRequest) {
      metrics?.badRequest(refusal.slug);
      this.answer(badRequestAnswer(refusal, this.answerId(refusal)), true);
    } else {
      metrics?.badRequest(rejectionSlug(refusal));
      this.answer(rejectionAnswer(refusal, this.answerId(refusal)), !this.requestComplete);
    }
  }
}
