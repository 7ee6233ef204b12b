import type { Caller } from "../../base/inference/caller.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import { type BadRequest, BODY_TIMEOUT } from "./bad-request.ts";
import type { ClientSide } from "./client-side.ts";
import { badRequestAnswer, rejectionAnswer } from "./local-answer.ts";
import type { LocalService } from "./local-service.ts";
import type { RequestDriver } from "./request-driver.ts";
import type { HttpRequestHead } from "./request-head.ts";
import type { ProxyServices } from "./services.ts";
import { UploadPace } from "./upload-pace.ts";

/** Bytes of a body that may wait for the service. */
const AHEAD = 256 * 1024;
/** Bytes of the longest answer to a request that has not arrived completely. */
const SHORT_ANSWER = 64 * 1024;
/** The headers of a request that a service gets: nothing that proves who sends it. */
const PASSED: readonly string[] = ["content-type", "content-length", "accept"];

/** The state of the answer. `gone`: the client has left, or was cut. */
type Phase = "waiting" | "answering" | "done" | "gone";

/** Passes one request to a service of the gateway, and its answer back, both as streams. */
export class LocalDriver implements RequestDriver {
  readonly opened = false;
  readonly #services: ProxyServices;
  readonly #service: LocalService;
  readonly #client: ClientSide;
  readonly #head: HttpRequestHead;
  readonly #caller: Caller | undefined;
  #phase: Phase = "waiting";
  #body: ReadableStreamDefaultController<Uint8Array> | undefined;
  #pace: UploadPace | undefined;
  #received = 0;
  #held = false;
  #drained: (() => void) | undefined;

  constructor(
    services: ProxyServices,
    service: LocalService,
    client: ClientSide,
    head: HttpRequestHead,
    caller: Caller | undefined,
  ) {
    this.#services = services;
    this.#service = service;
    this.#client = client;
    this.#head = head;
    this.#caller = caller;
  }

  get done(): boolean {
    return this.#phase === "done" || this.#phase === "gone";
  }

