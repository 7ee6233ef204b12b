import type { Clock } from "../../base/clock/clock.ts";
import type { Caller } from "../../base/inference/caller.ts";
import type { HeaderList } from "../../base/inference/headers.ts";
import { Rejection } from "../../base/inference/outcomes.ts";
import type { InferenceRequest } from "../../base/inference/request.ts";
import type { Counter, Excess, LimitKind } from "./counter.ts";
import { Counters, MAX_COUNTERS } from "./counters.ts";
import type { LimitRule } from "./limits-settings.ts";
import { durationText, rateLimitHeaders } from "./rate-limit-headers.ts";
import { clientOf, Rule } from "./rule.ts";
import { promptEstimate } from "./token-estimate.ts";

/** How a request ended, as far as limits are concerned. */
export interface Outcome {
  /** False: Sluice itself refused the request, so it counts as never sent. */
  readonly sent: boolean;
  /** Tokens that the model server reported, or that its answer shows; NaN = nobody knows, so those of the reservation count. */
  readonly promptTokens: number;
  readonly completionTokens: number;
  /** The completion tokens are those of a complete answer, from which the next estimate learns. */
  readonly measured: boolean;
  /** The tokens are a lower bound: those of the reservation count where they are more. */
  readonly atLeast: boolean;
}

/** The right of one request to go on. */
export interface Grant {
  /** The prompt's tokens, as they were estimated. */
  readonly promptTokens: number;
  /** `x-ratelimit-*` as of now. */
  headers(): HeaderList;
  /** The request has ended. Only the first call counts. */
  settle(outcome: Outcome): void;
}

/** A request that is over a limit. It has consumed nothing. */
export interface OverLimit {
  readonly rejection: Rejection;
  /** `x-ratelimit-*`, and when to try again. */
  readonly headers: HeaderList;
}

/** The limits of keys and models, as an exchange uses them. */
export interface Quotas {
  /**
   * @param address of the client, for those without a key: an IPv4 address, or the network of an IPv6 address
   * @returns undefined = no rule is for this request
   */
  admit(request: InferenceRequest, caller: Caller | undefined, address: () => string): Grant | OverLimit | undefined;
}

/** What the counters tell others. */
export interface QuotaEvents {
  /** A counter was used, so the other gateways should hear of it. */
  touched?(counter: Counter): void;
  /** A counter left the table. @param lost its count was not 0, and starts again */
  left?(counter: Counter, lost: boolean): void;
  refused?(rule: string, kind: LimitKind): void;
}

const REASONS = {
  requests: "rate_limited_requests",
  tokens: "rate_limited_tokens",
  "in-flight": "rate_limited_in_flight",
} as const;
const WORDS: Readonly<Record<LimitKind, string>> = {
  requests: "requests per minute",
  tokens: "tokens per minute",
  "in-flight": "requests in flight",
};

/** Limits requests by rules. All rules that match a request apply; of those that it would exceed, the one with the longest wait refuses it. */
export class QuotaTable implements Quotas {
  readonly #clock: Clock;
  readonly #events: QuotaEvents;
  readonly counters: Counters;
  #rules: readonly Rule[] = [];

  constructor(clock: Clock, rules: readonly LimitRule[], events: QuotaEvents = {}, most = MAX_COUNTERS) {
    this.#clock = clock;
    this.#events = events;
    this.counters = new Counters((counter, lost) => events.left?.(counter, lost), most);
    this.useRules(rules);
  }

  get rules(): readonly Rule[] {
    return this.#rules;
  }

  /** Puts other rules in force. Counters of rules that stay keep their counts; requests in flight end at the counters of their start. */
  useRules(rules: readonly LimitRule[]): void {
    this.#rules = rules.map((rule) => new Rule(rule));
  }

