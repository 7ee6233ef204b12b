import { Client, type Dispatcher } from "undici";
import type { Clock } from "../../base/clock/clock.ts";
import { connector } from "../../base/grpc/server-connector.ts";
import type { ServerTls } from "../../base/grpc/server-tls.ts";
import { hostPort } from "../../base/inference/endpoint.ts";
import type { PoolEndpoint } from "./pool-endpoint.ts";
import { modelsIn, type ServedModels } from "./served-models.ts";

/** The largest answer that is read, bytes. */
export const MAX_ANSWER_BYTES = 1024 * 1024;
/** The most pieces of one answer that are kept: to exceed it, a server must send less than about 256 bytes at a time. */
const MAX_PIECES = 4096;
/** Where model servers list their models. */
export const MODELS_PATH = "/v1/models";

const REQUEST: Dispatcher.DispatchOptions = {
  path: MODELS_PATH,
  method: "GET",
  headers: ["accept", "application/json", "user-agent", "sluice"],
  reset: true,
};

/** The result of one question. `silent`: there was no answer in HTTP, which says nothing about the models. */
export type ModelAnswer =
  | { readonly kind: "listed"; readonly models: ServedModels }
  | { readonly kind: "unusable"; readonly problem: string }
  | { readonly kind: "silent" };

/** A question under way. */
export interface ModelQuestion {
  /** Drops the connection; there will be no answer any more. */
  cancel(): void;
}

/** Milliseconds for a connection with TLS; the time of the caller for the whole question is shorter. */
const CONNECT_TIMEOUT = 10_000;

/**
 * Asks one model server over a connection of its own.
 * @param tls undefined = no endpoint speaks TLS
 * @param done called once, unless the question is cancelled, and never before this function has returned
 */
export function askForModels(
  clock: Clock,
  endpoint: PoolEndpoint,
  tls: ServerTls | undefined,
  done: (answer: ModelAnswer) => void,
): ModelQuestion {
  try {
    const client = new Client(`http://${hostPort(endpoint.address, endpoint.port)}`, {
      ...(tls?.secures(endpoint) === true ? { connect: connector({ clock, timeout: CONNECT_TIMEOUT, tls }) } : {}),
      // The caller's timeout is the only one.
      headersTimeout: 0,
      bodyTimeout: 0,
    });
    const answer = new AnswerReader(client, done);
    client.dispatch(REQUEST, answer);
    return answer;
  } catch {
    // An address that makes no URL, from a source without checks.
    const timer = clock.after(0, () => done({ kind: "silent" }));
    return timer;
  }
}

class AnswerReader implements Dispatcher.DispatchHandler, ModelQuestion {
  readonly #client: Client;
  /** Undefined after the answer or the cancel. */
  #done: ((answer: ModelAnswer) => void) | undefined;
  #pieces: Buffer[] = [];
  #size = 0;

  constructor(client: Client, done: (answer: ModelAnswer) => void) {
    this.#client = client;
    this.#done = done;
  }

  cancel(): void {
    this.#done = undefined;
    this.#pieces = [];
    void this.#client.destroy();
  }

  onRequestStart(): void {}

  onResponseStart(_controller: Dispatcher.DispatchController, status: number): void {
    if (status > 200) this.#finish({ kind: "unusable", problem: `HTTP ${status} from ${MODELS_PATH}` });
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#done === undefined) return;
    this.#size += chunk.length;
    if (this.#size > MAX_ANSWER_BYTES || this.#pieces.length === MAX_PIECES) {
      const problem = `the answer has more than ${MAX_ANSWER_BYTES} bytes or ${MAX_PIECES} chunks`;
      this.#finish({ kind: "unusable", problem });
    } else this.#pieces.push(chunk);
  }

  onResponseEnd(): void {
    if (this.#done === undefined) return;
    const models = modelsIn(Buffer.concat(this.#pieces).toString("utf8"));
    this.#finish(typeof models === "string" ? { kind: "unusable", problem: models } : { kind: "listed", models });
  }

  onResponseError(): void {
    this.#finish({ kind: "silent" });
  }

  #finish(answer: ModelAnswer): void {
    const done = this.#done;
    this.cancel();
    done?.(answer);
  }
}
