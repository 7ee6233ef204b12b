import { type ChildProcess, spawn } from "node:child_process";
import { createServer } from "node:net";
import { createInterface } from "node:readline";
import type { Clock, Timer } from "../../base/clock/clock.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import { parseReadyLine } from "../../base/process/lifecycle.ts";

interface PartProcessOptions {
  readonly name: string;
  /** Program and arguments that run `sluice`. */
  readonly program: readonly string[];
  /** The command of `sluice`. */
  readonly command: string;
  /** Flags of the command. @param port to listen on, 0 = any free port */
  flags(port: number): readonly string[];
  /** Name in the ready line that contains the part's port. */
  readonly ready: string;
  /** Milliseconds between its kill and its restart. */
  readonly absence: number;
  readonly clock: Clock;
  /** Called when the process started, was killed or died. */
  onChange(text: string): void;
}

/** One part of the demo in its own process. After a kill it restarts on the same port. */
export class PartProcess {
  readonly name: string;
  readonly #options: PartProcessOptions;
  #child: ChildProcess | undefined;
  #port = 0;
  #stopped = false;
  /** The restart that is due; undefined = none is. */
  #due: { readonly timer: Timer; run(): void } | undefined;

  constructor(options: PartProcessOptions) {
    this.name = options.name;
    this.#options = options;
  }

  /** 0 before the first start. */
  get port(): number {
    return this.#port;
  }

  /** Undefined while the process does not run. */
  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /**
   * Starts the process and waits for its ready line.
   * @param port 0 = any free port
   * @throws SluiceError DEMO_SERVER when the process ends before it is ready
   */
  start(port: number): Promise<void> {
    return new Promise((resolve, reject) => this.#spawn(port, resolve, reject));
  }

  /** Kills the process without warning, as an outside kill would; it restarts on the same port. */
  kill(): void {
    this.#child?.kill("SIGKILL");
  }

  /** Restarts a process that was killed at once, and not at the end of its absence. No effect while it runs. */
  startNow(): void {
    const due = this.#due;
    due?.timer.cancel();
    due?.run();
  }

  /** Ends the process for good; resolves after its exit. */
  async stop(): Promise<void> {
    this.#stopped = true;
    const child = this.#child;
    if (child === undefined) return;
    const gone = new Promise<void>((resolve) => child.once("exit", () => resolve()));
    child.kill("SIGKILL");
    await gone;
  }

  /** @param failed called when the very first process ends before it is ready; later processes are restarted */
  #spawn(port: number, resolve: () => void, failed: (error: SluiceError) => void): void {
    const { program, command, flags, onChange } = this.#options;
    // The pipe to stdin closes when this process ends in any way, so no child process remains.
    const [file, ...words] = [...program, command, "--until-stdin-closes", ...flags(port)];
    const child = spawn(file!, words, { stdio: ["pipe", "pipe", "pipe"] });
    this.#child = child;
    let errors = "";
    child.stderr.on("data", (chunk: Buffer) => {
      errors = (errors + chunk.toString()).slice(-2000);
    });
    const onLine = (line: string): void => {
      const announced = parseReadyLine(line);
      if (announced?.name !== this.#options.ready) return;
      this.#port = Number(announced.address.slice(announced.address.lastIndexOf(":") + 1));
      onChange(`${this.name} is up: pid ${child.pid}, port ${this.#port}`);
      resolve();
    };
    createInterface({ input: child.stdout }).on("line", onLine);
    createInterface({ input: child.stderr }).on("line", onLine);
    child.on("error", (cause) => {
      // A child without a pid never started, so it will never exit.
      if (child.pid === undefined) this.#child = undefined;
      failed(new SluiceError("DEMO_SERVER", `cannot start ${this.name}: ${cause.message}`));
    });
    child.on("exit", (code, signal) => {
      this.#child = undefined;
      const how = signal === "SIGKILL" ? "killed" : `ended with ${signal ?? code}`;
      if (this.#stopped) resolve();
      else if (this.#port > 0) this.#comeBack(`${how} (pid ${child.pid})`);
      else failed(new SluiceError("DEMO_SERVER", `${this.name} ${how} before it was ready: ${errors}`));
    });
  }

  #comeBack(what: string): void {
    const { absence, clock, onChange } = this.#options;
    onChange(`${this.name} ${what}; it returns in ${absence / 1000} s`);
    const run = (): void => {
      this.#due = undefined;
      if (this.#stopped) return;
      this.#spawn(
        this.#port,
        () => {},
        (error) => this.#comeBack(error.message),
      );
    };
    this.#due = { timer: clock.after(absence, run), run };
  }
}

/** The number of ports to try. */
const TRIES = 100;

/**
 * The first port from `port` up without a listener on `host`.
 * @throws SluiceError NO_FREE_PORT
 */
export async function freePort(host: string, port: number): Promise<number> {
  for (let candidate = port; candidate < port + TRIES; candidate++) if (await isFree(host, candidate)) return candidate;
  throw new SluiceError("NO_FREE_PORT", `no free port from ${port} to ${port + TRIES - 1} on ${host}`);
}

function isFree(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen(port, host, () => server.close(() => resolve(true)));
  });
}
