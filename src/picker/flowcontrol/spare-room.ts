import type { Clock, Timer } from "../../base/clock/clock.ts";
import type { Endpoint } from "../../base/inference/endpoint.ts";
import type { SaturationDetector } from "../../base/plugin/flow-kinds.ts";
import { EndpointRoom } from "./endpoint-room.ts";

/** Milliseconds after which a waiting background request goes back to where it came from, if there is room that only others can use. */
const PATIENCE = 2000;
/** Milliseconds after which it goes back in any case. */
const LONGEST_WAIT = 60_000;
/** The most background requests that wait; a further one goes back at once. Each one holds its body. */
const MOST_WAITING = 4096;
/** The saturation of an endpoint above which the detector in force counts it as full. */
const TIGHT = 15 / 16;
/** Milliseconds over which the largest allowance counts. */
const ALLOWANCE_STEP = 1000;
/** More requests than fit, as a part of those that do, so that the next one is at hand when one ends. */
const AHEAD = 1 / 8;

/** A background request, as the room sees it. */
export interface BackgroundRequest {
  /** The endpoints that may serve it now. */
  candidates(): readonly Endpoint[];
  /** Requests of the same text have the same candidates. */
  readonly candidatesKey: string;
  /** It waited, and may go on; false = there was no room in time. */
  left(admitted: boolean): void;
  /** It ends, to make room for others. */
  revoke(): void;
}

type Stage = "waiting" | "admitted" | "placed" | "revoked" | "ended";

/** The place of one background request, from its arrival to its end. */
export class SparePlace {
  readonly request: BackgroundRequest;
  stage: Stage = "waiting";
  endpoint: Endpoint | undefined;
  timer: Timer | undefined;

  constructor(request: BackgroundRequest) {
    this.request = request;
  }

  get waiting(): boolean {
    return this.stage === "waiting";
  }
}

/** The background requests that may run at a time. */
export interface Allowance {
  /** Requests that run or may begin. */
  readonly requests: number;
  /** Requests that the pool runs at once, as far as is known; at least 1. */
  readonly size: number;
}

export interface SpareRoomParts {
  readonly clock: Clock;
  /** The share of each endpoint that background requests leave free, 0 to below 1. */
  readonly baseline: number;
  /** The pool. */
  readonly pool: () => readonly Endpoint[];
  /** The detector in force. */
  readonly detector: () => SaturationDetector;
}

/**
 * Lets background requests, such as the lines of batches, use the room that other requests leave, whatever the configuration says
 * about flow control. They wait here while no candidate has room. When another request would find its endpoint full, the newest
 * background request there ends. All decisions follow from the present counts, so the room needs no forecast.
 */
export class SpareRoom {
  readonly #parts: SpareRoomParts;
  /** Weak, because requests end at endpoints that have left the pool, too. */
  readonly #rooms = new WeakMap<Endpoint, EndpointRoom>();
  /** In the order of arrival. */
  readonly #waiting = new Set<SparePlace>();
  /** At endpoints, in the order of dispatch. */
  readonly #placed = new Set<SparePlace>();
  /** Admitted, and counted at no endpoint yet. */
  #undecided = 0;
  #woken = false;
  /** The largest sums of running requests and room, of this step and of the step before. */
  readonly #largest = { at: 0, now: 0, before: 0 };

  constructor(parts: SpareRoomParts) {
    this.#parts = parts;
  }

