import { type Clock, delay } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import { messageOf } from "../../base/inference/errors.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import { RateLimitedLog } from "../../base/telemetry/rate-limited-log.ts";
import { type ApiClient, type ResourceType, typeName } from "./api-client.ts";
import { ApiError } from "./api-error.ts";
import { Backoff } from "./backoff.ts";
import { keyOfObject, readList, type Selection, versionOf, type WatchEvent, watch } from "./list-watch.ts";
import type { ObjectKey, ReflectedSink, ReflectorState } from "./reflected.ts";

/** Milliseconds after which a watch counts as good: a later failure is then no repetition of an earlier one. */
const GOOD_WATCH = 1000;
/** Refusals in a row after which the known version is dropped: the server may have been restored from a backup. */
const REFUSALS_BEFORE_RELIST = 3;
/** Statuses that say nothing about the version: no right, or the server is busy or only starting. */
const NOT_OF_THE_VERSION: ReadonlySet<number> = new Set([401, 403, 429, 503]);
/** Attempts for a page while the server is busy. After them the list starts again. */
const ATTEMPTS_PER_PAGE = 10;
/** Longest time in milliseconds for which `Retry-After` is honoured. */
const LONGEST_ASKED = 60_000;
/** Milliseconds over which reflectors with an expired version spread their new lists. */
const RELIST_SPREAD = 1000;

/** Durations, for tests; milliseconds unless another unit is given. */
interface ReflectorTuning {
  /**
   * Objects per page; default 50. One page is read in one stretch, and requests are decided in the same thread. 50 pods of 6 KB
   * take about 2 ms, the 500 of other clients 25 (`bench/kubernetes.ts`).
   */
  readonly pageSize?: number;
  /**
   * Bounds of the pause after failures, before jitter; defaults 250 and 5,000. The longest pause is the longest time in which a
   * picker misses the end of an outage of the API server. Until then it sends requests to pods that are gone.
   */
  readonly firstPause?: number;
  readonly longestPause?: number;
  /**
   * Time between two checks whether an optional kind is there, and time for which a kind must be missing to count as absent;
   * 60,000.
   */
  readonly absentPause?: number;
  /** Seconds: a watch lasts from this to twice this; default 240. */
  readonly watchSeconds?: number;
}

export interface ReflectorOptions<T> extends Selection {
  readonly api: ApiClient;
  /**
   * Projects an object, as the server sent it: items of a list state neither their kind nor their version. Undefined or an
   * error: the object counts as absent. An error is logged.
   */
  project(object: unknown): T | undefined;
  keyOf(item: T): ObjectKey;
  readonly sink: ReflectedSink<T>;
  /**
   * The kind may be absent or unreadable. The log then gets one line, and the reflector checks for the kind from time to time.
   * The line is a warning where objects are lost: the kind is there and may not be read, or it had objects.
   */
  readonly optional?: boolean;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
  readonly tuning?: ReflectorTuning;
}

/**
 * Whether an optional kind is there. `assumed`: it is, or it was there a moment ago. `unreadable`: the server refuses to show
 * it, and the last known objects stay in force. `gone`: the server does not have it.
 */
type Presence = "assumed" | "unreadable" | "gone";

/**
 * Keeps a sink equal to the objects of one kind: it lists them, then watches for changes. It lists again when the server no
 * longer knows the version at which the watch ended (api-resources 3.2). It never gives up, and the last known state stays
 * while the server is away. It keeps no object itself.
 */
export class Reflector<T> {
  readonly #options: ReflectorOptions<T>;
  readonly #what: string;
  readonly #backoff: Backoff;
  readonly #log: RateLimitedLog;
  readonly #tuning: Required<ReflectorTuning>;
  /** Called once each. */
  readonly #waiting: (() => void)[] = [];
  /** Ends the request or the pause under way. */
  #cut = new AbortController();
  #life: "new" | "running" | "closed" = "new";
  /** The version at which the next watch begins; undefined = list first. */
  #version: string | undefined;
  /** The whole list was read once. */
  #synced = false;
  #presence: Presence = "assumed";
  /** Since when an optional kind has been missing. */
  #missingSince: number | undefined;
  /** The status with which the absence was logged. */
  #toldAbsent: number | undefined;
  #heardAt = Number.NEGATIVE_INFINITY;
  #objects = 0;
  #lists = 0;
  #watches = 0;
  #failures = 0;
  #refusals = 0;
  #problem = "";

