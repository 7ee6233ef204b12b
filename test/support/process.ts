import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import { parseReadyLine } from "../../src/app/ready-line.ts";
import { poll } from "./poll.ts";

export const ROOT = join(import.meta.dirname, "..", "..");

/** A process that a test started; ended by its pid and by nothing else. */
export class TestProcess {
  readonly child: ChildProcess;
  stdout = "";
  stderr = "";
  exit: { readonly code: number | null; readonly signal: NodeJS.Signals | null } | undefined;

  constructor(program: string, args: readonly string[], options: { cwd?: string; env?: NodeJS.ProcessEnv } = {}) {
    this.child = spawn(program, args, {
      stdio: ["ignore", "pipe", "pipe"],
      cwd: options.cwd ?? ROOT,
      env: options.env ?? process.env,
    });
    this.child.stdout!.on("data", (chunk: Buffer) => {
      this.stdout = (this.stdout + chunk.toString()).slice(-200_000);
    });
    this.child.stderr!.on("data", (chunk: Buffer) => {
      this.stderr = (this.stderr + chunk.toString()).slice(-200_000);
    });
    this.child.on("exit", (code, signal) => {
      this.exit = { code, signal };
    });
    LIVE.add(this);
  }

  get pid(): number {
    return this.child.pid!;
  }

  /** The address that the ready line of `name` announced. */
  async listening(name: string, limitMs = 20_000): Promise<string> {
    return poll(
      `the ready line of ${name}`,
      () => {
        for (const line of `${this.stdout}\n${this.stderr}`.split("\n")) {
          const ready = parseReadyLine(line);
          if (ready?.name === name) return ready.address;
        }
        if (this.exit !== undefined) throw new Error(`ended with ${JSON.stringify(this.exit)}: ${this.stderr}`);
        return undefined;
      },
      limitMs,
    );
  }

  /** Sends a signal and waits for the end. */
  async stop(signal: NodeJS.Signals = "SIGKILL", limitMs = 15_000): Promise<void> {
    if (this.exit === undefined) this.child.kill(signal);
    await this.ended(limitMs);
  }

  async ended(limitMs = 15_000): Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }> {
    const exit = await poll(`the end of ${this.child.spawnargs.join(" ").slice(0, 200)}`, () => this.exit, limitMs);
    LIVE.delete(this);
    return exit;
  }
}

const LIVE = new Set<TestProcess>();

// Whatever a failing test leaves behind ends with the test run.
process.on("exit", () => {
  for (const left of LIVE) left.child.kill("SIGKILL");
});

/** Runs `sluice` from the sources. */
export function sluice(...args: readonly string[]): TestProcess {
  return new TestProcess(process.execPath, [join(ROOT, "src", "cli", "main.ts"), ...args]);
}

/** Resident memory of a process in MiB, from /proc. */
export async function residentMiB(pid: number): Promise<number> {
  const { readFile } = await import("node:fs/promises");
  const match = /VmRSS:\s+(\d+) kB/.exec(await readFile(`/proc/${pid}/status`, "utf8"));
  return Number(match?.[1] ?? Number.NaN) / 1024;
}
