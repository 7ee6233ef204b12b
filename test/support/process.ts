import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import { parseReadyLine } from "../../src/base/process/lifecycle.ts";
import { InVain, poll } from "./poll.ts";
import { fixedLimit } from "./slowness.ts";

export const ROOT = join(import.meta.dirname, "..", "..");
/**
 * The program that tests start. The lanes with real parts build `dist/` first and name it here (`scripts/lanes.ts`): users run it, and it
 * starts in less CPU time. A test that somebody starts by hand runs the sources, so it never meets an old build.
 */
export const PROGRAM = process.env["SLUICE_PROGRAM"] ?? join(ROOT, "src", "commands", "main.ts");

/** A process that a test started; ended by its pid and by nothing else. */
export class TestProcess {
  readonly child: ChildProcess;
  stdout = "";
  stderr = "";
  exit: { readonly code: number | null; readonly signal: NodeJS.Signals | null } | undefined;
  /** Everything that it said has been read. */
  #silent = false;

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
    this.child.on("close", () => {
      this.#silent = true;
    });
    // A program that is not there never begins, and has no end of its own either.
    this.child.on("error", (error) => {
      this.stderr += String(error);
      this.exit ??= { code: null, signal: null };
    });
    LIVE.add(this);
  }

  get pid(): number {
    return this.child.pid!;
  }

  /** The address that the ready line of `name` announced. */
  async listening(name: string, limitMs = 60_000): Promise<string> {
    const address = (): string | undefined => {
      for (const line of `${this.stdout}\n${this.stderr}`.split("\n")) {
        // With --log-format=json, the ready line is the message of a JSON line.
        const ready = parseReadyLine(/^\{.*"msg":"(listening [^"]*)"\}$/.exec(line)?.[1] ?? line);
        if (ready?.name === name) return ready.address;
      }
      return undefined;
    };
    return this.until(`the ready line of ${name}`, address, limitMs);
  }

  /**
   * Waits as `poll` does for something that this process brings about. When it ends instead that fails at once, and in
   * either case the message has the last of what it said.
   * @param limitMs milliseconds
   */
  async until<T>(what: string, probe: () => T | Promise<T>, limitMs?: number): Promise<NonNullable<T>> {
    let endedAt: number | undefined;
    const look = async (): Promise<T> => {
      let seen: T | undefined;
      let problem: unknown;
      try {
        seen = await probe();
        if (seen) return seen;
      } catch (error) {
        problem = error;
      }
      // Its last words may come a moment after its end, unless whoever inherited its pipes keeps them open.
      if (this.exit !== undefined) endedAt ??= performance.now();
      if (endedAt !== undefined && (this.#silent || performance.now() > endedAt + fixedLimit(1000)))
        throw new InVain(`${what}: ended with ${JSON.stringify(this.exit)}`);
      if (problem !== undefined) throw problem;
      return seen as T;
    };
    try {
      return await poll(what, look, limitMs);
    } catch (error) {
      throw new (error instanceof InVain ? InVain : Error)(`${(error as Error).message}\n${this.#lastWords()}`);
    }
  }

  /** Sends a signal and waits for the end. */
  async stop(signal: NodeJS.Signals = "SIGKILL", limitMs = 60_000): Promise<void> {
    if (this.exit === undefined) this.child.kill(signal);
    await this.ended(limitMs);
  }

  /** Waits for the end, and for what it said before that. */
  async ended(limitMs = 15_000): Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }> {
    const what = `the end of ${this.child.spawnargs.join(" ").slice(0, 200)}`;
    const exit = await poll(what, () => this.exit, limitMs).catch((error: Error) => {
      throw new Error(`${error.message}\n${this.#lastWords()}`);
    });
    // Its last words may come a moment after its end, unless whoever inherited its pipes keeps them open.
    await poll("its last words", () => this.#silent, 1000).catch(() => {});
    LIVE.delete(this);
    return exit;
  }

  #lastWords(): string {
    const said = [this.stdout, this.stderr].map((text) => text.trimEnd().slice(-3000));
    return `--- ${this.child.spawnfile} (pid ${this.child.pid}) said\n${said.filter((text) => text !== "").join("\n---\n")}`;
  }
}

const LIVE = new Set<TestProcess>();

// Whatever a failing test leaves behind ends with the test run. The runner ends its workers with SIGTERM, after which no "exit" comes.
process.on("exit", killLeft);
process.on("SIGTERM", terminated);

function killLeft(): void {
  for (const left of LIVE) left.child.kill("SIGKILL");
}

function terminated(): void {
  killLeft();
  process.off("SIGTERM", terminated);
  // Nobody else listens: the signal ends this process, as it would without us.
  if (process.listenerCount("SIGTERM") === 0) process.kill(process.pid, "SIGTERM");
}

/** What `compiled.ts` adds to the environment, for processes that shall have nothing else of this one's. */
export function compiledBefore(): Record<string, string> {
  const folder = process.env["NODE_COMPILE_CACHE"];
  return folder === undefined ? {} : { NODE_COMPILE_CACHE: folder };
}

/** Runs `sluice`. */
export function sluice(...args: readonly string[]): TestProcess {
  return new TestProcess(process.execPath, [PROGRAM, ...args]);
}

/** Resident memory of a process in MiB, from /proc. */
export async function residentMiB(pid: number): Promise<number> {
  const { readFile } = await import("node:fs/promises");
  const match = /VmRSS:\s+(\d+) kB/.exec(await readFile(`/proc/${pid}/status`, "utf8"));
  return Number(match?.[1] ?? Number.NaN) / 1024;
}
