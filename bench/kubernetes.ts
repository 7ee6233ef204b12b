/**
 * What following a cluster costs: CPU per change of a pod, and memory, beside a bare loop that reads the same bytes, cuts
 * them into lines, has JSON.parse read each line and keeps the objects. And for how long requests wait while thousands of pods
 * are listed anew, since they are decided in the same thread.
 *
 *   node --expose-gc bench/kubernetes.ts [--pods 1000] [--updates 20000] [--rounds 3] [--listed 5000] [--lists 7]
 *
 * A child process plays the API server: 1,000 pods of about 7 KB, as real ones have, then 20,000 changes as fast as they are
 * taken, most of them of no interest. Here list, watch, projection, selection and the registry of endpoints are the
 * program's own, and all kinds are followed. CPU is this process's own, user and system; rounds alternate and the best of
 * each counts. Memory is what the heap holds after the last change beyond what it held before.
 *
 * Then 5,000 pods are listed over and over, because the version that was known has expired. The longest stretch is the longest
 * time between two turns of the event loop in a list; the best of the lists counts, the others were disturbed. It is compared with
 * JSON.parse of a page of 100 of these pods, the median of 51.
 *
 * Ends with PASS or FAIL: a change at most 1.25 times the bare loop, at most a quarter of its memory, and no stretch above 3 times
 * that page.
 */
import { fork } from "node:child_process";
import { get, type IncomingMessage } from "node:http";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { SeededRandom } from "../src/base/clock/random.ts";
import { realClock } from "../src/base/clock/real.ts";
import { silentLogger } from "../src/base/telemetry/logger.ts";
import { ClusterState } from "../src/pool/controllers/cluster-state.ts";
import { EndpointRegistry } from "../src/pool/endpoints/registry.ts";
import { HttpApiClient } from "../src/pool/kubernetes/http-client.ts";
import { ResourceStore } from "../src/pool/resources/resource-store.ts";

const CPU_LIMIT = 1.25;
const MEMORY_LIMIT = 0.25;
const STRETCH_LIMIT = 3;
const NAMESPACE = "bench";
const PODS = `/api/v1/namespaces/${NAMESPACE}/pods`;
/** Address that the last change gives to a pod. */
const END = "10.255.255.255";

const { values } = parseArgs({
  options: {
    pods: { type: "string", default: "1000" },
    updates: { type: "string", default: "20000" },
    rounds: { type: "string", default: "3" },
    listed: { type: "string", default: "5000" },
    lists: { type: "string", default: "7" },
  },
});
const [pods, updates, rounds] = [Number(values.pods), Number(values.updates), Number(values.rounds)];

interface Cost {
  /** Microseconds of CPU per change. */
  readonly cpu: number;
  /** Bytes that stay. */
  readonly heap: number;
}

interface Pod {
  readonly metadata: { readonly name: string };
  readonly status: { readonly podIP: string };
}

function heapUsed(): number {
  const { gc } = globalThis;
  if (gc === undefined) throw new Error("run it with node --expose-gc");
  gc();
  gc();
  return process.memoryUsage().heapUsed;
}

function cpu(): number {
  const { user, system } = process.cpuUsage();
  return user + system;
}

/** Runs one way of following the pods; `start` resolves when all are listed, its `end` when the last change was seen. */
async function measure(
  start: () => Promise<{ end(): Promise<void>; close(): Promise<void>; size(): number }>,
): Promise<Cost> {
  const before = heapUsed();
  const began = cpu();
  const { end, close, size } = await start();
  await end();
  const spent = (cpu() - began) / updates;
  const heap = heapUsed() - before;
  if (size() < pods / 2) throw new Error(`only ${size()} of ${pods} are known in the end`);
  await close();
  return { cpu: spent, heap };
}

function answer(port: number, path: string): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    get({ host: "127.0.0.1", port, path }, resolve).on("error", reject);
  });
}

/** What anybody has to do who wants to know the pods. */
function bare(port: number): Promise<Cost> {
  return measure(async () => {
    const known = new Map<string, Pod>();
    for (let from = ""; ; ) {
      const chunks: Buffer[] = [];
      for await (const chunk of await answer(port, `${PODS}?limit=500&continue=${from}`)) chunks.push(chunk as Buffer);
      const { metadata, items } = JSON.parse(Buffer.concat(chunks).toString()) as {
        metadata: { continue?: string };
        items: Pod[];
      };
      for (const pod of items) known.set(pod.metadata.name, pod);
      if (metadata.continue === undefined) break;
      from = metadata.continue;
    }
    const watch = await answer(port, `${PODS}?watch=true`);
    const take = async (): Promise<void> => {
      let rest: Buffer = Buffer.alloc(0);
      for await (const chunk of watch) {
        const bytes = rest.length === 0 ? (chunk as Buffer) : Buffer.concat([rest, chunk as Buffer]);
        let from = 0;
        for (let at = bytes.indexOf(10); at >= 0; at = bytes.indexOf(10, from)) {
          const { type, object } = JSON.parse(bytes.toString("utf8", from, at)) as { type: string; object: Pod };
          from = at + 1;
          if (type === "DELETED") known.delete(object.metadata.name);
          else known.set(object.metadata.name, object);
          if (object.status.podIP === END) return;
        }
        rest = bytes.subarray(from);
      }
    };
    return { end: take, close: async () => void watch.destroy(), size: () => known.size };
  });
}

