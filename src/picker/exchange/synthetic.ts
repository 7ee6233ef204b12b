import type { Clock } from "../../base/clock/clock.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import type { Exchange, Wire } from "./wire.ts";

/** An exchange that the process makes up to warm its code. */
export interface SyntheticExchange {
  /** One character per byte; `:path` is among them. */
  readonly headers: readonly (readonly [string, string])[];
  readonly body: Buffer;
  readonly answerType: string;
  /** The chunks of the answer, one or more. */
  readonly answer: readonly Buffer[];
}

/**
 * Plays synthetic exchanges the way a wire does, and resolves when the last one has ended.
 * @param openExchange opens them in a core that serves nothing else
 */
export type PlayExchanges = (
  openExchange: (wire: Wire) => Exchange,
  exchanges: Iterable<SyntheticExchange>,
) => Promise<void>;

/** Bytes of requests between two turns of the event loop, so that other work of a start runs in between. */
const TURN_BYTES = 64 * 1024;

const NO_WIRE: Wire = { pauseRequest() {}, resumeRequest() {}, evict() {} };

/** Plays exchanges without a wire. */
export function withoutWire(clock: Clock): PlayExchanges {
  return async (openExchange, exchanges) => {
    let bytes = 0;
    for (const synthetic of exchanges) {
      play(openExchange(NO_WIRE), synthetic);
      bytes += synthetic.body.length;
      if (bytes < TURN_BYTES) continue;
      bytes = 0;
      await new Promise<void>((resolve) => clock.soon(resolve));
    }
  };
}

function play(exchange: Exchange, { headers, body, answerType, answer }: SyntheticExchange): void {
  exchange.requestHeaders(HeaderList.of(headers), false);
  const decision = exchange.requestBody(body, true);
  if (decision instanceof Rejection) {
    exchange.end("rejected", decision);
    return;
  }
  exchange.releaseBody();
  exchange.responseHeaders(200, HeaderList.of([["content-type", answerType]]), false);
  for (const [at, chunk] of answer.entries()) exchange.responseBody(chunk, at + 1 === answer.length);
}
