import type { Profiler as CpuProfiler, HeapProfiler } from "node:inspector/promises";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { type Clock, delay } from "../../base/clock/clock.ts";
import { type CallFrame, encodeProfile, type ProfileHead, type StackSample } from "./pprof.ts";
import type { Profiler } from "./server.ts";

/** Microseconds between two samples of the CPU profile, and bytes between two of the heap's. */
const CPU_INTERVAL = 1000;
const HEAP_INTERVAL = 32 * 1024;

/** Calls of the inspector's protocol, as `Session` of node:inspector makes them. */
export interface InspectorSession {
  connect(): void;
  disconnect(): void;
  post(method: "Profiler.stop"): Promise<CpuProfiler.StopReturnType>;
  post(method: "HeapProfiler.stopSampling"): Promise<HeapProfiler.StopSamplingReturnType>;
  post(method: string, parameters?: object): Promise<unknown>;
}

/** Opens a session; undefined where Node.js was built without its inspector. */
async function openSession(): Promise<InspectorSession | undefined> {
  try {
    const { Session } = await import("node:inspector/promises");
    return new Session() as InspectorSession;
  } catch {
    return undefined;
  }
}

/** Profiles this process with V8's samplers, in pprof's format. Costs nothing while no profile runs. */
export function inspectorProfiler(
  clock: Clock,
  open: () => Promise<InspectorSession | undefined> = openSession,
): Profiler {
  let busy = false;
  return {
    async take(kind, seconds, signal) {
      if (busy) return "busy";
      busy = true;
      let session: InspectorSession | undefined;
      try {
        session = await open();
        if (session === undefined) return "unavailable";
        session.connect();
        const startMs = clock.wall();
        const start = clock.now();
        const wait = async (): Promise<number> => {
          // When the client leaves, the profile ends early. That is no failure.
          await delay(clock, seconds * 1000, signal).catch(() => {});
          return clock.now() - start;
        };
        const profile = await (kind === "profile" ? cpu(session, startMs, wait) : heap(session, startMs, wait));
        return new Uint8Array(await promisify(gzip)(profile));
      } finally {
        session?.disconnect();
        busy = false;
      }
    },
  };
}

/** The inputs of both kinds: the session, its start, and a wait that returns the duration. */
type Taking = (session: InspectorSession, startMs: number, wait: () => Promise<number>) => Promise<Uint8Array>;

const cpu: Taking = async (session, startMs, wait) => {
  await session.post("Profiler.enable");
  await session.post("Profiler.setSamplingInterval", { interval: CPU_INTERVAL });
  await session.post("Profiler.start");
  const durationMs = await wait();
  const { profile } = await session.post("Profiler.stop");
  await session.post("Profiler.disable");
  const head: ProfileHead = {
    types: [
      ["samples", "count"],
      ["cpu", "nanoseconds"],
    ],
    periodType: ["cpu", "nanoseconds"],
    period: CPU_INTERVAL * 1000,
    startMs,
    durationMs,
  };
  return encodeProfile(head, cpuSamples(profile));
};

const heap: Taking = async (session, startMs, wait) => {
  await session.post("HeapProfiler.enable");
  await session.post("HeapProfiler.startSampling", { samplingInterval: HEAP_INTERVAL });
  const durationMs = await wait();
  const { profile } = await session.post("HeapProfiler.stopSampling");
  await session.post("HeapProfiler.disable");
  const head: ProfileHead = {
    types: [["inuse_space", "bytes"]],
    periodType: ["space", "bytes"],
    period: HEAP_INTERVAL,
    startMs,
    durationMs,
  };
  return encodeProfile(head, heapSamples(profile.head));
};

/** The stacks of a CPU profile with their samples and time. Time spent waiting for events is no CPU time and is left out. */
export function cpuSamples({ nodes, samples = [], timeDeltas = [] }: CpuProfiler.Profile): StackSample[] {
  const parents = new Map<number, number>();
  const byId = new Map(nodes.map((node) => [node.id, node]));
  for (const { id, children } of nodes) for (const child of children ?? []) parents.set(child, id);
  const measured = new Map<number, { count: number; microseconds: number }>();
  for (let i = 0; i < samples.length; i++) {
    const own = measured.get(samples[i]!) ?? { count: 0, microseconds: 0 };
    own.count++;
    // V8 may take two samples out of order.
    own.microseconds += Math.max(0, timeDeltas[i] ?? 0);
    measured.set(samples[i]!, own);
  }
  const stacks: StackSample[] = [];
  for (const [id, { count, microseconds }] of measured) {
    const frames: CallFrame[] = [];
    for (let at: number | undefined = id; at !== undefined; at = parents.get(at)) {
      const node = byId.get(at);
      if (node !== undefined && parents.has(at)) frames.push(node.callFrame);
    }
    if (frames.length > 0 && frames[0]!.functionName !== "(idle)")
      stacks.push({ frames, values: [count, microseconds * 1000] });
  }
  return stacks;
}

/** The stacks of a heap profile with the bytes allocated there. */
export function heapSamples(root: HeapProfiler.SamplingHeapProfileNode): StackSample[] {
  const stacks: StackSample[] = [];
  const open: { node: HeapProfiler.SamplingHeapProfileNode; callers: readonly CallFrame[] }[] = [];
  for (const node of root.children) open.push({ node, callers: [] });
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { node, callers } = next;
    const frames = [node.callFrame, ...callers];
    if (node.selfSize > 0) stacks.push({ frames, values: [Math.round(node.selfSize)] });
    for (const child of node.children) open.push({ node: child, callers: frames });
  }
  return stacks;
}
