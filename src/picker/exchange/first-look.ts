import type { EndpointRegistry } from "../../pool/endpoints/registry.ts";
import { serves } from "../../pool/endpoints/served-models.ts";
import type { Prepared, Preparing } from "./prepare.ts";

/** The most requests that wait at a time; a further one is decided at once. */
const MAX_WAITING = 4096;
const NOTHING: Prepared = new Map();

/**
 * Holds requests for a model that no endpoint is known to serve, while an endpoint has not yet said what it serves. Without it,
 * the first requests after a start would reach servers that lack the model, and their 404 would say that there is no such model.
 * A hold ends when an endpoint lists the model, or when none is awaited any more; `ModelAsker` bounds that time.
 */
export class FirstLook {
  readonly #endpoints: EndpointRegistry;
  readonly #limit: number;
  readonly #waiting = new Set<Hold>();

  /** @param limit the most requests that wait at a time, from 1 up */
  constructor(endpoints: EndpointRegistry, limit = MAX_WAITING) {
    this.#endpoints = endpoints;
    this.#limit = limit;
    endpoints.onLooked(({ models }) => {
      for (const hold of this.#waiting)
        if (endpoints.awaited === 0 || (models !== undefined && serves(models, hold.model))) hold.end();
    });
  }

  /** Requests that wait now. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /**
   * @param isAwaited whether the candidates of the model depend on an endpoint that is awaited
   * @param next what follows the hold
   * @returns what `next` returns when there is nothing to wait for
   */
  before(model: string, isAwaited: () => boolean, next: () => Preparing | undefined): Preparing | undefined {
    // Nearly always none is awaited, so a request pays for one comparison.
    if (this.#endpoints.awaited === 0 || this.#waiting.size >= this.#limit || !isAwaited()) return next();
    const hold: Hold = new Hold(model, next, () => this.#waiting.delete(hold));
    this.#waiting.add(hold);
    return hold;
  }
}

class Hold implements Preparing {
  readonly model: string;
  readonly prepared: Promise<Prepared | undefined>;
  readonly #next: () => Preparing | undefined;
  readonly #left: () => void;
  #resolve!: (prepared: Prepared | undefined | Promise<Prepared | undefined>) => void;
  #following: Preparing | undefined;

  constructor(model: string, next: () => Preparing | undefined, left: () => void) {
    this.model = model;
    this.#next = next;
    this.#left = left;
    this.prepared = new Promise((resolve) => {
      this.#resolve = resolve;
    });
  }

  end(): void {
    this.#left();
    this.#following = this.#next();
    this.#resolve(this.#following?.prepared ?? NOTHING);
  }

  abort(): void {
    this.#left();
    this.#following?.abort();
    this.#resolve(undefined);
  }
}
