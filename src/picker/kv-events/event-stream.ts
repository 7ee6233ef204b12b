import type { Clock, Timer } from "../../base/clock/clock.ts";
import type { Closable, EventMessage, ReplayEvents, SocketFault } from "./sockets.ts";

/** Milliseconds without a message after which a replay has stopped. */
const REPLAY_IDLE_MS = 5_000;
/** Attempts of one replay without a message, before it counts as failed. */
const REPLAY_ATTEMPTS = 2;
/** Milliseconds after a failed replay in which none is asked for. */
const REPLAY_COOLDOWN_MS = 30_000;
/** So many replays begin in `REPLAY_SPAN_MS` at most: each opens a socket, and losses of an honest engine come in series. */
const REPLAYS = 8;
const REPLAY_SPAN_MS = 8_000;
/** The first bytes of a payload, which hold its time, tell messages apart. */
const MARK_BYTES = 32;
/** The most messages that wait for the end of a replay, and the most bytes. Later ones are lost, which is a gap again. */
const MAX_HELD = 4_096;
const MAX_HELD_BYTES = 16 * 2 ** 20;

export interface StreamParts {
  readonly clock: Clock;
  /** Takes the events of a message. */
  apply(message: EventMessage): Promise<void> | undefined;
  /** The engine has forgotten all that it announced. */
  clear(): void;
  /** Asks for a replay; absent = the engine offers none. */
  readonly replay?: ((from: number, events: ReplayEvents) => Closable) | undefined;
  fault(fault: SocketFault, error?: unknown): void;
}

/**
 * `fresh` until the first message, `live` in sequence, `replaying` while missed messages come, `catching-up` while those that came
 * in the meantime are taken.
 */
type State = "fresh" | "live" | "replaying" | "catching-up";

/**
 * The messages of one publisher in their sequence (scheduling 3.14). After a gap, the missed messages are asked for. A sequence
 * that begins again means that the engine has started again, with an empty cache.
 *
 * Where missed messages cannot be had, the stream goes on, and what is known of the engine may be wrong in parts until it
 * announces or removes those blocks. A replay that begins too late shows that messages are lost for good: then all is forgotten,
 * and what the engine still has in its buffer is taken.
 */
export class EventStream {
  readonly #parts: StreamParts;
  #state: State = "fresh";
  /** The sequence of the next message. */
  #next = 0;
  #reconnected = false;
  /** Replayed messages name no topic: they have that of the live ones. */
  #topic = "";
  /** The beginning of the last payload. */
  #mark = "";
  /** The first message of the replay is one that was here before, if the engine is still the same one. */
  #verifies = false;
  #gaps = 0;
  #restarts = 0;
  #held: EventMessage[] = [];
  #heldBytes = 0;
  #replay: Closable | undefined;
  /** Number of the request for a replay whose answer counts; 0 = none. */
  #asking = 0;
  #asked = 0;
  /** When the last replays began, the oldest first. */
  #begun: number[] = [];
  /** Number of the loop that takes what was held. */
  #catching = 0;
  #idle: Timer | undefined;
  #attempts = 0;
  #replayed = 0;
  #from = 0;
  #cooldownUntil = Number.NEGATIVE_INFINITY;

  constructor(parts: StreamParts) {
    this.#parts = parts;
  }

  /** Messages that are missing, at least. */
  get gaps(): number {
    return this.#gaps;
  }

  /** Starts of the engine that were noticed. */
  get restarts(): number {
    return this.#restarts;
  }

  /** Messages that wait for the end of a replay. */
  get held(): number {
    return this.#held.length;
  }

  get state(): State {
    return this.#state;
  }

  /** Takes a message as it comes. */
  message(message: EventMessage): Promise<void> | undefined {
    const { sequence } = message;
    if (this.#state === "replaying" || this.#state === "catching-up") {
      this.#hold(message);
      return undefined;
    }
    this.#state = "live";
    this.#topic = message.topic;
    if (this.#isRestart(sequence)) this.#restart();
    else if (sequence < this.#next) return undefined;
    if (sequence > this.#next && this.#asksForMissing(sequence)) {
      this.#hold(message);
      return undefined;
    }
    return this.#apply(message);
  }

  /** Messages are missing before this sequence. @returns whether a replay has begun */
  #asksForMissing(sequence: number): boolean {
    // What an engine sent before it was heard for the first time is no gap.
    if (this.#next === 0) return this.#beginReplay(0);
    this.#gaps += sequence - this.#next;
    // After a lost connection, the last message comes once more, to see whether the engine is still the same one.
    const verifies = this.#reconnected;
    if (!this.#beginReplay(verifies ? this.#next - 1 : this.#next)) return false;
    this.#verifies = verifies;
    return true;
  }

  /** The connection is lost: the engine may be another one when it is back. */
  disconnected(): void {
    this.#reconnected = true;
  }

  close(): void {
    this.#endReplay();
    this.#state = "live";
    this.#held = [];
    this.#heldBytes = 0;
  }

  /** A sequence that was there comes again: once it may be a copy, but not after the connection was lost. */
  #isRestart(sequence: number): boolean {
    return sequence < this.#next - 1 || (sequence === this.#next - 1 && this.#reconnected);
  }

  #restart(): void {
    this.#restarts++;
    this.#next = 0;
    this.#cooldownUntil = Number.NEGATIVE_INFINITY;
    this.#parts.clear();
  }

  #apply(message: EventMessage): Promise<void> | undefined {
    this.#reconnected = false;
    this.#next = message.sequence + 1;
    this.#mark = markOf(message);
    return this.#parts.apply(message);
  }

