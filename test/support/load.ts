import { ask, chat, JSON_HEADERS } from "./client.ts";

/** What became of one request. */
export interface Seen {
  /** 0 = no answer at all. */
  readonly status: number;
  /** When it was sent and how long it took, monotonic milliseconds. */
  readonly at: number;
  readonly ms: number;
}

export interface LoadShape {
  /** Requests at a time; default 8. */
  readonly strands?: number;
  /** Milliseconds between an answer and the next request of a strand; default 0. */
  readonly pause?: number;
  /** The body of the next request; default: the same short chat. */
  readonly body?: () => string;
}

/** Sends chats one after the other on each strand until told to stop, and keeps what became of each. */
export class Load {
  readonly seen: Seen[] = [];
  #running = true;
  readonly #strands: Promise<void>[];
  /** When the requests were sent that wait for their answers. */
  readonly #waiting = new Set<{ readonly at: number }>();

  constructor(url: string, { strands = 8, pause = 0, body = () => chat("under load") }: LoadShape = {}) {
    this.#strands = Array.from({ length: strands }, async () => {
      while (this.#running) {
        const at = performance.now();
        const sent = { at };
        this.#waiting.add(sent);
        let status = 0;
        try {
          status = (
            await ask(`${url}/v1/chat/completions`, {
              headers: JSON_HEADERS,
              body: body(),
              timeoutMs: 10_000,
            })
          ).status;
        } catch {
          // No answer at all counts as status 0.
        }
        this.#waiting.delete(sent);
        this.seen.push({ status, at, ms: performance.now() - at });
        const wait = status === 200 ? pause : Math.max(20, pause);
        if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
      }
    });
  }

  /** Index behind what was seen so far. */
  get mark(): number {
    return this.seen.length;
  }

  /** How long the longest wait for an answer is by now, milliseconds; 0 = no request waits. */
  get longestWait(): number {
    return Math.max(0, ...[...this.#waiting].map(({ at }) => performance.now() - at));
  }

  /** Those that were answered with anything but 200. */
  get failed(): readonly Seen[] {
    return this.seen.filter(({ status }) => status !== 200);
  }

  async stop(): Promise<void> {
    this.#running = false;
    await Promise.all(this.#strands);
  }
}
