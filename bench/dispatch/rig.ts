import { readFileSync } from "node:fs";
import type { SubmitRequest } from "../../src/async/brokers/queue-client.ts";
import { DispatchProcess, type DispatchProcessOptions } from "../../test/support/dispatch-process.ts";
import { type DispatchStore, openStore, RedisStore, type StoreKind } from "../../test/support/dispatch-store.ts";
import { GatewayProcess } from "../../test/support/gateway-process.ts";

/** What rows need: a store of their own, a gateway in a process of its own, and the dispatcher between them. */
export interface Rig {
  readonly store: DispatchStore;
  readonly gateway: GatewayProcess;
  start(options?: Partial<DispatchProcessOptions>): Promise<DispatchProcess>;
  close(): Promise<void>;
}

/** Redis runs without persistence, as it did when the reference was measured. */
export async function openRig(kind: StoreKind): Promise<Rig> {
  const store = kind === "Redis" ? await RedisStore.start(false) : await openStore(kind);
  const gateway = await GatewayProcess.start();
  const running: DispatchProcess[] = [];
  return {
    store,
    gateway,
    async start(options = {}) {
      const started = await DispatchProcess.start({ transport: store.transport, gateway: gateway.url, ...options });
      running.push(started);
      return started;
    },
    async close() {
      for (const { process } of running) await process.stop("SIGTERM");
      await gateway.stop();
      await store.close();
    },
  };
}

/** Runs `measure` on a rig of its own. */
export async function withRig<T>(kind: StoreKind, measure: (rig: Rig) => Promise<T>): Promise<T> {
  const rig = await openRig(kind);
  try {
    return await measure(rig);
  } finally {
    await rig.close();
  }
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Unix microseconds. */
export function micros(): number {
  return (performance.timeOrigin + performance.now()) * 1000;
}

/** Unix seconds, whole. */
export function inSeconds(seconds: number): number {
  return Math.floor(micros() / 1e6) + seconds;
}

/** Requests with a prompt of so many bytes. */
export function requests(count: number, bytes: number, prefix = "m"): SubmitRequest[] {
  const deadline = inSeconds(3600);
  const payload = JSON.stringify({
    model: "sim",
    max_tokens: 16,
    prompt: "lorem ipsum ".repeat(bytes / 12 + 1).slice(0, bytes),
  });
  return Array.from({ length: count }, (_, i) => ({ id: `${prefix}${i}`, deadline, payload }));
}

/** Seconds of processor time that a process has used, user and system, all threads; in steps of 0.01. */
export function cpuSeconds(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
    .replace(/^.*\) /s, "")
    .split(" ");
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

/** MiB of memory that a process has now, and had at most. */
export function memory(pid: number): { readonly now: number; readonly peak: number } {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const mib = (name: string): number => Number(new RegExp(`${name}:\\s+(\\d+) kB`).exec(status)?.[1]) / 1024;
  return { now: mib("VmRSS"), peak: mib("VmHWM") };
}

/** The value below which a share of them lies. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

/** Waits until a store has so many results, looking every 5 ms. @returns how often it looked */
export async function resultsOf(store: DispatchStore, count: number, limitMs = 120_000): Promise<number> {
  const end = performance.now() + limitMs;
  for (let looks = 1; ; looks++) {
    if ((await store.countResults()) >= count) return looks;
    if (performance.now() > end) throw new Error(`${await store.countResults()} of ${count} results in ${limitMs} ms`);
    await pause(5);
  }
}