/** The program's own way, endpoints included. */
function following(port: number) {
  const random = new SeededRandom(1);
  const endpoints = new EndpointRegistry({ clock: realClock, random });
  const parts = { clock: realClock, random, log: silentLogger, namespace: NAMESPACE };
  const api = new HttpApiClient({
    server: `http://127.0.0.1:${port}`,
    credentials: { ca: undefined, insecureSkipVerify: false, token: async () => undefined },
    clock: realClock,
  });
  const state = new ClusterState({
    ...{ ...parts, api, endpoints },
    source: { kind: "pool", name: "pool", group: undefined },
    store: new ResourceStore(),
  });
  state.start();
  const close = async (): Promise<void> => {
    state.close();
    await api.close();
  };
  return { state, endpoints, close };
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

function followed(port: number): Promise<Cost> {
  return measure(async () => {
    const { endpoints, close } = following(port);
    const last = async (): Promise<void> => {
      while (endpoints.get(`${NAMESPACE}/vllm-llama-3-1-8b-0-rank-0`)?.address !== END) await pause(10);
    };
    return { end: last, close, size: () => endpoints.size };
  });
}

/** Milliseconds: the longest time between two turns of the event loop until `done`. */
async function longestStretch(done: () => boolean): Promise<number> {
  let longest = 0;
  for (let last = performance.now(); !done(); ) {
    await new Promise((resolve) => setImmediate(resolve));
    const now = performance.now();
    longest = Math.max(longest, now - last);
    last = now;
  }
  return longest;
}

/** Lists so many pods over and over; milliseconds of the longest stretch in each list, and of parsing a page of 100. */
async function relists(): Promise<{ readonly stretches: readonly number[]; readonly page: number }> {
  const { server, at } = await podStream(Number(values.listed), 0);
  const chunks: Buffer[] = [];
  for await (const chunk of await answer(at, `${PODS}?limit=100`)) chunks.push(chunk as Buffer);
  const text = Buffer.concat(chunks).toString();
  const parses = Array.from({ length: 51 }, () => {
    const began = performance.now();
    JSON.parse(text);
    return performance.now() - began;
  });
  const { state, close } = following(at);
  const pods = () => state.kinds()[0]!.state;
  const listed = async (times: number): Promise<number> => {
    const longest = await longestStretch(() => pods().lists >= times);
    // Changes of many pods are taken in turns, after the list.
    return Math.max(longest, await longestStretch(() => pods().watches >= times));
  };
  await listed(1);
  const stretches: number[] = [];
  for (let times = 2; times < Number(values.lists) + 2; times++) {
    server.send("expire");
    stretches.push(await listed(times));
    await pause(50);
  }
  await close();
  server.disconnect();
  return { stretches, page: parses.sort((a, b) => a - b)[25]! };
}

const best = (costs: readonly Cost[]): Cost => ({
  cpu: Math.min(...costs.map((cost) => cost.cpu)),
  heap: Math.min(...costs.map((cost) => cost.heap)),
});

async function podStream(count: number, changes: number) {
  const server = fork(join(import.meta.dirname, "support", "pod-stream.ts"), [String(count), String(changes)]);
  const at = await new Promise<number>((resolve) => server.once("message", (message) => resolve(message as number)));
  return { server, at };
}

const { server: child, at: port } = await podStream(pods, updates);
const costs: { bare: Cost[]; ours: Cost[] } = { bare: [], ours: [] };
for (let round = -1; round < rounds; round++) {
  const [loop, ours] = [await bare(port), await followed(port)];
  // The first ones warm the code.
  if (round < 0) continue;
  costs.bare.push(loop);
  costs.ours.push(ours);
}
child.disconnect();
const [loop, ours] = [best(costs.bare), best(costs.ours)];
const [time, memory] = [ours.cpu / loop.cpu, ours.heap / loop.heap];
const row = (name: string, { cpu: each, heap }: Cost, ratio = ""): string =>
  `${name.padEnd(12)} ${each.toFixed(0).padStart(8)} us ${(heap / 1024 / 1024).toFixed(1).padStart(10)} MiB   ${ratio}`;
console.log(`${pods} pods, ${updates} changes    CPU per change and what the heap holds`);
console.log(row("bare loop", loop));
console.log(row("followed", ours, `${time.toFixed(2)} x the CPU, ${memory.toFixed(2)} x the memory of the bare loop`));

const { stretches, page } = await relists();
const stretch = Math.min(...stretches);
console.log(`\n${values.listed} pods listed anew    longest stretch of the event loop`);
console.log(`JSON.parse of a page of 100 pods ${page.toFixed(1).padStart(6)} ms`);
console.log(
  `the best of ${stretches.length} lists ${stretch.toFixed(1).padStart(18)} ms   ${(stretch / page).toFixed(2)} x that page`,
);
console.log(`all of them: ${stretches.map((each) => each.toFixed(1)).join(" ")} ms`);

const passed = time <= CPU_LIMIT && memory <= MEMORY_LIMIT && stretch / page <= STRETCH_LIMIT;
console.log(`\n${passed ? "PASS" : "FAIL"}: limits ${CPU_LIMIT} x, ${MEMORY_LIMIT} x and ${STRETCH_LIMIT} x`);
process.exitCode = passed ? 0 : 1;
