import type { Clock } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import { fileSignature } from "../../base/document/folder-watch.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import type { Metrics } from "../../base/telemetry/names.ts";
import type { MetricsRegistry } from "../../base/telemetry/registry.ts";
import type { Counter, LimitKind } from "./counter.ts";
import { followLimits, readLimits } from "./limits-file.ts";
import type { LimitRule, LimitsSettings } from "./limits-settings.ts";
import { type LimitsView, limitsView } from "./limits-view.ts";
import { type Quotas, QuotaTable } from "./quotas.ts";
import { SharedLimits } from "./shared-limits.ts";

/** Where limits come from. */
export interface LimitsSource {
  /** Followed for changes. */
  readonly file?: string | undefined;
  /** In place of a file: those of gateway.yaml. */
  readonly settings?: LimitsSettings | undefined;
  /** URL of Redis; it wins over the one of the file or the settings. */
  readonly redis?: string | undefined;
}

interface LimitsParts {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
}

/** The limits of a gateway, from their file to their metrics. */
export class Limits {
  readonly #parts: LimitsParts;
  readonly #table: QuotaTable;
  readonly #shared: SharedLimits | undefined;
  readonly #redis: string | undefined;
  #file: { readonly path: string; readonly seen: string } | undefined;
  #metrics: Metrics | undefined;
  readonly #stops: (() => void)[] = [];

  private constructor(parts: LimitsParts, rules: readonly LimitRule[], redis: string | undefined) {
    this.#parts = parts;
    this.#redis = redis;
    this.#table = new QuotaTable(parts.clock, rules, {
      touched: (counter) => this.#shared?.touched(counter),
      left: (counter, lost) => this.#left(counter, lost),
      refused: (rule, kind) => this.#refused(rule, kind),
    });
    this.#shared = redis === undefined ? undefined : new SharedLimits(redis, parts);
  }

  /** @throws SluiceError for a fault in the file or the URL of Redis */
  static async open(source: LimitsSource, parts: LimitsParts): Promise<Limits> {
    const { file } = source;
    const seen = file === undefined ? "" : await fileSignature(file);
    const { rules = [], redis } = (file === undefined ? source.settings : await readLimits(file)) ?? {};
    const limits = new Limits(parts, rules, source.redis ?? redis);
    if (file !== undefined) limits.#file = { path: file, seen };
    if (source.redis !== undefined && redis !== undefined && redis !== source.redis)
      parts.log.warn({ file }, "--limits-redis names another Redis than the limits file; the flag counts");
    return limits;
  }

  get quotas(): Quotas {
    return this.#table;
  }

  /** Puts changed settings in force: the rules at once, another Redis at the next start of the process. */
  use({ rules, redis }: LimitsSettings): void {
    this.#table.useRules(rules);
    this.#nameRules();
    if (redis !== undefined && redis !== this.#redis)
      this.#parts.log.warn({}, "another Redis for limits takes effect at the next start of the process");
  }

  /** Shows the figures on the page of metrics, and follows the file. */
  async start(metrics: Metrics, registry: MetricsRegistry): Promise<void> {
    this.#metrics = metrics;
    this.#nameRules();
    const broken = metrics.limitsFileRefused.with();
    broken.set(0);
    this.#stops.push(registry.onRender(() => this.#show(metrics)));
    if (this.#file === undefined) return;
    const { clock, log } = this.#parts;
    const stop = await followLimits({
      file: this.#file.path,
      seen: this.#file.seen,
      clock,
      log,
      use: (settings) => this.use(settings),
      refused: (is) => broken.set(is ? 1 : 0),
    });
    this.#stops.push(stop);
  }

  /** Stops following and sharing. The limits stay in force. */
  close(): void {
    for (const stop of this.#stops.splice(0)) stop();
    this.#shared?.close();
  }

  /** The state of all rules, for people. */
  view(): LimitsView {
    const { rules, counters } = this.#table;
    const sharing = this.#shared && { server: this.#shared.server, hears: this.#shared.hears };
    return limitsView(rules, counters, sharing, this.#parts.clock.now());
  }

  #left(counter: Counter, lost: boolean): void {
    this.#shared?.left(counter);
    if (lost) this.#metrics?.limitCountersLostTotal.with().inc();
  }

  #refused(rule: string, kind: LimitKind): void {
    this.#metrics?.limitRefusedTotal.with(rule, kind).inc();
  }

  /** Each rule has its counters from the start: an alert on an absent counter never fires. */
  #nameRules(): void {
    const metrics = this.#metrics;
    if (metrics === undefined) return;
    metrics.limit.clear();
    for (const { name, limits } of this.#table.rules)
      for (const [kind, amount] of kindsOf(limits)) {
        metrics.limit.with(name, kind).set(amount);
        metrics.limitRefusedTotal.with(name, kind);
      }
    metrics.limitCountersLostTotal.with();
  }

  #show(metrics: Metrics): void {
    const now = this.#parts.clock.now();
    metrics.limitCounters.with().set(this.#table.counters.size);
    if (this.#shared !== undefined) metrics.limitsShared.with(this.#shared.server).set(this.#shared.hears ? 1 : 0);
    metrics.limitUsed.clear();
    for (const { name, limits } of this.#table.rules)
      for (const [kind] of kindsOf(limits)) metrics.limitUsed.with(name, kind).set(0);
    const known = new Set(this.#table.rules.map(({ name }) => name));
    for (const counter of this.#table.counters.values()) {
      if (!known.has(counter.rule)) continue;
      counter.drain(now);
      for (const [kind] of kindsOf(counter.limits)) {
        const gauge = metrics.limitUsed.with(counter.rule, kind);
        gauge.set(Math.max(gauge.value, counter.usedOf(kind)));
      }
    }
  }
}

function kindsOf({ requestsPerMinute, tokensPerMinute, inFlight }: Counter["limits"]): [LimitKind, number][] {
  const kinds: [LimitKind, number][] = [];
  if (requestsPerMinute !== undefined) kinds.push(["requests", requestsPerMinute]);
  if (tokensPerMinute !== undefined) kinds.push(["tokens", tokensPerMinute]);
  if (inFlight !== undefined) kinds.push(["in-flight", inFlight]);
  return kinds;
}
