import { connect, type Socket } from "node:net";
import { Pool } from "undici";
import { fixedLimit } from "./slowness.ts";

export interface StallOptions {
  readonly port: number;
  /** How many uploads. Each comes from an address of its own, 127.1.x.y, unless `address` says otherwise. */
  readonly count: number;
  /** What each announces, and what it sends of it before it falls silent. */
  readonly announced: number;
  readonly sent: number;
  readonly address?: string;
}

/** Uploads that fall silent in the middle, and what they were answered. */
export class StalledUploads {
  readonly #sockets: Socket[] = [];
  readonly #answers: string[] = [];

  /** Begins all of them. What the server does not read stays in the sockets. */
  static async begin(options: StallOptions): Promise<StalledUploads> {
    const uploads = new StalledUploads();
    for (let n = 0; n < options.count; n += 50)
      await Promise.all(
        Array.from({ length: Math.min(50, options.count - n) }, (_, i) => uploads.#open(n + i, options)),
      );
    return uploads;
  }

  /** How many were answered so far, by status. */
  answered(): ReadonlyMap<number, number> {
    const tally = new Map<number, number>();
    for (const text of this.#answers) {
      const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(text)?.[1] ?? 0);
      if (status !== 0) tally.set(status, (tally.get(status) ?? 0) + 1);
    }
    return tally;
  }

  /** One answer with this status, as it came. */
  answer(status: number): string | undefined {
    return this.#answers.find((text) => text.startsWith(`HTTP/1.1 ${status} `));
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  #open(n: number, { port, announced, sent, address }: StallOptions): Promise<void> {
    const localAddress = address ?? `127.1.${n >> 8}.${n & 255}`;
    const socket = connect({ port, host: "127.0.0.1", localAddress });
    this.#sockets.push(socket);
    const at = this.#answers.push("") - 1;
    socket.on("data", (bytes: Buffer) => {
      this.#answers[at] += bytes.toString("latin1");
    });
    return new Promise((resolve, reject) => {
      socket.once("error", reject);
      socket.once("connect", () => {
        socket.off("error", reject);
        // Many are cut while they still send.
        socket.on("error", () => {});
        socket.write(
          `POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: ${announced}\r\n\r\n{"messages":"`,
        );
        socket.write(Buffer.alloc(sent, "x"));
        resolve();
      });
    });
  }
}

/** What became of many requests. */
export interface Outcome {
  /** Those not answered 200: the first few. */
  readonly bad: readonly string[];
  readonly count: number;
  /** Milliseconds. */
  readonly p50: number;
  readonly p99: number;
  readonly longest: number;
}

/** Posts `count` chats over `connections` connections and times each. */
export async function chats(
  url: string,
  options: { readonly count: number; readonly connections: number; readonly body: string },
): Promise<Outcome> {
  const pool = new Pool(url, { connections: options.connections, pipelining: 1, headersTimeout: fixedLimit(60_000) });
  const took: number[] = [];
  const bad: string[] = [];
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next++ < options.count) {
      const begun = performance.now();
      const path = "/v1/chat/completions";
      const headers = { "content-type": "application/json" };
      try {
        const answer = await pool.request({ method: "POST", path, headers, body: options.body });
        const text = await answer.body.text();
        if (answer.statusCode !== 200) bad.push(`${answer.statusCode} ${text.slice(0, 200)}`);
      } catch (error) {
        bad.push(String(error));
      }
      took.push(performance.now() - begun);
    }
  };
  await Promise.all(Array.from({ length: options.connections }, worker));
  await pool.destroy();
  took.sort((a, b) => a - b);
  const quantile = (q: number): number => took[Math.min(took.length - 1, Math.floor(q * took.length))]!;
  return { bad: bad.slice(0, 5), count: took.length, p50: quantile(0.5), p99: quantile(0.99), longest: took.at(-1)! };
}

/** The value of a sample without labels, or with exactly these, on a metrics page. */
export function sampleOn(page: string, name: string): number {
  const line = page.split("\n").find((text) => text.startsWith(`${name} `));
  return Number(line?.slice(name.length + 1) ?? Number.NaN);
}
