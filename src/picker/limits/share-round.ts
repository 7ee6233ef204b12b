import type { Counter } from "./counter.ts";
import { MINUTE, MOST_USED } from "./meter.ts";

/** What one round tells Redis about one counter. */
export interface Sent {
  readonly round: number;
  readonly requests: number;
  readonly tokens: number;
}

/** What Redis answers about one counter. */
export interface Told {
  readonly requests: number;
  readonly tokens: number;
  readonly inFlight: number;
  readonly gateways: number;
}

/** Arguments and figures of an answer for each counter. */
export const FIGURES = 4;

/**
 * The use of a counter that a round tells: all that was not told. After an outage it is at most what the bucket still holds,
 * because the rest has drained.
 * @param lost a round without an answer, which this one repeats; Redis may or may not have counted it
 */
export function toSend(counter: Counter, lost: Sent | undefined, round: number): Sent {
  if (lost !== undefined)
    return {
      round: lost.round,
      requests: Math.min(lost.requests, counter.requests.used),
      tokens: Math.min(lost.tokens, counter.tokens.used),
    };
  const { unsent } = counter;
  const sent = {
    round,
    requests: Math.min(unsent.requests, counter.requests.used),
    tokens: Math.min(unsent.tokens, counter.tokens.used),
  };
  unsent.requests = 0;
  unsent.tokens = 0;
  return sent;
}

/** The arguments of the script for one counter, as its head lists them. @param counter brought to the present */
export function argumentsFor(counter: Counter, { round, requests, tokens }: Sent): string[] {
  const { requestsPerMinute = 0, tokensPerMinute = 0 } = counter.limits;
  const { unsent } = counter;
  return [
    String(round),
    figure(requests),
    figure(tokens),
    figure(Math.max(0, counter.requests.used - requests - unsent.requests)),
    figure(Math.max(0, counter.tokens.used - tokens - unsent.tokens)),
    String(requestsPerMinute),
    String(tokensPerMinute),
    String(counter.inFlight),
    String(MOST_USED),
  ];
}

/**
 * The sums of all gateways take the place of this gateway's figures. What it has used since it sent them comes on top.
 * @param counter brought to the present
 * @param passed milliseconds since the answer before
 */
export function hear(counter: Counter, told: Told, passed: number): void {
  const { others, unsent, requests, tokens } = counter;
  const request = { now: told.requests + unsent.requests, before: requests.used };
  const token = { now: told.tokens + unsent.tokens, before: tokens.used };
  others.requestRate = rate(others.requestRate, request.now - request.before, passed);
  others.tokenRate = rate(others.tokenRate, token.now - token.before, passed);
  requests.used = Math.max(0, request.now);
  tokens.used = Math.max(0, token.now);
  others.inFlight = told.inFlight;
  others.gateways = told.gateways;
}

/** A mean over the last minute or so. @param more what the others used in `passed` ms */
function rate(before: number, more: number, passed: number): number {
  return before * Math.exp(-passed / MINUTE) + Math.max(0, more) / MINUTE;
}

function figure(value: number): string {
  return value.toFixed(3);
}
