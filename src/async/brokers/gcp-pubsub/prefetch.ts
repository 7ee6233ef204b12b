import type { Clock } from "../../../base/clock/clock.ts";
import type { Random } from "../../../base/clock/random.ts";
import { messageOf, SluiceError } from "../../../base/inference/errors.ts";
import type { Claim, ClaimRequest } from "../broker.ts";
import { ClaimBuffer } from "../claim-buffer.ts";
import type { QueueSettings } from "../settings.ts";
import { type PubSubClient, type Received, STATUS, statusOf } from "./client.ts";

/** Most messages in one buffer or asked for, and their bytes. */
const BUFFER_MESSAGES = 1000;
const BUFFER_BYTES = 64 * 1024 * 1024;

/** Most requests that wait for messages of one subscription at the same time. */
const PULLS = 4;

/** Pauses after failed pulls, milliseconds: doubling from the first to the longest. */
const FIRST_PAUSE = 250;
const LONGEST_PAUSE = 10_000;

/** Milliseconds for which a receive proves that the service works (async-processor 5.4). */
const RECENT = 30_000;

/**
 * Fetches messages of one subscription in the background, so that a claim never waits as long as a pull. It fetches only the
 * messages that the last claim wanted and did not get. A change of that number ends no pull (hazard H-12): another pull asks
 * for more, and surplus messages stay here under their leases.
 */
export class Prefetch {
  readonly #queue: QueueSettings;
  readonly #client: Promise<PubSubClient>;
  readonly #clock: Clock;
  readonly #random: Random;
  /** Takes the received messages and returns the claims to hand out. */
  readonly #arrived: (received: readonly Received[]) => readonly Claim[];
  readonly #available: () => void;
  readonly #end = new AbortController();
  readonly #buffer = new ClaimBuffer({ claims: BUFFER_MESSAGES, bytes: BUFFER_BYTES });
  readonly #pulls = new Set<Promise<void>>();
  /** Messages that the pulls under way may return. */
  #asked = 0;
  #pause = 0;
  #pausedUntil = Number.NEGATIVE_INFINITY;
  #failure: SluiceError | undefined;
  #receivedAt = Number.NEGATIVE_INFINITY;
  #failedAt = Number.NEGATIVE_INFINITY;
  #failedWith = "";

  constructor(
    queue: QueueSettings,
    deps: { readonly client: Promise<PubSubClient>; readonly clock: Clock; readonly random: Random },
    hooks: { arrived(received: readonly Received[]): readonly Claim[]; available(): void },
  ) {
    this.#queue = queue;
    this.#client = deps.client;
    this.#clock = deps.clock;
    this.#random = deps.random;
    this.#arrived = hooks.arrived;
    this.#available = hooks.available;
  }

  /** Messages that wait here for a claim. */
  get buffered(): readonly Claim[] {
    return this.#buffer.claims;
  }

  /**
   * Hands out buffered messages, oldest first, and fetches more if they are not enough.
   * @throws SluiceError once per failed pull, when there is nothing to hand out
   */
  take(request: ClaimRequest): Claim[] {
    const now = this.#clock.wall();
    const claims = this.#buffer.take(request, now);
    const live = claims.reduce((count, { message }) => count + Number(message.request.deadline * 1000 >= now), 0);
    this.#fetch(request.max - live);
    const failure = this.#failure;
    this.#failure = undefined;
    if (failure !== undefined && claims.length === 0) throw failure;
    return claims;
  }

  /**
   * True when the latest receives show that the service works; undefined when they show nothing.
   * @throws SluiceError BROKER_UNAVAILABLE when the last one failed
   */
  health(): true | undefined {
    const since = this.#clock.now() - RECENT;
    if (this.#failedAt > this.#receivedAt && this.#failedAt > since)
      throw new SluiceError("BROKER_UNAVAILABLE", this.#failedWith);
    return this.#receivedAt > since ? true : undefined;
  }

  /** Ends all pulls; buffered messages stay. */
  async close(): Promise<void> {
    this.#end.abort();
    await Promise.all(this.#pulls);
  }

  #fetch(wanted: number): void {
    const size = Math.min(wanted, this.#buffer.room) - this.#asked;
    if (size <= 0 || this.#pulls.size >= PULLS) return;
    if (this.#clock.now() < this.#pausedUntil || this.#end.signal.aborted) return;
    this.#asked += size;
    const pull = this.#pull(size).then((received) => {
      this.#asked -= size;
      this.#pulls.delete(pull);
      this.#store(received);
    });
    this.#pulls.add(pull);
  }

  async #pull(size: number): Promise<readonly Received[]> {
    try {
      const client = await this.#client;
      const received = await client.pull(this.#queue.name, size, this.#end.signal);
      this.#receivedAt = this.#clock.now();
      this.#pause = 0;
      return received;
    } catch (error) {
      // Either no message was published, or the service did not answer: a look-up tells them apart.
      if (statusOf(error) !== STATUS.DEADLINE_EXCEEDED && !this.#end.signal.aborted) this.#failed(error);
      return [];
    }
  }

  #failed(error: unknown): void {
    const now = this.#clock.now();
    this.#failedAt = now;
    this.#failedWith = `cannot receive from subscription ${this.#queue.name}: ${messageOf(error)}`;
    this.#failure =
      error instanceof SluiceError ? error : new SluiceError("BROKER_UNAVAILABLE", this.#failedWith, { cause: error });
    this.#pause = Math.min(LONGEST_PAUSE, this.#pause * 2 || FIRST_PAUSE);
    this.#pausedUntil = now + this.#pause * (0.5 + this.#random.next() / 2);
  }

  #store(received: readonly Received[]): void {
    if (received.length === 0) return;
    const fresh = this.#arrived(received);
    if (fresh.length === 0) return;
    for (const claim of fresh) this.#buffer.add(claim);
    this.#available();
  }
}
