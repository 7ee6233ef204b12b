import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import type { Clock } from "../../clock/clock.ts";
import { messageOf, SluiceError } from "../../inference/errors.ts";
import { parseReadyLine } from "../ready-line.ts";

/** How long a killed simulator stays away, in milliseconds. */
const ABSENCE_MS = 3000;

export interface ServerProcessOptions {
  readonly name: string;
  /** Program and arguments that run `sluice`; `sim ...` is appended. */
  readonly program: readonly string[];
  /** Arguments of `sim` besides the port. */
  readonly args: readonly string[];
  readonly clock: Clock;
  /** Told when the process came, was killed or died. */
  onChange(text: string): void;
}

/** One simulated model server in a process of its own, which can be killed and comes back on the same port. */
export class ServerProcess {
  readonly name: string;
  readonly #options: ServerProcessOptions;
  #child: ChildProcess | undefined;
  #port = 0;
  #stopped = false;

  constructor(options: ServerProcessOptions) {
    this.name = options.name;
    this.#options = options;
  }

  /** 0 before the first start. */
  get port(): number {
    return this.#port;
  }

  /** Undefined while it is away. */
  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /**
   * Starts it and waits for its ready line.
   * @param port 0 = any
   * @throws SluiceError DEMO_SERVER when it ends before it is ready
   */
  start(port: number): Promise<void> {
    const [program, ...args] = [...this.#options.program, "sim", "--port", String(port), ...this.#options.args];
    // The pipe to its stdin closes with this process, however that ends: no simulator is left behind.
    const child = spawn(program!, [...args, "--until-stdin-closes"], { stdio: ["pipe", "pipe", "pipe"] });
    this.#child = child;
    let errors = "";
    child.stderr.on("data", (chunk: Buffer) => {
      errors = (errors + chunk.toString()).slice(-2000);
    });
    let ready = false;
    return new Promise((resolve, reject) => {
      const lines = createInterface({ input: child.stdout });
      lines.on("line", (line) => {
        const announced = parseReadyLine(line);
        if (announced === undefined) return;
        ready = true;
        this.#port = Number(announced.address.slice(announced.address.lastIndexOf(":") + 1));
        this.#options.onChange(`${this.name} is up: pid ${child.pid}, port ${this.#port}`);
        resolve();
      });
      child.on("error", (cause) =>
        reject(new SluiceError("DEMO_SERVER", `cannot start ${this.name}: ${cause.message}`)),
      );
      child.on("exit", (code, signal) => {
        if (this.#child === child) this.#child = undefined;
        const how = signal === "SIGKILL" ? "killed" : `ended with ${signal ?? code}`;
        if (this.#stopped) resolve();
        else if (ready) this.#comeBack(`${how} (pid ${child.pid})`);
        else reject(new SluiceError("DEMO_SERVER", `${this.name} ${how} before it was ready: ${errors}`));
      });
    });
  }

  /** Kills it without warning, as anybody may who knows its pid; it returns on the same port after three seconds. */
  kill(): void {
    this.#child?.kill("SIGKILL");
  }

  /** Ends it for good. */
  stop(): void {
    this.#stopped = true;
    this.#child?.kill("SIGKILL");
    this.#child = undefined;
  }

  #comeBack(what: string): void {
    this.#options.onChange(`${this.name} ${what}; it returns in ${ABSENCE_MS / 1000} s`);
    this.#options.clock.after(ABSENCE_MS, () => {
      if (!this.#stopped) this.start(this.#port).catch((error: unknown) => this.#options.onChange(messageOf(error)));
    });
  }
}
