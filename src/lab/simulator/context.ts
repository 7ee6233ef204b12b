import type { Clock } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import type { Adapters } from "./adapters.ts";
import { SimApiError } from "./api-error.ts";
import type { SimEngine } from "./engine.ts";
import type { SimMetrics } from "./metrics.ts";
import type { SimOptions } from "./options.ts";
import type { RequestLog } from "./request-log.ts";

/** The data that the routes of one server share. */
export interface SimContext {
  /** The options at the start, with the current live settings. */
  settings: SimOptions;
  readonly engine: SimEngine;
  readonly adapters: Adapters;
  readonly metrics: SimMetrics;
  readonly log: RequestLog;
  readonly clock: Clock;
  /** For ids and injected failures; the engine has its own generator. */
  readonly random: Random;
  /** Monotonic and wall-clock milliseconds of the start. */
  readonly startedAt: number;
  readonly startedWall: number;
  /** Names of the base model, at least one; responses report the first one. */
  readonly modelNames: readonly string[];
  /** Inference requests so far, for `error-until`. */
  inferenceRequests: number;
  /** Answers in progress. */
  readonly generations: Set<{ interrupt(error: SimApiError): void }>;
  /** Crashes `ms` milliseconds from now, unless an earlier crash is planned already. */
  crashAfter(ms: number): void;
}

/** A model that a client may name. */
export interface ModelChoice {
  /** The name in responses. */
  readonly name: string;
  readonly adapter: string | undefined;
  /** Prefixes are shared only between equal keys. */
  readonly cacheKey: string;
}

/**
 * The model that a request names; without a name, the base model.
 * @throws SimApiError 404 for an unknown one, 400 for a value that is not a name
 */
export function chooseModel(context: SimContext, model: unknown): ModelChoice {
  const base = context.modelNames[0]!;
  if (model === undefined || model === null) return { name: base, adapter: undefined, cacheKey: base };
  if (typeof model !== "string") throw new SimApiError(400, "model must be a string", "model");
  if (context.modelNames.includes(model)) return { name: base, adapter: undefined, cacheKey: base };
  const adapter = context.adapters.get(model);
  if (!adapter) throw new SimApiError(404, `The model \`${model.slice(0, 256)}\` does not exist.`, "model");
  return {
    name: adapter.name,
    adapter: adapter.name,
    cacheKey: `${base}\u0000${adapter.name}\u0000${adapter.generation}`,
  };
}
