import type { Clock, Timer } from "../../base/clock/clock.ts";
import type { Random } from "../../base/clock/random.ts";
import type { Redis, RedisReply } from "../../base/redis/connection.ts";
import { pauseAfter } from "../../base/redis/pause.ts";

/** Milliseconds for which the server holds a read of the log while there is nothing new. */
export const BLOCK = 1000;
/** The most messages of one read: what a catch-up does in one stretch. */
const PAGE = 64;
/** Before the first message. */
const BEGIN = "0-0";

interface Deps {
  readonly clock: Clock;
  readonly random: Random;
  /** The key of the log. */
  readonly key: string;
  message(bytes: Uint8Array): void;
  /** The end that the log had when the connection began has been read. */
  caughtUp(): void;
  works(): void;
  fails(error: unknown): void;
}

/** Reads the log to its end, and then whatever is appended, on a connection of its own. */
export class RedisLog {
  readonly #deps: Deps;
  readonly #redis: Redis;
  /** The id of the last message that was read. */
  #last = BEGIN;
  /** Rises with each connection: a loop of an older one ends. */
  #connection = 0;
  #pause: Timer | undefined;
  #closed = false;

  /** @param redis a connection that nobody else uses; `connected` tells each time that it is ready */
  constructor(redis: Redis, deps: Deps) {
    this.#redis = redis;
    this.#deps = deps;
  }

  /** The connection is ready, perhaps to another server. */
  connected(): void {
    this.#pause?.cancel();
    void this.#run(++this.#connection);
  }

  close(): void {
    this.#closed = true;
    this.#pause?.cancel();
    this.#redis.close();
  }

  async #run(connection: number): Promise<void> {
    const isCurrent = (): boolean => connection === this.#connection && !this.#closed;
    let end: string | undefined;
    let failures = 0;
    for (let caughtUp = false; isCurrent(); ) {
      try {
        end ??= await this.#end();
        if (!isCurrent()) return;
        if (!caughtUp && !isBefore(this.#last, end)) {
          caughtUp = true;
          this.#deps.caughtUp();
        }
        const messages = await this.#read(caughtUp);
        if (!isCurrent()) return;
        this.#deps.works();
        failures = 0;
        // Nothing came: the log may have been emptied, and what a server with another clock writes then must not be missed.
        if (messages === 0) end = await this.#end();
      } catch (error) {
        if (!isCurrent() || !this.#redis.ready) return;
        this.#deps.fails(error);
        await this.#wait(pauseAfter(failures++, this.#deps.random));
      }
    }
  }

  /** The id of the newest message. When the log ends before what was read last, it is another log: reading begins anew. */
  async #end(): Promise<string> {
    const reply = await this.#redis.send(["XREVRANGE", this.#deps.key, "+", "-", "COUNT", "1"], true);
    const [newest] = list(reply);
    const end = newest === undefined ? BEGIN : String(list(newest)[0]);
    if (isBefore(end, this.#last)) this.#last = BEGIN;
    return end;
  }

  /** Reads one page. @returns the number of its messages */
  async #read(wait: boolean): Promise<number> {
    const { key } = this.#deps;
    const block = wait ? ["BLOCK", String(BLOCK)] : [];
    const reply = await this.#redis.send(["XREAD", "COUNT", String(PAGE), ...block, "STREAMS", key, this.#last], true);
    if (reply === null || this.#closed) return 0;
    // RESP2: [[key, entries]]. RESP3: [key, entries].
    const [first, second] = list(reply);
    const entries = list(Array.isArray(first) ? first[1] : second);
    for (const entry of entries) {
      const [id, fields] = list(entry);
      this.#last = String(id);
      const bytes = list(fields)[1];
      if (Buffer.isBuffer(bytes)) this.#deps.message(bytes);
    }
    return entries.length;
  }

  #wait(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.#pause = this.#deps.clock.after(ms, resolve, true);
    });
  }
}

function list(reply: RedisReply | undefined): readonly RedisReply[] {
  return Array.isArray(reply) ? (reply as readonly RedisReply[]) : [];
}

/** Whether one id of a stream, `milliseconds-sequence`, is before another. */
function isBefore(id: string, other: string): boolean {
  const [ms = 0, sequence = 0] = id.split("-").map(Number);
  const [otherMs = 0, otherSequence = 0] = other.split("-").map(Number);
  return ms < otherMs || (ms === otherMs && sequence < otherSequence);
}
