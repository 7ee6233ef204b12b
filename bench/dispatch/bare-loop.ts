/**
 * The reference of bench/dispatch.ts: the least that a loop of claim, POST and acknowledge can do. A script of three lines takes as
 * many as there is room for and notes them in a hash; JSON.parse, POST with undici; what is done since the last time leaves
 * the hash and goes to the results. No leases that run out, no gates, no deadlines, no retries, no cancellation, no metrics.
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

/** Takes up to ARGV[1] entries and notes each under a number from ARGV[2] up. */
const CLAIM = `local taken = redis.call('ZPOPMIN', KEYS[1], ARGV[1])
for i = 1, #taken, 2 do redis.call('HSET', KEYS[2], ARGV[2] + (i - 1) / 2, taken[i]) end
return taken`;

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
  let claims = 0;
  let done: { readonly claim: string; readonly result: string }[] = [];
  const script = await client.scriptLoad(CLAIM);

  const write = async (): Promise<void> => {
    const settled = done;
    done = [];
    const results = settled.map(({ result }) => result);
    await client
      .multi()
      .hDel(
        "bare:claims",
        settled.map(({ claim }) => claim),
      )
      .lPush("results", results)
      .exec();
    left -= results.length;
    if (left === 0) process.send?.("done");
  };
  const post = (entry: string, claim: string): void => {
    const { data } = JSON.parse(entry) as { data: { id: string; payload: object } };
    const headers = { "content-type": "application/json", "x-request-id": data.id };
    const request = { path: "/v1/completions", method: "POST", headers, body: JSON.stringify(data.payload) } as const;
    const answer = new Answer((status, body) => {
      free++;
      const result = JSON.stringify({ id: data.id, status_code: status, payload: body });
      if (done.push({ claim, result }) === 1) setImmediate(write);
      void take();
    });
    pool.dispatch(request, answer);
  };
  const take = async (): Promise<void> => {
    if (claiming || free === 0) return;
    claiming = true;
    // What comes free in the same turn is claimed for together.
    await new Promise(setImmediate);
    const room = free;
    free = 0;
    const first = claims;
    claims += room;
    const keys = { keys: ["q", "bare:claims"], arguments: [String(room), String(first)] };
    const taken = (await client.evalSha(script, keys)) as string[];
    free += room - taken.length / 2;
    for (let i = 0; i < taken.length; i += 2) post(taken[i]!, String(first + i / 2));
    claiming = false;
    if (taken.length > 0) void take();
  };
  process.on("message", (count: number) => {
    left = count;
    void take();
  });
  process.on("disconnect", () => process.exit());
  process.send?.("ready");
}

if (import.meta.main) await main(JSON.parse(process.argv[2]!) as BareLoopSettings);
