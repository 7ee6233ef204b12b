import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { pythonPublisher } from "../../../scripts/test-parts.ts";

export interface PublisherOptions {
  /** Address to bind, such as `tcp://127.0.0.1:5557`. */
  readonly publish?: string;
  /** Address of a subscriber that binds. */
  readonly connect?: string;
  /** Address of the replay socket. */
  readonly replay?: string;
  readonly topic: string;
  /** Events as lists or as maps; default lists. */
  readonly form?: "array" | "map";
  /** Default integers. */
  readonly hashes?: "int" | "bytes";
  /** Messages that it keeps for replays. */
  readonly buffer?: number;
}

export interface StoredEvent {
  readonly type: "BlockStored";
  readonly block_hashes: readonly number[];
  readonly parent_block_hash: number | null;
  readonly token_ids: readonly number[];
  readonly block_size: number;
  readonly medium?: string;
  readonly lora_name?: string;
  readonly extra_keys?: readonly unknown[];
  readonly group_idx?: number;
  readonly kv_cache_spec_kind?: string;
}
export type PublishedEvent =
  | StoredEvent
  | {
      readonly type: "BlockRemoved";
      readonly block_hashes: readonly number[];
      readonly medium?: string;
      readonly group_idx?: number;
    }
  | { readonly type: "AllBlocksCleared" };

/** A process of Python that publishes KV-cache events as vLLM does. */
export class EventPublisher {
  readonly #child: ChildProcess;
  readonly #waiting: { resolve(answer: Record<string, unknown>): void; reject(error: Error): void }[] = [];
  #words = "";

  private constructor(options: PublisherOptions) {
    this.#child = spawn("python3", ["-u", join(import.meta.dirname, "publisher.py"), JSON.stringify(options)], {
      env: { ...process.env, PYTHONPATH: pythonPublisher(), PYTHONDONTWRITEBYTECODE: "1" },
      stdio: ["pipe", "pipe", "pipe"],
    });
    LIVE.add(this.#child);
    this.#child.stderr!.on("data", (chunk: Buffer) => {
      this.#words = (this.#words + chunk.toString()).slice(-4000);
    });
    createInterface({ input: this.#child.stdout! }).on("line", (line) =>
      this.#waiting.shift()?.resolve(JSON.parse(line) as Record<string, unknown>),
    );
    this.#child.on("close", (code) => {
      LIVE.delete(this.#child);
      for (const { reject } of this.#waiting) reject(new Error(`the publisher ended with ${code}: ${this.#words}`));
    });
  }

  static async start(options: PublisherOptions): Promise<EventPublisher> {
    const publisher = new EventPublisher(options);
    await publisher.#answer();
    return publisher;
  }

  /**
   * Publishes one message.
   * @param how `lose`: only replays bring it; `forget`: replays do not bring it; `rank`: data-parallel rank
   */
  send(
    events: readonly PublishedEvent[],
    how: { readonly lose?: boolean; readonly forget?: boolean; readonly rank?: number; readonly topic?: string } = {},
  ): Promise<Record<string, unknown>> {
    return this.#do("send", { events, ...how });
  }

  /** Publishes frames as they are. */
  raw(frames: readonly Buffer[]): Promise<Record<string, unknown>> {
    return this.#do("raw", { frames: frames.map((frame) => frame.toString("hex")) });
  }

  /** Begins the sequence again, with an empty buffer, as an engine does that starts again. */
  restart(): Promise<Record<string, unknown>> {
    return this.#do("restart", {});
  }

  /** Whether replay requests get no answer. */
  mute(silent: boolean): Promise<Record<string, unknown>> {
    return this.#do("mute", { silent });
  }

  /** Publishes events of one block each. */
  flood(options: {
    rate: number;
    seconds: number;
    block_size: number;
    first?: number;
  }): Promise<Record<string, unknown>> {
    return this.#do("flood", options);
  }

  /** Ends the process at once. */
  kill(): void {
    this.#child.kill("SIGKILL");
  }

  #do(command: string, given: object): Promise<Record<string, unknown>> {
    this.#child.stdin!.write(`${JSON.stringify({ do: command, ...given })}\n`);
    return this.#answer();
  }

  #answer(): Promise<Record<string, unknown>> {
    return new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }));
  }
}

const LIVE = new Set<ChildProcess>();

// Whatever a failing test leaves behind ends with the test run.
process.on("exit", () => {
  for (const child of LIVE) child.kill("SIGKILL");
});

/** An event that stores consecutive blocks of tokens. @param first the hash of the first block; the next ones follow */
export function stored(tokens: readonly number[], first: number, options: Partial<StoredEvent> = {}): StoredEvent {
  const size = options.block_size ?? 16;
  return {
    type: "BlockStored",
    block_hashes: Array.from({ length: Math.floor(tokens.length / size) }, (_, i) => first + i),
    parent_block_hash: null,
    token_ids: tokens,
    block_size: size,
    ...options,
  };
}
