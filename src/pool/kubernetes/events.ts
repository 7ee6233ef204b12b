import { createHash } from "node:crypto";
import type { Clock } from "../../base/clock/clock.ts";
import { type Random, uuidFrom } from "../../base/clock/random.ts";
import { messageOf, oneLine } from "../../base/inference/errors.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import { RateLimitedLog } from "../../base/telemetry/rate-limited-log.ts";
import { type ApiClient, type ApiRequest, collectionPath, EVENT, objectPath } from "./api-client.ts";
import { ApiError } from "./api-error.ts";

/** Most events that are remembered to be counted up. When a forgotten event recurs, it begins a new one. */
const MAX_EVENTS = 1000;
/** Most events that wait to be written; further ones are dropped. */
const MAX_WAITING = 256;
const DEFAULT_PER_MINUTE = 6;
const MINUTE = 60_000;
/** Milliseconds without writes after a refusal for want of the right, which an administrator has to grant. */
const FORBIDDEN_PAUSE = 600_000;
/** Milliseconds for one request. */
const TIMEOUT = 10_000;

/** The object that an event is about. */
interface InvolvedObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

interface ClusterEvent {
  readonly type: "Normal" | "Warning";
  /** One word in upper camel case. */
  readonly reason: string;
  /** For people; cut at 1,024 characters. */
  readonly message: string;
}

interface EventWriterOptions {
  readonly api: ApiClient;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
  /** The reporting program. */
  readonly component: string;
  /** The reporting instance: name of the pod. */
  readonly instance: string;
  /** Writes per object and minute; default 6. Further events are counted and reported with the next write. */
  readonly perMinute?: number;
}

/** One event as the cluster has it. */
interface Counted {
  readonly about: InvolvedObject;
  readonly event: ClusterEvent;
  readonly name: string;
  readonly first: string;
  count: number;
  created: boolean;
  waiting: boolean;
}

/** Writes of one object in the current minute. */
interface Budget {
  since: number;
  used: number;
}

/**
 * Reports to people at the cluster what happened to an object, as events of the core group. A repeated event only counts up.
 * The caller never waits and never sees a failure: an event that cannot be written is dropped. No published chart grants the
 * right to write events. Without it the log gets one line, and a write is tried again every ten minutes at most.
 */
export class EventWriter {
  readonly #options: EventWriterOptions;
  readonly #log: RateLimitedLog;
  /** Part of the names of all events of this process. */
  readonly #own: string;
  /** In the order of their last use. */
  readonly #events = new Map<string, Counted>();
  readonly #budgets = new Map<string, Budget>();
  readonly #waiting: Counted[] = [];
  #writing: Promise<void> | undefined;
  /** Monotonic milliseconds before which nothing is written; undefined = writes are allowed, as far as known. */
  #forbiddenUntil: number | undefined;
  #closed = false;

  constructor(options: EventWriterOptions) {
    this.#options = options;
    this.#log = new RateLimitedLog(options.log, options.clock, { intervalMs: MINUTE, maxKeys: 4 });
    this.#own = uuidFrom(options.random);
  }

