import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { readTree, spent } from "./cpu.ts";
import type { Load, Measured } from "./figures.ts";
import { readBusyMs } from "./others.ts";
import type { Running } from "./subjects.ts";

function residentMib(pid: number): number {
  try {
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) / 1024;
  } catch {
    return 0;
  }
}

/** Runs the client on core 1 against a subject. @param client its program @param args further arguments of it */
export async function load(client: string, running: Running, args: readonly string[]): Promise<Measured> {
  const header = running.header === undefined ? [] : ["--header", running.header];
  const target = ["--target", `127.0.0.1:${running.port}`, "--model", running.model, ...header, ...args];
  const child = spawn("taskset", ["-c", "1", client, ...target], { stdio: ["ignore", "pipe", "inherit"] });
  const ended = new Promise<number | null>((resolve) => child.once("exit", resolve));
  const roots = running.processes.map(({ pid }) => pid);
  const reading = () => ({ of: readTree(roots), own: readTree([process.pid]), busy: readBusyMs() });
  let before = reading();
  let measured: Measured | undefined;
  for await (const text of createInterface({ input: child.stdout })) {
    const now = reading();
    if (text === "begin") before = now;
    else {
      const load = JSON.parse(text) as Load;
      const others = now.busy - before.busy - spent(before.own, now.own);
      measured = {
        load,
        cpuMs: spent(before.of, now.of),
        mib: [...now.of.keys()].reduce((sum, pid) => sum + residentMib(pid), 0),
        others: Math.max(0, others / 1000 / load.seconds),
      };
    }
  }
  if ((await ended) !== 0 || measured === undefined) throw new Error("the client of bench/proxy-load failed");
  return measured;
}