  start(expectsContinue: boolean): void {
    const { timers, limits } = this.#services;
    this.#client.deadline = this.#in(timers.responseIdle);
    const body = this.#head.end ? undefined : this.#bodyStream();
    if (body !== undefined) {
      this.#pace = new UploadPace(timers.bodyIdle, limits.uploadRate, this.#in(0));
      this.#client.deadline = this.#in(timers.bodyIdle);
      if (expectsContinue) this.#client.sendContinue();
    }
    this.#answer(body).catch((error: unknown) => {
      this.#services.onError(error);
      this.#fail();
    });
  }

  requestChunk(chunk: Buffer): void {
    if (this.#body === undefined) return;
    this.#received += chunk.length;
    if (this.#phase === "waiting") this.#client.deadline = this.#pace!.due(this.#in(0), this.#received);
    this.#body.enqueue(chunk);
    if (this.#held || (this.#body.desiredSize ?? 0) > 0) return;
    this.#held = true;
    this.#pace!.hold(this.#in(0));
    // The service is slow, which is no fault of the client.
    if (this.#phase === "waiting") this.#client.deadline = this.#in(this.#services.timers.responseIdle);
    this.#client.pauseRequest();
  }

  requestEnd(last?: Buffer): void {
    if (last !== undefined) this.requestChunk(last);
    const body = this.#body;
    this.#body = undefined;
    if (this.#phase === "waiting") this.#client.deadline = this.#in(this.#services.timers.responseIdle);
    body?.close();
  }

  clientGone(_answer?: BadRequest): void {
    if (this.done) return;
    this.#phase = "gone";
    this.#endBody();
    this.#drained?.();
  }

  clientDrained(): void {
    this.#drained?.();
  }

  expired(): void {
    if (this.#phase === "waiting" && this.#body !== undefined && !this.#held) {
      this.#phase = "done";
      this.#endBody();
      this.#client.answer(badRequestAnswer(BODY_TIMEOUT, this.#client.requestId), true);
      return;
    }
    this.#fail();
  }

  async #answer(body: ReadableStream<Uint8Array> | undefined): Promise<void> {
    const { method, path, headers } = this.#head;
    const passed = PASSED.flatMap((name): [string, string][] => {
      const value = headers.get(name);
      return value === undefined ? [] : [[name, value]];
    });
    const hasBody = body !== undefined && method !== "GET" && method !== "HEAD";
    // The name of the host plays no part.
    const request = new Request(new URL(path, "http://gateway"), {
      ...{ method, headers: passed },
      ...(hasBody ? { body, duplex: "half" } : {}),
    } as RequestInit);
    const response = await this.#service.answer(request, this.#caller);
    if (this.done) {
      await response.body?.cancel();
      return;
    }
    if (this.#client.requestComplete) await this.#stream(response);
    else await this.#short(response);
  }

  /** Answers a request whose body the service has not read to its end: a refusal. */
  async #short(response: Response): Promise<void> {
    const pieces: Uint8Array[] = [];
    let size = 0;
    if (response.body !== null)
      for await (const piece of response.body as AsyncIterable<Uint8Array>) {
        size += piece.length;
        if (size > SHORT_ANSWER) break;
        pieces.push(piece);
      }
    if (this.done) return;
    this.#phase = "done";
    this.#endBody();
    const bytes = Buffer.concat(pieces);
    const others = [...response.headers].filter(([name]) => name !== "content-length");
    const headers = [...others.flat(), "content-length", String(bytes.length)];
    this.#client.answer({ status: response.status, headers, body: bytes }, true);
  }

  async #stream(response: Response): Promise<void> {
    this.#phase = "answering";
    const headers = HeaderList.of(response.headers);
    const length = response.headers.get("content-length");
    const bodyless = this.#head.method === "HEAD" || response.body === null;
    const contentLength = length === null ? -1 : Number(length);
    this.#client.writeHead({ status: response.status, headers, contentLength, eventStream: false }, bodyless);
    if (!bodyless)
      for await (const piece of response.body as AsyncIterable<Uint8Array>) {
        if (this.done) return;
        this.#client.deadline = this.#in(this.#services.timers.responseIdle);
        if (!this.#client.write(piece)) await this.#drain();
        if (this.done) return;
      }
    else await response.body?.cancel();
    this.#phase = "done";
    this.#client.end();
  }

  /** Waits until the client has read, or is gone. */
  #drain(): Promise<void> {
    this.#client.deadline = this.#in(this.#services.timers.clientStalled);
    return new Promise((resolve) => {
      this.#drained = () => {
        this.#drained = undefined;
        resolve();
      };
    });
  }

  #bodyStream(): ReadableStream<Uint8Array> {
    return new ReadableStream(
      {
        start: (controller) => {
          this.#body = controller;
        },
        pull: () => {
          if (!this.#held) return;
          this.#held = false;
          const now = this.#in(0);
          this.#pace!.resume(now);
          if (this.#phase === "waiting") this.#client.deadline = this.#pace!.due(now, this.#received);
          this.#client.resumeRequest();
        },
        // The service wants no more; the answer says why.
        cancel: () => {
          this.#body = undefined;
        },
      },
      { highWaterMark: AHEAD, size: (piece) => piece.length },
    );
  }

  #endBody(): void {
    this.#body?.error(new Error("the request broke off"));
    this.#body = undefined;
  }

  /** The service failed, or one side is silent. */
  #fail(): void {
    if (this.done) return;
    const answered = this.#phase === "answering";
    this.#phase = "gone";
    this.#endBody();
    this.#drained?.();
    if (answered || this.#client.headWritten) this.#client.cut();
    else
      this.#client.answer(
        rejectionAnswer(new Rejection("internal", "the service of the gateway failed"), this.#client.requestId),
        !this.#client.requestComplete,
      );
  }

  #in(ms: number): number {
    return this.#services.clock.now() + ms;
  }
}
