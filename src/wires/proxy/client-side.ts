import type { LocalAnswer } from "./local-answer.ts";
import type { ResponseHead } from "./response-head.ts";

/** The client's side of one exchange: the source of its request and the destination of its answer. */
export interface ClientSide {
  /** Time at which the exchange is given up unless something happens; monotonic milliseconds. */
  deadline: number;
  /** The client has the status line of an answer, or will have it before anything else. */
  readonly headWritten: boolean;
  /** The client has not yet read all written bytes; `clientDrained` follows. */
  readonly needsDrain: boolean;
  /** `x-request-id` of the client; without it a new id on each read. */
  readonly requestId: string;
  /** IP address at the other end of the connection. */
  readonly peer: string;
  /** Whether the request has arrived completely. */
  readonly requestComplete: boolean;
  sendContinue(): void;
  pauseRequest(): void;
  resumeRequest(): void;
  /** The head of the model server's answer. */
  writeHead(head: ResponseHead, bodyless: boolean): void;
  /** @returns false: the caller must wait for `clientDrained` */
  write(bytes: Uint8Array): boolean;
  /** The answer is complete. */
  end(): void;
  /** The answer will never be complete. The connection ends, so the client notices. */
  cut(): void;
  /** An answer of the proxy. @param last the connection ends with it */
  answer(answer: LocalAnswer, last: boolean): void;
}
