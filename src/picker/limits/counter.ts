import { drain, fill, type Meter, MINUTE, waitFor } from "./meter.ts";

/** What a rule limits. */
export type LimitKind = "requests" | "tokens" | "in-flight";

/** The limits of one rule; undefined = none of this kind. */
export interface LimitAmounts {
  readonly requestsPerMinute?: number | undefined;
  readonly tokensPerMinute?: number | undefined;
  readonly inFlight?: number | undefined;
}

/** The limit that a request would exceed. */
export interface Excess {
  readonly kind: LimitKind;
  readonly limit: number;
  readonly used: number;
  /** Milliseconds until the request fits, for requests in flight a guess; Infinity = it never fits. */
  readonly waitMs: number;
}

/** Milliseconds after which a client may ask again while it has too many requests in flight: nobody knows when one ends. */
const IN_FLIGHT_RETRY = 1000;

/** Tokens of an answer before one is known. */
const FIRST_ANSWER = 256;
/** How many answers the mean remembers. */
const MEMORY = 64;

/**
 * What the other gateways use, as Redis last told. `Infinity` and the like do not occur: a counter that is not shared has
 * one gateway and no others.
 */
export interface OtherGateways {
  /** Gateways that use this counter, this one included; at least 1. */
  gateways: number;
  inFlight: number;
  /** Their use in a millisecond, averaged over a minute. */
  requestRate: number;
  tokenRate: number;
}

/** The counts of one rule for one key and one model. It knows no clock and no Redis: each call names the time. */
export class Counter {
  /** Unique among the counters of all gateways. */
  readonly id: string;
  /** The rule, and the key and the model for people. */
  readonly name: string;
  readonly rule: string;
  /** Those of the rule that made or last used it. */
  limits: LimitAmounts;
  readonly requests: Meter;
  readonly tokens: Meter;
  /** Requests of this gateway that have not ended. */
  inFlight = 0;
  readonly others: OtherGateways = { gateways: 1, inFlight: 0, requestRate: 0, tokenRate: 0 };
  /** The others cannot be heard: their last known use counts on. */
  deaf = false;
  /** Use that the other gateways do not know yet. */
  readonly unsent = { requests: 0, tokens: 0 };
  /** Monotonic ms of the last request. */
  touchedAt: number;
  #answer = FIRST_ANSWER;

  constructor(id: string, rule: string, name: string, limits: LimitAmounts, now: number) {
    this.id = id;
    this.rule = rule;
    this.name = name;
    this.limits = limits;
    this.requests = { used: 0, at: now };
    this.tokens = { used: 0, at: now };
    this.touchedAt = now;
  }

  /** The limit that one more request would exceed, and how long until it fits; of several, the longest wait. Undefined = it fits. */
  excess(tokens: number, now: number): Excess | undefined {
    this.drain(now);
    const { requestsPerMinute, tokensPerMinute, inFlight } = this.limits;
    // Before the others: who never fits must not be told to wait.
    if (tokensPerMinute !== undefined && tokens > tokensPerMinute)
      return { kind: "tokens", limit: tokensPerMinute, used: this.tokens.used, waitMs: Number.POSITIVE_INFINITY };
    let longest: Excess | undefined;
    if (inFlight !== undefined && this.inFlight >= this.#inFlightRoom(inFlight)) {
      const used = this.inFlight + this.others.inFlight;
      longest = { kind: "in-flight", limit: inFlight, used, waitMs: IN_FLIGHT_RETRY };
    }
    if (requestsPerMinute !== undefined) {
      const waitMs = waitFor(
        this.requests,
        1,
        requestsPerMinute,
        this.#rate(requestsPerMinute, this.others.requestRate),
      );
      if (waitMs > (longest?.waitMs ?? 0))
        longest = { kind: "requests", limit: requestsPerMinute, used: this.requests.used, waitMs };
    }
    if (tokensPerMinute === undefined) return longest;
    const waitMs = waitFor(this.tokens, tokens, tokensPerMinute, this.#rate(tokensPerMinute, this.others.tokenRate));
    return waitMs > (longest?.waitMs ?? 0)
      ? { kind: "tokens", limit: tokensPerMinute, used: this.tokens.used, waitMs }
      : longest;
  }

  /**
   * The tokens that a request reserves: those of its prompt, and those that answers usually have. The guess alone never makes a
   * request too large for the limit.
   * @param most tokens that the request allows for one answer; NaN = any number
   * @param answers that it asks for
   */
  reservation(prompt: number, most: number, answers: number): number {
    const whole = prompt + answers * (most < this.#answer ? most : this.#answer);
    return Math.max(prompt, Math.min(whole, this.limits.tokensPerMinute ?? whole));
  }

  /** Counts one request that `excess` lets pass. */
  take(tokens: number, now: number): void {
    this.inFlight++;
    this.touchedAt = now;
    this.#use(1, tokens);
  }

  /** One request has ended. @param requests 0, or -1 where it counts as never sent @param tokens beside those of its reservation */
  end(requests: number, tokens: number, now: number): void {
    this.inFlight--;
    this.drain(now);
    this.#use(requests, tokens);
  }

  /** @param completionTokens of one answer */
  learn(completionTokens: number): void {
    this.#answer += (completionTokens - this.#answer) / MEMORY;
  }

  /** Brings both buckets to the present. */
  drain(now: number): void {
    const { requestsPerMinute = 0, tokensPerMinute = 0 } = this.limits;
    drain(this.requests, this.#rate(requestsPerMinute, this.others.requestRate), now);
    drain(this.tokens, this.#rate(tokensPerMinute, this.others.tokenRate), now);
  }

  /** What is used of one limit, by all gateways. */
  usedOf(kind: LimitKind): number {
    return kind === "in-flight" ? this.inFlight + this.others.inFlight : this[kind].used;
  }

  /** Whether to forget the counter changes nothing. */
  get idle(): boolean {
    return this.inFlight === 0 && this.requests.used === 0 && this.tokens.used === 0;
  }

  /** The largest used share of its limits, 0 to 1 and above. */
  get share(): number {
    const { requestsPerMinute, tokensPerMinute, inFlight } = this.limits;
    return Math.max(
      requestsPerMinute === undefined ? 0 : this.requests.used / requestsPerMinute,
      tokensPerMinute === undefined ? 0 : this.tokens.used / tokensPerMinute,
      inFlight === undefined ? 0 : (this.inFlight + this.others.inFlight) / inFlight,
    );
  }

  #use(requests: number, tokens: number): void {
    const { requestsPerMinute, tokensPerMinute } = this.limits;
    if (requestsPerMinute !== undefined) this.unsent.requests += fill(this.requests, requests, requestsPerMinute);
    if (tokensPerMinute !== undefined) this.unsent.tokens += fill(this.tokens, tokens, tokensPerMinute);
  }

  /** What drains in a millisecond. While the others cannot be heard, they are taken to use on what they used before. */
  #rate(limit: number, othersRate: number): number {
    const whole = limit / MINUTE;
    return this.deaf ? Math.max(whole - othersRate, whole / this.others.gateways) : whole;
  }

  /** The requests that this gateway may have in flight. */
  #inFlightRoom(limit: number): number {
    const { gateways, inFlight } = this.others;
    // Others that are not heard may be dead: an equal part is always this gateway's own.
    return this.deaf ? Math.max(limit - inFlight, Math.ceil(limit / gateways)) : limit - inFlight;
  }
}