  /** Reports an event; returns at once. */
  write(about: InvolvedObject, { type, reason, message }: ClusterEvent): void {
    if (this.#closed) return;
    const event = { type, reason, message: oneLine(message) };
    const counted = this.#counted(about, event);
    counted.count++;
    if (counted.waiting || this.#waiting.length >= MAX_WAITING) return;
    if (this.#options.clock.now() < (this.#forbiddenUntil ?? Number.NEGATIVE_INFINITY) || !this.#mayWrite(about))
      return;
    counted.waiting = true;
    this.#waiting.push(counted);
    this.#writing ??= this.#drain();
  }

  /** Drops waiting events; resolves when no write is under way any more. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#waiting.length = 0;
    await this.#writing;
  }

  /** Events and objects remembered at the moment, each at most 1,000. */
  get size(): { readonly events: number; readonly objects: number } {
    return { events: this.#events.size, objects: this.#budgets.size };
  }

  #counted(about: InvolvedObject, event: ClusterEvent): Counted {
    const { apiVersion, kind, namespace, name, uid } = about;
    const parts = [apiVersion, kind, namespace, name, uid, event.type, event.reason, event.message];
    const key = JSON.stringify(parts);
    const counted = this.#events.get(key) ?? this.#fresh(about, event, key);
    this.#events.delete(key);
    this.#events.set(key, counted);
    if (this.#events.size > MAX_EVENTS) this.#events.delete(this.#events.keys().next().value!);
    return counted;
  }

  #fresh(about: InvolvedObject, event: ClusterEvent, key: string): Counted {
    const digest = createHash("sha256").update(`${this.#own} ${key} ${this.#options.clock.now()}`).digest("hex");
    // An object name has at most 253 characters.
    const name = `${about.name.slice(0, 200).replace(/[^a-z0-9]+$/, "")}.${digest.slice(0, 16)}`;
    return { about, event, name, first: this.#now(), count: 0, created: false, waiting: false };
  }

  #mayWrite({ namespace, kind, name }: InvolvedObject): boolean {
    const key = `${kind} ${namespace}/${name}`;
    const now = this.#options.clock.now();
    let budget = this.#budgets.get(key);
    if (budget === undefined || now - budget.since >= MINUTE) {
      budget = { since: now, used: 0 };
      this.#budgets.delete(key);
      this.#budgets.set(key, budget);
      if (this.#budgets.size > MAX_EVENTS) this.#budgets.delete(this.#budgets.keys().next().value!);
    }
    return budget.used++ < (this.#options.perMinute ?? DEFAULT_PER_MINUTE);
  }

  async #drain(): Promise<void> {
    for (let next = this.#waiting.shift(); next !== undefined; next = this.#waiting.shift()) {
      next.waiting = false;
      try {
        await this.#send(next);
        if (this.#forbiddenUntil !== undefined) this.#options.log.info({}, "Sluice writes Kubernetes events again");
        this.#forbiddenUntil = undefined;
      } catch (error) {
        if (error instanceof ApiError && error.status === 403) this.#forbidden(error);
        else if (!this.#closed)
          this.#log.log("warn", "event", {}, `Sluice could not write a Kubernetes event: ${messageOf(error)}`);
      }
    }
    this.#writing = undefined;
  }

  #forbidden(error: ApiError): void {
    // Waiting events would be refused as well. They are counted up and reported with the next write.
    for (const counted of this.#waiting.splice(0)) counted.waiting = false;
    const { clock, log } = this.#options;
    if (this.#forbiddenUntil === undefined) {
      const often = `tries again at most every ${FORBIDDEN_PAUSE / MINUTE} minutes, and logs this once`;
      log.warn({}, `Sluice cannot write Kubernetes events, ${often}: ${messageOf(error)}`);
    }
    this.#forbiddenUntil = clock.now() + FORBIDDEN_PAUSE;
  }

  async #send(counted: Counted): Promise<void> {
    const { about } = counted;
    if (!counted.created) {
      try {
        await this.#request("POST", collectionPath(EVENT, about.namespace), this.#object(counted));
        counted.created = true;
        return;
      } catch (error) {
        // An attempt whose answer was lost has created the event.
        if (!(error instanceof ApiError) || error.status !== 409) throw error;
        counted.created = true;
      }
    }
    const change = { count: counted.count, lastTimestamp: this.#now() };
    try {
      await this.#request("PATCH", objectPath(EVENT, about.namespace, counted.name), change);
    } catch (error) {
      // The server forgets events after an hour.
      if (!(error instanceof ApiError) || error.status !== 404) throw error;
      await this.#request("POST", collectionPath(EVENT, about.namespace), this.#object(counted));
    }
  }

  #object({ about, event, name, first, count }: Counted) {
    const { component, instance } = this.#options;
    return {
      apiVersion: "v1",
      kind: "Event",
      metadata: { namespace: about.namespace, name },
      involvedObject: about,
      ...event,
      source: { component },
      reportingComponent: component,
      reportingInstance: instance,
      firstTimestamp: first,
      lastTimestamp: this.#now(),
      count,
    };
  }

  #request(method: ApiRequest["method"], path: string, body: unknown): Promise<unknown> {
    const contentType = method === "PATCH" ? "application/merge-patch+json" : "application/json";
    return this.#options.api.request({ method, path, body, contentType, timeout: TIMEOUT });
  }

  /** The time as Kubernetes writes it: whole seconds. */
  #now(): string {
    return `${new Date(this.#options.clock.wall()).toISOString().slice(0, 19)}Z`;
  }
}
