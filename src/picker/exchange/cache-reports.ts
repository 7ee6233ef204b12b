import type { CacheReport } from "../../base/inference/cache-report.ts";
import type { RecordedCache } from "../../base/inference/decision-record.ts";
import type { Endpoint } from "../../base/inference/endpoint.ts";
import { LabelGuard } from "../../base/telemetry/label-guard.ts";
import type { Metrics } from "../../base/telemetry/names.ts";
import type { Attempts } from "./attempts.ts";
import type { ResponseObserver } from "./response-observer.ts";

/** The most distinct model names in labels, for the life of the process (scheduling 8.1). */
const MAX_NAMES = 1000;
/** The most forms of answers of one endpoint that are told apart, and the characters of a path that count. Clients choose paths. */
const MAX_FORMS = 16;
const MAX_PATH = 64;

/** How an endpoint reports cached tokens. */
interface Reporter {
  /** The forms of answers in which it has reported some. */
  readonly forms: Set<string>;
  /** It has written down a 0. */
  writesZero: boolean;
}

/** An exchange whose answer may say what its endpoint had cached. */
interface Answered {
  readonly attempts: Attempts;
  /** Complete. */
  readonly response: ResponseObserver;
  /** Of the request. */
  readonly path: string;
  readonly streaming: boolean;
}

/**
 * Reads from answers how many tokens of a prompt the endpoint had in its cache. Compares that with what the decision expected, and
 * tells the producers.
 *
 * A missing count is not a 0: many servers report none. But vLLM and SGLang leave out a count of 0 and write down every other. So a
 * missing count is a 0 where the endpoint has reported tokens in answers of the same form, and has never written down a 0.
 */
export class CacheReports {
  readonly #metrics: Metrics;
  readonly #models: LabelGuard;
  readonly #reporters = new WeakMap<Endpoint, Reporter>();

  /** @param models bounds the names that clients choose */
  constructor(metrics: Metrics, models = new LabelGuard(MAX_NAMES)) {
    this.#metrics = metrics;
    this.#models = models;
  }

  /** Takes a complete answer. Call it once for each. @returns what producers may learn; undefined = nothing */
  take({ attempts, response, path, streaming }: Answered): CacheReport | undefined {
    const { usage } = response;
    if (usage === undefined || !response.succeeded || !(usage.promptTokens > 0)) return undefined;
    const reporter = this.#of(attempts.current);
    const cachedTokens = cachedIn(reporter, usage.cachedTokens, `${path.slice(0, MAX_PATH)} ${streaming}`);
    if (Number.isNaN(cachedTokens)) return undefined;
    // Anthropic's API leaves cached tokens out of the input tokens.
    const isLeftOut = cachedTokens > usage.promptTokens;
    const promptTokens = isLeftOut ? usage.promptTokens + cachedTokens : usage.promptTokens;
    if (isLeftOut && !path.endsWith("/messages")) return undefined;
    const { record } = attempts;
    if (record?.cache !== undefined) {
      record.cache.reported = cachedTokens;
      record.cache.prompt = promptTokens;
      this.#count(record.cache, this.#models.admit(record.targetModel));
    }
    // A server that has never reported a cached token may not count them at all.
    return reporter.forms.size > 0 ? { promptTokens, cachedTokens } : undefined;
  }

  #count({ predicted, events, reported, prompt }: RecordedCache, model: string): void {
    const tokens = this.#metrics.prefixCacheTokensTotal;
    tokens.with(model, "prompt").inc(prompt);
    tokens.with(model, "reported").inc(reported);
    for (const [by, expected] of [
      ["predicted", predicted],
      ["events", events],
    ] as const) {
      if (Number.isNaN(expected)) continue;
      // An estimate of the tokens may be longer than the prompt.
      const most = Math.min(expected, prompt);
      tokens.with(model, by).inc(most);
      this.#metrics.prefixCacheError.with(model, by).observe((most - reported) / prompt);
    }
  }

  #of(endpoint: Endpoint): Reporter {
    let reporter = this.#reporters.get(endpoint);
    if (reporter === undefined) {
      reporter = { forms: new Set(), writesZero: false };
      this.#reporters.set(endpoint, reporter);
    }
    return reporter;
  }
}

/** @param cached as the answer says it; NaN = it does not @returns NaN = unknown */
function cachedIn(reporter: Reporter, cached: number, form: string): number {
  const { forms } = reporter;
  if (cached > 0 && forms.size < MAX_FORMS) forms.add(form);
  if (cached === 0) reporter.writesZero = true;
  if (!Number.isNaN(cached)) return cached;
  return forms.has(form) && !reporter.writesZero ? 0 : Number.NaN;
}