  #hold(message: EventMessage): void {
    const last = this.#held.at(-1);
    if (last !== undefined && message.sequence < last.sequence) {
      // The engine starts again while the messages of its former life come.
      this.#endReplay();
      this.#held = [message];
      this.#heldBytes = message.payload.length;
      this.#restart();
      if (!this.#beginReplay(0)) this.#goOn();
      return;
    }
    if (this.#held.length >= MAX_HELD || this.#heldBytes + message.payload.length > MAX_HELD_BYTES) return;
    this.#held.push(message);
    this.#heldBytes += message.payload.length;
  }

  /** Takes the messages that wait without a replay. */
  #goOn(): void {
    this.#next = this.#held[0]?.sequence ?? this.#next;
    this.#state = "catching-up";
    void this.#catchUp();
  }

  /** @returns whether a replay has begun */
  #beginReplay(from: number): boolean {
    const { replay, clock } = this.#parts;
    const now = clock.now();
    if (replay === undefined || now < this.#cooldownUntil) return false;
    const begun = this.#begun.filter((at) => at > now - REPLAY_SPAN_MS);
    if (begun.length >= REPLAYS) return false;
    this.#begun = [...begun, now];
    this.#state = "replaying";
    this.#verifies = false;
    this.#from = from;
    this.#replayed = 0;
    this.#attempts = 0;
    this.#ask(from);
    // It may be over already.
    return this.#isReplaying;
  }

  get #isReplaying(): boolean {
    return this.#state === "replaying";
  }

  #ask(from: number): void {
    this.#attempts++;
    this.#watch();
    const asked = ++this.#asked;
    this.#asking = asked;
    const counts = (): boolean => asked === this.#asking;
    const replay = this.#parts.replay!(from, {
      message: (message) => (counts() ? this.#onReplayed(message) : undefined),
      done: () => {
        if (counts()) this.#finishReplay(true);
      },
      fault: (fault, error) => {
        this.#parts.fault(fault, error);
        if (counts()) this.#finishReplay(false);
      },
    });
    if (counts()) this.#replay = replay;
    else replay.close();
  }

  #watch(): void {
    this.#idle?.cancel();
    this.#idle = this.#parts.clock.after(REPLAY_IDLE_MS, () => this.#onIdle(), true);
  }

  #onIdle(): void {
    this.#replay?.close();
    this.#replay = undefined;
    this.#asking = 0;
    if (this.#attempts >= REPLAY_ATTEMPTS) {
      this.#parts.fault("replay-no-progress");
      this.#finishReplay(false);
    } else this.#ask(this.#replayed > 0 ? this.#next : this.#from);
  }

  #onReplayed(replayed: EventMessage): Promise<void> | undefined {
    this.#watch();
    const message = replayed.topic === "" ? { ...replayed, topic: this.#topic } : replayed;
    const { sequence } = message;
    if (this.#verifies) {
      this.#verifies = false;
      if (sequence === this.#next - 1) {
        if (markOf(message) === this.#mark) {
          this.#replayed++;
          return undefined;
        }
        // Another life of the engine, which has come further than the one before.
        this.#endReplay();
        this.#restart();
        if (!this.#beginReplay(0)) this.#goOn();
        return undefined;
      }
    }
    if (this.#replayed === 0) {
      if (sequence > this.#from && this.#from > 0) this.#lose();
    } else if (sequence < this.#next) return undefined;
    else if (sequence > this.#next) this.#lose();
    this.#replayed++;
    this.#attempts = 0;
    return this.#apply(message);
  }

  /** Messages are lost for good. */
  #lose(): void {
    this.#parts.fault("replay-incomplete");
    this.#parts.clear();
  }

  #finishReplay(isWhole: boolean): void {
    const asked = this.#from;
    const replayed = this.#replayed;
    this.#endReplay();
    if (!isWhole) this.#cooldownUntil = this.#parts.clock.now() + REPLAY_COOLDOWN_MS;
    else if (replayed === 0 && asked > 0) this.#lose();
    // Without any message of the replay, the sequence is that of the first one that waits.
    if (replayed === 0 && asked === 0) this.#next = this.#held[0]?.sequence ?? 0;
    this.#state = "catching-up";
    void this.#catchUp();
  }

  async #catchUp(): Promise<void> {
    const own = ++this.#catching;
    while (this.#state === "catching-up" && own === this.#catching) {
      const message = this.#held.shift();
      if (message === undefined) {
        this.#state = "live";
        return;
      }
      this.#heldBytes -= message.payload.length;
      if (message.sequence < this.#next) continue;
      // There is no second replay for what the first one could not bring.
      this.#gaps += message.sequence - this.#next;
      try {
        const pause = this.#apply(message);
        if (pause !== undefined) await pause;
      } catch (error) {
        this.#parts.fault("malformed", error);
      }
    }
  }

  #endReplay(): void {
    this.#replay?.close();
    this.#replay = undefined;
    this.#asking = 0;
    this.#idle?.cancel();
    this.#idle = undefined;
  }
}

function markOf({ payload }: EventMessage): string {
  return `${payload.length} ${payload.toString("latin1", 0, MARK_BYTES)}`;
}
