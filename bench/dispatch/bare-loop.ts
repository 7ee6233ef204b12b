/**
 * The reference of bench/dispatch.ts: the least that can be done. ZPOPMIN of as many as there is room for, JSON.parse, POST
 * with undici, LPUSH of what is done since the last LPUSH. No leases, no gates, no deadlines, no retries, no metrics: what
 * it holds is lost with it.
 */
import { fork } from "node:child_process";
import { createClient } from "@redis/client";
import { type Dispatcher, Pool } from "undici";

export interface BareLoopSettings {
  readonly redis: string;
  readonly gateway: string;
  readonly concurrency: number;
}

/** The bare loop in a process of its own. */
export interface BareLoop {
  readonly pid: number;
  /** Handles so many messages. */
  run(count: number): Promise<void>;
  stop(): void;
}

export async function startBareLoop(settings: BareLoopSettings): Promise<BareLoop> {
  const child = fork(import.meta.filename, [JSON.stringify(settings)], { execArgv: [] });
  const next = (): Promise<void> =>
    new Promise((resolve, reject) => {
      child.once("message", () => resolve());
      child.once("exit", (code) => reject(new Error(`the bare loop ended with ${code}`)));
    });
  await next();
  return {
    pid: child.pid!,
    run(count) {
      child.send(count);
      return next();
    },
    stop: () => void child.kill("SIGKILL"),
  };
}

class Answer implements Dispatcher.DispatchHandler {
  #status = 0;
  readonly #parts: Buffer[] = [];
  readonly #done: (status: number, body: string) => void;

  constructor(done: (status: number, body: string) => void) {
    this.#done = done;
  }

  onRequestStart(): void {}
  onResponseStart(_: Dispatcher.DispatchController, status: number): void {
    this.#status = status;
  }
  onResponseData(_: Dispatcher.DispatchController, part: Buffer): void {
    this.#parts.push(part);
  }
  onResponseEnd(): void {
    this.#done(this.#status, Buffer.concat(this.#parts).toString());
  }
  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    throw error;
  }
}

async function main({ redis, gateway, concurrency }: BareLoopSettings): Promise<void> {
  const client = createClient({ url: redis });
  await client.connect();
  const pool = new Pool(gateway, { connections: concurrency, pipelining: 1 });
  let free = concurrency;
  let left = 0;
  let claiming = false;
  let done: string[] = [];

  const write = async (): Promise<void> => {
    const results = done;
    done = [];
    await client.lPush("results", results);
    left -= results.length;
    if (left === 0) process.send?.("done");
  };
  const post = (entry: string): void => {
    const { data } = JSON.parse(entry) as { data: { id: string; payload: object } };
    const headers = { "content-type": "application/json", "x-request-id": data.id };
    const request = { path: "/v1/completions", method: "POST", headers, body: JSON.stringify(data.payload) } as const;
    const answer = new Answer((status, body) => {
      free++;
      if (done.push(JSON.stringify({ id: data.id, status_code: status, payload: body })) === 1) setImmediate(write);
      void claim();
    });
    pool.dispatch(request, answer);
  };
  const claim = async (): Promise<void> => {
    if (claiming || free === 0) return;
    claiming = true;
    // What comes free in the same turn is claimed for together.
    await new Promise(setImmediate);
    const room = free;
    free = 0;
    const entries = await client.zPopMinCount("q", room);
    free += room - entries.length;
    for (const { value } of entries) post(value);
    claiming = false;
    if (entries.length > 0) void claim();
  };
  process.on("message", (count: number) => {
    left = count;
    void claim();
  });
  process.on("disconnect", () => process.exit());
  process.send?.("ready");
}

if (import.meta.main) await main(JSON.parse(process.argv[2]!) as BareLoopSettings);
