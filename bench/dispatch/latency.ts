import { connect } from "node:net";
import { Client } from "undici";
import type { DispatchStore, RedisStore, StoreKind } from "../../test/support/dispatch-store.ts";
import { cpuSeconds, inSeconds, memory, micros, pause, percentile, type Rig, withRig } from "./rig.ts";

export interface Spread {
  readonly p50: number;
  readonly p99: number;
}

export interface IdleFigures {
  /** Milliseconds from before the producer's call to the arrival at the gateway. */
  readonly latency: Spread;
  /** The same of a bare POST to the gateway, sent now and then in between: what the machine itself adds. */
  readonly floor: Spread;
  /** Cores while nothing happens, and the seconds that this was watched. */
  readonly cores: number;
  /** MiB. */
  readonly memory: number;
}

const PAYLOAD = JSON.stringify({ model: "sim", max_tokens: 16, prompt: "x".repeat(256) });

/** An idle system at default settings: what it costs, and how long single messages take through it. */
export function measureIdle(kind: StoreKind, messages: number, seconds: number): Promise<IdleFigures> {
  return withRig(kind, async (rig) => {
    const { pid } = (await rig.start()).process;
    await oneByOne(rig, 50);
    // What starting and these have left behind is over.
    await pause(1000);
    const before = cpuSeconds(pid);
    await pause(seconds * 1000);
    const cores = (cpuSeconds(pid) - before) / seconds;
    const idle = memory(pid).now;
    const { latency, floor } = await oneByOne(rig, messages);
    return { latency: spread(latency), floor: spread(floor), cores, memory: idle };
  });
}

interface Latencies {
  readonly latency: readonly number[];
  readonly floor: readonly number[];
}

/** Milliseconds each; a message is submitted when the one before is long over. */
async function oneByOne({ store, gateway }: Rig, count: number): Promise<Latencies> {
  const bare = new Client(gateway.url);
  await gateway.manner({ arrivals: true });
  await gateway.reset();
  for (let i = 0; i < count; i++) {
    await submitStamped(store, 1, i);
    await pause(10 + (i % 7));
    const headers = { "x-request-id": `b${Math.round(micros())}` };
    const answer = await bare.request({ path: "/", method: "POST", headers, body: PAYLOAD });
    await answer.body.dump();
    await pause(5);
  }
  await gateway.reaches(2 * count);
  await bare.close();
  const { arrivals } = await gateway.stats();
  return { latency: latencies(arrivals, "t"), floor: latencies(arrivals, "b") };
}

/** Messages whose ids tell when they were submitted. */
export async function submitStamped(store: DispatchStore, count: number, n: number): Promise<void> {
  const deadline = inSeconds(3600);
  const stamp = Math.round(micros());
  await store.submit(
    Array.from({ length: count }, (_, i) => ({ id: `t${stamp}-${n}-${i}`, deadline, payload: PAYLOAD })),
  );
}

/** From the stamp in an id to its arrival; milliseconds. */
export function latencies(arrivals: readonly (readonly [id: string, at: number])[], prefix: string): readonly number[] {
  return arrivals.filter(([id]) => id.startsWith(prefix)).map(([id, at]) => (at - Number(/\d+/.exec(id)![0])) / 1000);
}

export function spread(values: readonly number[]): Spread {
  return { p50: percentile(values, 0.5), p99: percentile(values, 0.99) };
}

/**
 * Milliseconds from claim to arrival at the gateway, with free workers: small groups of messages, so many per second. When
 * a message was claimed is what the server itself says (MONITOR shows the claim being written, with its time).
 */
export function measurePullToDispatch(groups: number): Promise<Spread> {
  return withRig("Redis", async (rig) => {
    await rig.start();
    await oneByOne(rig, 50);
    const claims = await watchClaims((rig.store as RedisStore).server.port);
    await rig.gateway.reset();
    let sent = 0;
    for (let group = 0; group < groups; group++) {
      const size = 1 + (group % 8);
      await submitStamped(rig.store, size, group);
      sent += size;
      await pause(10);
    }
    await rig.gateway.reaches(sent);
    const { arrivals } = await rig.gateway.stats();
    const claimed = claims.stop();
    const waits = arrivals.flatMap(([id, at]) => {
      const from = claimed.get(id);
      return from === undefined ? [] : [(at - from) / 1000];
    });
    if (waits.length < sent * 0.99) throw new Error(`only ${waits.length} of ${sent} claims were seen`);
    return spread(waits);
  });
}

/** Reads from a server's monitor when which message is claimed, Unix microseconds by id. */
async function watchClaims(port: number): Promise<{ stop(): ReadonlyMap<string, number> }> {
  const claimed = new Map<string, number>();
  const socket = connect(port, "127.0.0.1");
  let rest = "";
  socket.setEncoding("latin1");
  socket.on("data", (text: string) => {
    const lines = (rest + text).split("\r\n");
    rest = lines.pop()!;
    for (const line of lines) {
      if (!line.includes('"HSET" "{q}:claims"')) continue;
      const at = Number(/^\+([\d.]+)/.exec(line)?.[1]) * 1e6;
      for (const [, id] of line.matchAll(/\\"id\\":\\"(t[\d-]+)\\"/g)) claimed.set(id!, at);
    }
  });
  await new Promise<void>((resolve) => socket.once("connect", resolve));
  await new Promise<void>((resolve) => {
    socket.once("data", () => resolve());
    socket.write("MONITOR\r\n");
  });
  return {
    stop() {
      socket.destroy();
      return claimed;
    },
  };
}
