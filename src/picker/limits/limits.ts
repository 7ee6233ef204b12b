import type { Clock } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import { fileSignature } from "../../base/document/folder-watch.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import type { Metrics } from "../../base/telemetry/names.ts";
import type { MetricsRegistry } from "../../base/telemetry/registry.ts";
import type { Counter, LimitKind } from "./counter.ts";
import { followLimits, readLimits } from "./limits-file.ts";
import type { LimitRule, LimitsSettings } from "./limits-settings.ts";
import { type LimitsStore, type LimitsStoreSource, limitsStore } from "./limits-store.ts";
import { type LimitsView, limitsView } from "./limits-view.ts";
import { type Quotas, QuotaTable } from "./quotas.ts";
import type { SharedLimits } from "./shared-limits.ts";

/** Where limits come from. */
export interface LimitsSource extends LimitsStoreSource {
  /** Followed for changes. */
  readonly file?: string | undefined;
  /** In place of a file: those of gateway.yaml. */
  readonly settings?: LimitsSettings | undefined;
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
  /** The URL that names a Redis for limits alone. */
  readonly #redis: string | undefined;
  #file: { readonly path: string; readonly seen: string } | undefined;
  #metrics: Metrics | undefined;
  readonly #stops: (() => void)[] = [];
  #stopFollowing: () => void = () => {};
  #closed = false;

  private constructor(
    parts: LimitsParts,
    rules: readonly LimitRule[],
    redis: string | undefined,
    shared: SharedLimits | undefined,
  ) {
    this.#parts = parts;
    this.#redis = redis;
    this.#shared = shared;
    this.#table = new QuotaTable(parts.clock, rules, {
      touched: (counter) => this.#shared?.touched(counter),
      left: (counter, lost) => this.#left(counter, lost),
      refused: (rule, kind) => this.#refused(rule, kind),
    });
  }

  /** @throws SluiceError for a fault in the file, the URL of Redis or its certificates */
  static async open(source: LimitsSource, parts: LimitsParts): Promise<Limits> {
    const { file } = source;
    const { seen, rules, redis } = await rulesOf(source);
    const store = limitsStore(source, redis);
    const shared = store && (await sharedAt(store, parts));
    const limits = new Limits(parts, rules, source.redis ?? redis, shared);
    if (file !== undefined) limits.#file = { path: file, seen };
    if (source.redis !== undefined && redis !== undefined && redis !== source.redis)
      parts.log.warn(
        { file },
        "limits.redis (--limits-redis) and the limits file name different Redis servers; the gateway uses limits.redis",
      );
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
      this.#parts.log.warn({}, "the changed Redis of the limits takes effect only after a restart of the gateway");
  }

  /** Shows the figures on the page of metrics, and follows the file. */
  async start(metrics: Metrics, registry: MetricsRegistry): Promise<void> {
    this.#metrics = metrics;
    this.#nameRules();
    metrics.limitsFileRefused.with().set(0);
    this.#stops.push(registry.onRender(() => this.#show(metrics)));
    await this.#follow();
  }

  /**
   * Reads the rules of another source without using them.
   * @returns `use` puts them in force, then `follow` follows their file
   * @throws SluiceError for a fault in the file
   */
  async read(source: LimitsSource): Promise<{ use(): void; follow(): Promise<void> }> {
    const { seen, rules, redis } = await rulesOf(source);
    const { file } = source;
    return {
      use: () => {
        this.#stopFollowing();
        this.#file = file === undefined ? undefined : { path: file, seen };
        this.#metrics?.limitsFileRefused.with().set(0);
        this.use({ rules, redis: source.redis === undefined ? redis : undefined });
      },
      follow: () => this.#follow(),
    };
  }

  async #follow(): Promise<void> {
    const file = this.#file;
    if (file === undefined) return;
    // A file that was replaced may still be read once.
    const counts = (): boolean => this.#file === file && !this.#closed;
    const stop = await followLimits({
      file: file.path,
      seen: file.seen,
      ...{ clock: this.#parts.clock, log: this.#parts.log },
      use: (settings) => {
        if (counts()) this.use(settings);
      },
      refused: (is) => {
        if (counts()) this.#metrics?.limitsFileRefused.with().set(is ? 1 : 0);
      },
    });
    if (counts()) this.#stopFollowing = stop;
    else stop();
  }

  /** Stops following and sharing. The limits stay in force. */
  close(): void {
    this.#closed = true;
    this.#stopFollowing();
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

/** The client of Redis is loaded on use: a gateway without Redis needs none of it. */
async function sharedAt(store: LimitsStore, parts: LimitsParts): Promise<SharedLimits> {
  const { SharedLimits } = await import("./shared-limits.ts");
  return new SharedLimits(store, parts);
}

/** The rules of a source, and the signature of its file. */
async function rulesOf({ file, settings }: LimitsSource) {
  const seen = file === undefined ? "" : await fileSignature(file);
  const { rules = [], redis } = (file === undefined ? settings : await readLimits(file)) ?? {};
  return { seen, rules, redis };
}

function kindsOf({ requestsPerMinute, tokensPerMinute, inFlight }: Counter["limits"]): [LimitKind, number][] {
  const kinds: [LimitKind, number][] = [];
  if (requestsPerMinute !== undefined) kinds.push(["requests", requestsPerMinute]);
  if (tokensPerMinute !== undefined) kinds.push(["tokens", tokensPerMinute]);
  if (inFlight !== undefined) kinds.push(["in-flight", inFlight]);
  return kinds;
}
