import { type Dispatcher, errors, Pool } from "undici";
import { realClock } from "../../src/base/clock/real.ts";
import { connector } from "../../src/base/grpc/server-connector.ts";
import {
  RequestRefused,
  type UpstreamHandler,
  type UpstreamRequest,
  type UpstreamTransport,
} from "../../src/wires/proxy/upstream/transport.ts";

/** Turns the events of undici into those of the port. */
class UndiciHandler implements Dispatcher.DispatchHandler {
  readonly #to: UpstreamHandler;

  constructor(to: UpstreamHandler) {
    this.#to = to;
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#to.onRequestStart({
      pause: () => controller.pause(),
      resume: () => controller.resume(),
      abort: (reason) => controller.abort(reason),
      // undici cannot stop behind a piece.
      rest: () => controller.pause(),
      wake: () => controller.resume(),
    });
  }

  onRequestSent(): void {
    this.#to.onRequestSent();
  }

  onResponseStarted(): void {
    this.#to.onResponseStarted();
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number): void {
    if (status < 200) return;
    this.#to.onResponseStart(
      status,
      (controller.rawHeaders as Buffer[]).map((bytes) => bytes.toString("latin1")),
    );
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#to.onResponseData(chunk, 1);
  }

  onResponseEnd(): void {
    this.#to.onResponseEnd();
  }

  onResponseError(_controller: Dispatcher.DispatchController | null, error: Error): void {
    const refused = error instanceof errors.InvalidArgumentError || error instanceof errors.NotSupportedError;
    this.#to.onResponseError(refused ? new RequestRefused(error.message) : error);
  }
}

/**
 * The transport of the gateway over undici's pool: the other implementation of the port, and the oracle of its tests.
 * @param headerBytes bytes of all header names and values of an answer
 */
export function undiciTransport(hostPort: string, headerBytes: number): UpstreamTransport {
  const pool = new Pool(`http://${hostPort}`, {
    connect: connector({ clock: realClock, timeout: 60_000 }),
    keepAliveTimeout: 60_000,
    keepAliveMaxTimeout: 60_000,
    headersTimeout: 0,
    bodyTimeout: 0,
    maxHeaderSize: headerBytes,
    pipelining: 1,
    allowH2: false,
  });
  return {
    dispatch(request: UpstreamRequest, handler) {
      const options = { ...request, headers: [...request.headers] } as unknown as Dispatcher.DispatchOptions;
      pool.dispatch(options, new UndiciHandler(handler));
    },
    close: () => void pool.close(),
    destroy: () => pool.destroy(),
  };
}
