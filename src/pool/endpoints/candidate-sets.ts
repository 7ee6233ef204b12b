import { type RecordedFilter, SERVED_MODELS } from "../../base/inference/decision-record.ts";
import type { PoolEndpoint } from "./pool-endpoint.ts";
import { serves } from "./served-models.ts";

/** The endpoints that may serve one request. Valid until the next change of the pool; never changed in place. */
export interface CandidateSet {
  readonly endpoints: readonly PoolEndpoint[];
  /** Allowed endpoints left out because they are down while another allowed one is not. */
  readonly down: readonly PoolEndpoint[];
  /** Endpoints in the pool, in any state, allowed or not. */
  readonly poolSize: number;
  /** The allowed endpoints left out because they do not serve the model of the request; undefined = none. */
  readonly unserving?: RecordedFilter | undefined;
  /** None is known to serve the model, and an endpoint that is not down has yet to say whether it does; absent = no. */
  readonly awaited?: true;
}

/** The most ids that a decision record keeps of one filter. */
const KEPT_IDS = 8;
/** The most models whose candidates are kept; those of a further model are chosen anew for each request. */
const MAX_KEPT = 1024;

const NO_ENDPOINTS: readonly PoolEndpoint[] = [];

/** The state rule: down is no candidate while another one is not. */
export function withoutDown(
  endpoints: readonly PoolEndpoint[],
  poolSize: number,
  unserving?: RecordedFilter,
): CandidateSet {
  let down = 0;
  for (const endpoint of endpoints) if (endpoint.state === "down") down++;
  if (down === 0 || down === endpoints.length) return { endpoints, down: NO_ENDPOINTS, poolSize, unserving };
  return {
    endpoints: endpoints.filter((endpoint) => endpoint.state !== "down"),
    down: endpoints.filter((endpoint) => endpoint.state === "down"),
    poolSize,
    unserving,
  };
}

/** The candidates among `allowed` for a model. @param model "" = the request names none, so the model rules nobody out */
export function serving(allowed: readonly PoolEndpoint[], poolSize: number, model: string): CandidateSet {
  if (model === "" || allowed.every((endpoint) => serves(endpoint.models, model) && !isUnheard(endpoint)))
    return withoutDown(allowed, poolSize);
  // Who has yet to say what it serves may lack the model: it counts only where no other endpoint is known to serve the model.
  const isServed = allowed.some(
    ({ models, state }) => models !== undefined && state !== "down" && serves(models, model),
  );
  const ids: string[] = [];
  const endpoints: PoolEndpoint[] = [];
  for (const endpoint of allowed) {
    if (serves(endpoint.models, model) && !(isServed && isUnheard(endpoint))) endpoints.push(endpoint);
    else if (ids.length < KEPT_IDS) ids.push(endpoint.id);
  }
  const dropped = allowed.length - endpoints.length;
  const unserving = dropped === 0 ? undefined : { name: SERVED_MODELS, dropped, ids };
  const chosen = withoutDown(endpoints, poolSize, unserving);
  return chosen.endpoints.some(
    ({ models, modelLook, state }) => models === undefined && modelLook === "open" && state !== "down",
  )
    ? { ...chosen, awaited: true }
    : chosen;
}

function isUnheard({ models, modelLook }: PoolEndpoint): boolean {
  return models === undefined && modelLook !== "over";
}

/**
 * The candidates of each model in a pool, kept until the pool changes: then a request costs one look into a map. Only models
 * that some endpoint serves are kept, because clients can invent names.
 */
export class CandidatesByModel {
  readonly #byModel = new Map<string, CandidateSet>();
  /** Where no endpoint is known to lack a model, all models have these. */
  #all: CandidateSet | undefined;

  /** @param model "" = none */
  of(model: string, list: readonly PoolEndpoint[]): CandidateSet {
    const known = this.#all ?? this.#byModel.get(model);
    if (known !== undefined) return known;
    if (list.every(({ models, modelLook }) => models === undefined && modelLook === "over")) {
      this.#all = withoutDown(list, list.length);
      return this.#all;
    }
    const made = serving(list, list.length, model);
    if (made.endpoints.length > 0 && this.#byModel.size < MAX_KEPT && this.#mayKeep(model, list))
      this.#byModel.set(model, made);
    return made;
  }

  /** The pool has changed: endpoints, states or models. */
  forget(): void {
    this.#all = undefined;
    this.#byModel.clear();
  }

  /** Whether an endpoint lists this very name; endpoints that serve every name do not count. */
  #mayKeep(model: string, list: readonly PoolEndpoint[]): boolean {
    if (model === "") return true;
    return list.some(({ models }) => models !== undefined && models.byName !== "any" && models.byName.has(model));
  }
}
