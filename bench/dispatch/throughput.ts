import { type DispatchStore, RedisStore, type StoreKind } from "../../test/support/dispatch-store.ts";
import type { GatewayProcess } from "../../test/support/gateway-process.ts";
import { startBareLoop } from "./bare-loop.ts";
import { type RedisWork, redisWork } from "./redis-work.ts";
import { cpuSeconds, memory, requests, resultsOf, withRig } from "./rig.ts";

export interface Load {
  readonly kind: StoreKind;
  readonly messages: number;
  /** Bytes of each prompt. */
  readonly bytes: number;
  /** Queues that the messages are spread over, for the dispatcher; the bare loop has one. Default 1. */
  readonly queues?: number;
  /** Requests in flight; undefined = the default of 64. */
  readonly workers?: number;
  /** Milliseconds of the gateway. */
  readonly delay: number;
  readonly rounds: number;
}

export interface Figures {
  readonly perSecond: number;
  /** Milliseconds of processor time per message. */
  readonly cpuMs: number;
  /** Per message; NaN where there is no Redis. */
  readonly reads: number;
  readonly scripts: number;
  /** MiB at most. */
  readonly peak: number;
  readonly connections: number;
}

const DEFAULT_WORKERS = 64;

/** The backlog is written first; then the gateway, which has held what came until then, answers, and the clock runs. */
export function measureDispatch(load: Load): Promise<Figures> {
  return withRig(load.kind, async ({ store, gateway, start }) => {
    const dispatcher = await start({
      ...(load.workers === undefined ? {} : { workers: load.workers }),
      queueNames: queueNames(load),
    });
    const { pid } = dispatcher.process;
    const round = (messages: number, name: string) => timed(store, gateway, { ...load, messages }, pid, name);
    // Code is compiled on the way: the first messages do not count.
    await round(Math.min(5000, load.messages), "warm");
    return best(load.rounds, (at) => round(load.messages, `r${at}-`), pid);
  });
}

/** The first is the one that a store's producer uses. */
function queueNames({ queues = 1 }: Load): readonly string[] {
  return Array.from({ length: queues }, (_, at) => (at === 0 ? "q" : `q${at}`));
}

async function timed(
  store: DispatchStore,
  gateway: GatewayProcess,
  load: Load,
  pid: number,
  name: string,
): Promise<Figures> {
  const { messages, bytes, delay, workers = DEFAULT_WORKERS } = load;
  const names = queueNames(load);
  const all = requests(messages, bytes, name).map((request, at) => ({
    ...request,
    requestQueueName: names[at % names.length]!,
  }));
  const before = await store.countResults();
  await gateway.reset();
  await gateway.manner({ hold: true, delay });
  await store.submit(all);
  const inFlight = Math.min(workers, messages);
  await gateway.reaches(inFlight, 60_000);
  await gateway.manner({ hold: false });
  const counted = await begin(store, pid);
  const started = performance.now();
  await gateway.release();
  await gateway.reaches(messages, 300_000);
  const looks = await resultsOf(store, before + messages);
  const seconds = (performance.now() - started) / 1000;
  return counted({ messages: messages - inFlight, seconds, looks, gateway });
}

interface Counted {
  readonly messages: number;
  readonly seconds: number;
  /** How often this process has asked the store. */
  readonly looks: number;
  readonly gateway: GatewayProcess;
}

async function begin(store: DispatchStore, pid: number): Promise<(counted: Counted) => Promise<Figures>> {
  const work = async (): Promise<RedisWork> =>
    store instanceof RedisStore ? redisWork(store) : { reads: Number.NaN, scripts: Number.NaN };
  const workBefore = await work();
  const cpuBefore = cpuSeconds(pid);
  return async ({ messages, seconds, looks, gateway }) => {
    const cpu = cpuSeconds(pid) - cpuBefore;
    const after = await work();
    return {
      perSecond: messages / seconds,
      cpuMs: (cpu / messages) * 1000,
      // The two questions about the server's work are one read, since they are sent at once.
      reads: (after.reads - workBefore.reads - looks - 1) / messages,
      scripts: (after.scripts - workBefore.scripts) / messages,
      peak: memory(pid).peak,
      connections: (await gateway.stats()).connections,
    };
  };
}

/** The same with the bare loop; it has a queue of the same name, written the same way. */
export function measureBareLoop(load: Load): Promise<Figures> {
  return withRig("Redis", async ({ store, gateway }) => {
    const redis = store as RedisStore;
    const settings = { redis: redis.server.url, gateway: gateway.url, concurrency: load.workers ?? DEFAULT_WORKERS };
    const loop = await startBareLoop(settings);
    const round = async (messages: number, name: string): Promise<Figures> => {
      await gateway.reset();
      await gateway.manner({ delay: load.delay });
      await store.submit(requests(messages, load.bytes, name));
      const counted = await begin(store, loop.pid);
      const started = performance.now();
      await loop.run(messages);
      const seconds = (performance.now() - started) / 1000;
      return counted({ messages, seconds, looks: 0, gateway });
    };
    try {
      await round(Math.min(5000, load.messages), "warm");
      return await best(load.rounds, (at) => round(load.messages, `r${at}-`), loop.pid);
    } finally {
      loop.stop();
    }
  });
}

/** Of several rounds the best of each figure: what other work on the machine adds is never negative. */
async function best(rounds: number, round: (at: number) => Promise<Figures>, pid: number): Promise<Figures> {
  let found: Figures | undefined;
  for (let at = 0; at < rounds; at++) {
    const one = await round(at);
    found =
      found === undefined
        ? one
        : {
            ...one,
            perSecond: Math.max(found.perSecond, one.perSecond),
            cpuMs: Math.min(found.cpuMs, one.cpuMs),
            reads: Math.min(found.reads, one.reads),
            scripts: Math.min(found.scripts, one.scripts),
            connections: found.connections,
          };
  }
  return { ...found!, peak: memory(pid).peak };
}