  constructor(options: ReflectorOptions<T>) {
    const { clock, random, log, tuning } = options;
    this.#options = options;
    this.#what = typeName(options.type);
    this.#tuning = {
      pageSize: tuning?.pageSize ?? 50,
      firstPause: tuning?.firstPause ?? 250,
      longestPause: tuning?.longestPause ?? 5000,
      absentPause: tuning?.absentPause ?? 60_000,
      watchSeconds: tuning?.watchSeconds ?? 240,
    };
    this.#backoff = new Backoff(random, this.#tuning.firstPause, this.#tuning.longestPause);
    this.#log = new RateLimitedLog(log, clock, { intervalMs: 60_000, maxKeys: 32 });
  }

  /** Begins; returns at once. */
  start(): void {
    if (this.#life !== "new") return;
    this.#life = "running";
    void this.#run();
  }

  /** Ends: afterwards the reflector calls nothing any more. */
  close(): void {
    this.#life = "closed";
    this.#waiting.length = 0;
    this.#cut.abort();
  }

  /** `objects` are those of the server, also where `project` keeps nothing of one. */
  get state(): ReflectorState {
    return {
      synced: this.#synced,
      absent: this.#presence !== "assumed",
      kept: this.#presence === "unreadable" && this.#synced,
      heardAt: this.#heardAt,
      objects: this.#objects,
      lists: this.#lists,
      watches: this.#watches,
      failures: this.#failures,
      problem: this.#problem,
    };
  }

  /**
   * Calls `callback` once, as soon as the objects are known: after the first whole list, or when an optional kind is absent. It
   * calls at once when that is already so.
   */
  onSynced(callback: () => void): void {
    if (this.#synced || this.#presence !== "assumed") callback();
    else if (!this.#closed) this.#waiting.push(callback);
  }

  get #closed(): boolean {
    return this.#life === "closed";
  }

  async #run(): Promise<void> {
    while (!this.#closed) {
      this.#cut = new AbortController();
      try {
        if (this.#version === undefined) this.#version = await this.#list();
        if (!this.#closed) await this.#watch(this.#version);
      } catch (error) {
        const reason = await this.#explained(error);
        if (this.#closed) return;
        const pause = this.#failed(reason);
        await delay(this.#options.clock, pause, this.#cutAnew()).catch(() => {});
      }
    }
  }

  /**
   * A server refuses a client without the right to a kind before it checks whether the kind exists. Charts give rights to the
   * kinds of their own release only. So after a refusal the reflector asks the discovery, which every client may read.
   */
  async #explained(error: unknown): Promise<unknown> {
    const { api, type, optional } = this.#options;
    if (this.#closed || optional !== true || !(error instanceof ApiError) || error.status !== 403) return error;
    if ((await isServed(api, type, this.#cutAnew())) !== false) return error;
    return new ApiError("the API server does not have this kind", { status: 404, reason: "NotFound" });
  }

  #cutAnew(): AbortSignal {
    this.#cut = new AbortController();
    return this.#cut.signal;
  }

  async #list(): Promise<string> {
    const { clock, sink } = this.#options;
    const { signal } = this.#cut;
    const items: T[] = [];
    let objects = 0;
    const version = await readList({
      ...this.#options,
      pageSize: this.#tuning.pageSize,
      signal,
      take: (object) => {
        if (this.#closed) return;
        objects++;
        const item = this.#projected(object);
        if (item !== undefined) items.push(item);
      },
      // A busy server must not give the same pages again.
      refused: async (error, attempts) => {
        const busy = error instanceof ApiError && error.status === 429;
        if (this.#closed || !busy || attempts >= ATTEMPTS_PER_PAGE) throw error;
        await delay(clock, this.#failed(error), signal);
      },
    });
    if (this.#closed) return version;
    const first = !this.#synced;
    this.#lists++;
    this.#objects = objects;
    // The sink may read the state during the call, and must see that it is complete.
    this.#synced = true;
    this.#found();
    try {
      sink.replace(items);
    } catch (error) {
      this.#synced = !first;
      throw error;
    }
    this.#settled();
    return version;
  }

  async #watch(version: string): Promise<void> {
    const { clock, random } = this.#options;
    const { watchSeconds } = this.#tuning;
    let openedAt: number | undefined;
    const good = (): boolean => openedAt !== undefined && clock.now() - openedAt >= GOOD_WATCH;
    try {
      await watch({
        ...this.#options,
        version,
        seconds: watchSeconds + random.below(watchSeconds + 1),
        cut: this.#cut,
        opened: () => {
          if (this.#closed) return;
          openedAt = clock.now();
          this.#watches++;
          this.#found();
        },
        event: (event) => {
          if (this.#closed) return;
          this.#refusals = 0;
          this.#found();
          this.#apply(event);
        },
      });
    } finally {
      if (good()) this.#backoff.reset();
    }
    this.#refusals = 0;
    // A watch that ends at once would end at once again, so the next one waits.
    if (!good()) throw new ApiError(`watch of ${this.#what}: the server ended it at once`, { status: 0, reason: "" });
  }

  #apply({ type, object }: WatchEvent): void {
    const { sink, namespace } = this.#options;
    if (type === "ADDED") this.#objects++;
    else if (type === "DELETED") this.#objects = Math.max(0, this.#objects - 1);
    if (type !== "BOOKMARK") {
      const item = type === "DELETED" ? undefined : this.#projected(object);
      const key = item === undefined ? keyOfObject(object, namespace) : undefined;
      // A failing event would fail again at each repetition, and later events must not wait for it.
      this.#guarded("a change was not applied", () => {
        if (item !== undefined) sink.put(item);
        else if (key !== undefined) sink.remove(key);
      });
    }
    this.#version = versionOf(object) ?? this.#version;
  }

  #projected(object: unknown): T | undefined {
    try {
      return this.#options.project(object);
    } catch (error) {
      const key = keyOfObject(object, this.#options.namespace);
      const name = key === undefined ? "an object without a name" : `${key.namespace}/${key.name}`;
      const text = `${this.#what}: Sluice ignores ${name}, which it cannot read: ${messageOf(error)}`;
      this.#log.log("warn", `object ${name}`, {}, text);
      return undefined;
    }
  }

  /** The server has answered as it should. */
  #found(): void {
    this.#heardAt = this.#options.clock.now();
    if (this.#problem !== "") this.#log.log("info", "found", {}, `${this.#what}: the API server answers again`);
    this.#problem = "";
    this.#presence = "assumed";
    this.#missingSince = undefined;
    this.#toldAbsent = undefined;
  }

  #guarded(problem: string, step: () => void): void {
    try {
      step();
    } catch (error) {
      this.#log.log("error", problem, {}, `${this.#what}: ${problem}: ${messageOf(error)}`);
    }
  }

  #settled(): void {
    for (const callback of this.#waiting.splice(0)) this.#guarded("a callback failed", callback);
  }

  /** Records a failure; returns the milliseconds until the next attempt. */
  #failed(error: unknown): number {
    const { random, optional = false } = this.#options;
    const refusal = error instanceof ApiError ? error : undefined;
    this.#failures++;
    this.#problem = messageOf(error);
    const ofTheVersion = refusal !== undefined && refusal.status > 0 && !NOT_OF_THE_VERSION.has(refusal.status);
    if (ofTheVersion && ++this.#refusals >= REFUSALS_BEFORE_RELIST) this.#version = undefined;
    if (refusal?.expired) {
      this.#version = undefined;
      return Math.max(this.#backoff.next(), random.next() * RELIST_SPREAD);
    }
    if (refusal?.absent && optional && this.#missing(refusal)) return this.#tuning.absentPause * (0.5 + random.next());
    const level = refusal?.status === 403 || refusal?.status === 401 ? "error" : "warn";
    this.#log.log(level, `${refusal?.status}`, {}, `${this.#what}: ${this.#problem}`);
    const pause = this.#backoff.next();
    const asked = Math.min(LONGEST_ASKED, refusal?.retryAfter ?? 0);
    return asked === 0 ? pause : Math.max(pause, asked * (1 + random.next() / 4));
  }

  /** An optional kind is not there. False for a kind that was there a moment ago: a proxy in between may have answered. */
  #missing({ status }: ApiError): boolean {
    const now = this.#options.clock.now();
    this.#missingSince ??= now;
    this.#version = undefined;
    if (this.#synced && now - this.#missingSince < this.#tuning.absentPause) return false;
    if (status === 404) this.#presence = "gone";
    // A refusal does not mean that a kind which was gone is there again.
    else if (this.#presence === "assumed") this.#presence = "unreadable";
    if (this.#toldAbsent !== status) {
      this.#toldAbsent = status;
      const stay = this.state.kept ? "uses their last known state and " : "";
      const often = `Sluice ${stay}tries again about every ${Math.round(this.#tuning.absentPause / 1000)} s`;
      const expected = status === 404 && this.#objects === 0;
      const level = expected ? "info" : "warn";
      this.#options.log[level]({}, `${this.#what} cannot be read; ${often}: ${this.#problem}`);
    }
    // Without the right to read them the last known objects stay; without their kind there are none.
    if (status === 404 && this.#objects > 0) {
      this.#objects = 0;
      this.#guarded("the removal of the kind was not applied", () => this.#options.sink.replace([]));
    }
    this.#settled();
    return true;
  }
}

/** Whether the server has a kind, by its discovery; undefined where the discovery does not say. */
async function isServed(
  api: ApiClient,
  { group, version, plural }: ResourceType,
  signal: AbortSignal,
): Promise<boolean | undefined> {
  try {
    const path = group === "" ? `/api/${version}` : `/apis/${group}/${version}`;
    const { resources } = ((await api.request({ method: "GET", path, signal })) ?? {}) as { resources?: unknown };
    if (!Array.isArray(resources)) return undefined;
    return resources.some((resource) => (resource as { name?: unknown } | null)?.name === plural);
  } catch (error) {
    return error instanceof ApiError && error.status === 404 ? false : undefined;
  }
}