  admit(request: InferenceRequest, caller: Caller | undefined, address: () => string): Grant | OverLimit | undefined {
    const counters: Counter[] = [];
    const rules: Rule[] = [];
    let countsTokens = false;
    let client: string | undefined;
    const now = this.#clock.now();
    for (const rule of this.#rules) {
      const { model, targetModel } = request;
      if (!rule.matches(caller, model, targetModel)) continue;
      client ??= clientOf(caller, caller === undefined ? address() : "");
      const named = client;
      const id = rule.counterId(named, targetModel);
      counters.push(
        this.counters.of(id, rule.name, rule.limits, now, counters, () =>
          rule.counterName(caller?.name ?? named, targetModel),
        ),
      );
      rules.push(rule);
      countsTokens ||= rule.limits.tokensPerMinute !== undefined;
    }
    if (counters.length === 0) return undefined;
    const prompt = countsTokens ? promptEstimate(request) : 0;
    const { answers = 1 } = request;
    const reserved: number[] = [];
    let refusal: { readonly excess: Excess; readonly at: number } | undefined;
    for (let i = 0; i < counters.length; i++) {
      const counter = counters[i]!;
      const tokens = countsTokens ? counter.reservation(prompt, request.maxTokens, answers) : 0;
      reserved.push(tokens);
      const excess = counter.excess(tokens, now);
      if (excess === undefined) continue;
      this.#events.touched?.(counter);
      // A client that waits for a shorter one is only refused again.
      if (refusal === undefined || excess.waitMs > refusal.excess.waitMs) refusal = { excess, at: i };
    }
    if (refusal !== undefined) {
      const { excess, at } = refusal;
      this.#events.refused?.(rules[at]!.name, excess.kind);
      for (const counter of counters) counter.drain(now);
      return overLimit(excess, reserved[at]!, counters[at]!.name, rateLimitHeaders(counters));
    }
    for (let i = 0; i < counters.length; i++) {
      const counter = counters[i]!;
      counter.take(reserved[i]!, now);
      this.#events.touched?.(counter);
    }
    return new CountedGrant(this.#clock, this.#events, counters, reserved, prompt, answers);
  }
}

class CountedGrant implements Grant {
  readonly #clock: Clock;
  readonly #events: QuotaEvents;
  readonly #counters: readonly Counter[];
  /** Tokens at each counter. */
  readonly #reserved: readonly number[];
  readonly promptTokens: number;
  readonly #answers: number;
  #settled = false;

  constructor(
    clock: Clock,
    events: QuotaEvents,
    counters: readonly Counter[],
    reserved: readonly number[],
    promptTokens: number,
    answers: number,
  ) {
    this.#clock = clock;
    this.#events = events;
    this.#counters = counters;
    this.#reserved = reserved;
    this.promptTokens = promptTokens;
    this.#answers = answers;
  }

  headers(): HeaderList {
    const now = this.#clock.now();
    for (const counter of this.#counters) counter.drain(now);
    return rateLimitHeaders(this.#counters);
  }

  settle({ sent, promptTokens, completionTokens, measured, atLeast }: Outcome): void {
    if (this.#settled) return;
    this.#settled = true;
    const now = this.#clock.now();
    const tokens = sent ? promptTokens + completionTokens : 0;
    for (let i = 0; i < this.#counters.length; i++) {
      const counter = this.#counters[i]!;
      const more = Number.isNaN(tokens) ? 0 : tokens - this.#reserved[i]!;
      counter.end(sent ? 0 : -1, atLeast ? Math.max(0, more) : more, now);
      if (measured) counter.learn(completionTokens / this.#answers);
      this.#events.touched?.(counter);
    }
  }
}

function overLimit(excess: Excess, tokens: number, counter: string, headers: HeaderList): OverLimit {
  const { kind, limit, used, waitMs } = excess;
  const what = `${limit} ${WORDS[kind]} (${counter})`;
  if (waitMs === Number.POSITIVE_INFINITY) {
    const sentence = `the prompt has about ${tokens} tokens, and the limit is ${what}, so the request never fits; send a shorter prompt`;
    return { rejection: new Rejection("over_token_limit", sentence), headers };
  }
  const count = Math.ceil(used);
  const state =
    kind === "in-flight"
      ? `${count} are in flight`
      : `${count} are used${kind === "tokens" ? `, this request needs ${tokens}` : ""}`;
  const sentence = `the limit of ${what} is reached: ${state}. Please try again in ${durationText(waitMs)}.`;
  headers.add("retry-after-ms", String(Math.max(1, Math.ceil(waitMs))));
  return {
    rejection: new Rejection(REASONS[kind], sentence, sentence, Math.max(1, Math.ceil(waitMs / 1000))),
    headers,
  };
}