  /** Background requests that wait for room. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** A background request arrives. @returns its place: where it is `waiting`, its `left` is called later */
  enter(request: BackgroundRequest): SparePlace {
    const place = new SparePlace(request);
    if (this.#waiting.size === 0 && this.#fits(request)) this.#admit(place);
    else {
      this.#waiting.add(place);
      if (this.#waiting.size > MOST_WAITING) this.#parts.clock.soon(() => this.#leave(place, false));
      else this.#watch(place, this.#parts.clock.now() + LONGEST_WAIT);
    }
    return place;
  }

  /** The endpoints of the list to which a background request may go. */
  withRoom(endpoints: readonly Endpoint[]): readonly Endpoint[] {
    const now = this.#parts.clock.now();
    return endpoints.filter((endpoint) => this.#roomAt(endpoint, now) > 0);
  }

  /** A background request was sent to an endpoint. */
  placed(place: SparePlace, endpoint: Endpoint): void {
    if (place.stage !== "admitted") return;
    this.#undecided--;
    place.stage = "placed";
    place.endpoint = endpoint;
    this.#of(endpoint).counted();
    this.#placed.add(place);
  }

  /** A background request goes to another endpoint, because the first one did not answer. */
  moved(place: SparePlace, endpoint: Endpoint): void {
    if (place.stage !== "placed") return;
    this.#of(place.endpoint!).background--;
    this.#of(endpoint).counted();
    place.endpoint = endpoint;
  }

  /** A background request is over, wherever it was. No effect the second time. */
  ended(place: SparePlace): void {
    const { stage } = place;
    if (stage === "ended") return;
    place.stage = "ended";
    place.timer?.cancel();
    if (stage === "admitted") this.#undecided--;
    if (stage === "revoked") this.#of(place.endpoint!).leaving--;
    if (stage === "revoked" || stage === "placed") this.#of(place.endpoint!).background--;
    this.#waiting.delete(place);
    this.#placed.delete(place);
    this.changed();
  }

  /** Another request was sent to an endpoint and counts there. */
  taken(endpoint: Endpoint): void {
    if (this.#placed.size === 0) return;
    const room = this.#of(endpoint);
    if (room.background === room.leaving) return;
    const isTight = room.isTight || this.#saturationOf(endpoint, this.#parts.clock.now()) > TIGHT;
    if (isTight) this.#revoke(endpoint, 1);
  }

  /** The metrics of an endpoint are new. */
  scraped(endpoint: Endpoint): void {
    const tooMany = this.#of(endpoint).scraped(this.#parts.clock.now());
    if (tooMany > 0 && this.#placed.size > 0) this.#revoke(endpoint, tooMany);
    this.changed();
  }

  /** An endpoint does not answer: what comes back at its address may be another model server. */
  forget(endpoint: Endpoint): void {
    this.#rooms.get(endpoint)?.forget();
  }

  /** Requests ended, or endpoints changed. Costs nothing while nothing waits. */
  changed(): void {
    if (this.#waiting.size === 0 || this.#woken) return;
    this.#woken = true;
    this.#parts.clock.soon(() => {
      this.#woken = false;
      this.#admitAll();
    });
  }

  /** What may run, at its most in the last second or two: what is too much by now waits here. */
  allowance(): Allowance {
    const now = this.#parts.clock.now();
    const pool = this.#parts.pool();
    let size = 0;
    for (const endpoint of pool) size += this.#of(endpoint).size;
    this.#note(this.#placed.size + this.#undecided + this.#roomOf(pool, now), now);
    const most = Math.max(this.#largest.now, this.#largest.before);
    const requests = most === 0 ? 0 : most + Math.max(1, Math.floor(most * AHEAD));
    return { requests, size: Math.max(1, size) };
  }

  #note(fitting: number, now: number): void {
    const largest = this.#largest;
    const steps = Math.floor((now - largest.at) / ALLOWANCE_STEP);
    if (steps > 0) {
      largest.before = steps === 1 ? largest.now : 0;
      largest.now = 0;
      largest.at += steps * ALLOWANCE_STEP;
    }
    largest.now = Math.max(largest.now, fitting);
  }

  #admitAll(): void {
    const without = new Set<string>();
    for (const place of [...this.#waiting]) {
      const { candidatesKey } = place.request;
      if (!place.waiting || without.has(candidatesKey)) continue;
      if (this.#fits(place.request)) this.#leave(place, true);
      else without.add(candidatesKey);
    }
  }

  /** @param until monotonic milliseconds */
  #watch(place: SparePlace, until: number): void {
    const { clock, pool } = this.#parts;
    const look = (): void => {
      const now = clock.now();
      if (now < until && this.#roomOf(pool(), now) <= this.#undecided) this.#watch(place, until);
      else this.#leave(place, false);
    };
    place.timer = clock.after(PATIENCE, look, true);
  }

  #leave(place: SparePlace, admitted: boolean): void {
    if (!place.waiting) return;
    this.#waiting.delete(place);
    place.timer?.cancel();
    if (admitted) this.#admit(place);
    else place.stage = "ended";
    place.request.left(admitted);
  }

  #admit(place: SparePlace): void {
    place.stage = "admitted";
    this.#undecided++;
  }

  #fits(request: BackgroundRequest): boolean {
    return this.#roomOf(request.candidates(), this.#parts.clock.now()) > this.#undecided;
  }

  #roomOf(endpoints: readonly Endpoint[], now: number): number {
    let sum = 0;
    for (const endpoint of endpoints) sum += this.#roomAt(endpoint, now);
    return sum;
  }

  #roomAt(endpoint: Endpoint, now: number): number {
    const { baseline } = this.#parts;
    const room = this.#of(endpoint).room(baseline, now);
    if (room === 0) return 0;
    return this.#saturationOf(endpoint, now) < 1 - baseline ? room : 0;
  }

  #saturationOf(endpoint: Endpoint, now: number): number {
    try {
      const detector = this.#parts.detector();
      return detector.saturationOf?.(endpoint, now) ?? detector.saturation([endpoint], now);
    } catch {
      // A detector that fails says nothing about the endpoint; the process reports its error elsewhere. NaN is no room.
      return Number.NaN;
    }
  }

  /** Ends the newest background requests at an endpoint. */
  #revoke(endpoint: Endpoint, count: number): void {
    const there = [...this.#placed].filter((place) => place.endpoint === endpoint);
    for (const place of there.slice(-count).reverse()) {
      place.stage = "revoked";
      this.#placed.delete(place);
      this.#of(endpoint).leaving++;
      place.request.revoke();
    }
  }

  #of(endpoint: Endpoint): EndpointRoom {
    let room = this.#rooms.get(endpoint);
    if (room === undefined) {
      room = new EndpointRoom(endpoint);
      this.#rooms.set(endpoint, room);
    }
    return room;
  }
}
