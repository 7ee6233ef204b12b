import { type ChildProcess, fork } from "node:child_process";
import type { GatewayManner, GatewayQuestion, GatewayStats } from "./bare-gateway.ts";
import { freePort, onFreePorts } from "./free-port.ts";
import { fixedLimit } from "./slowness.ts";

/** A gateway in a process of its own, so that neither side's work delays the other. It ends with the process that started it. */
export class GatewayProcess {
  readonly port: number;
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, (value: unknown) => void>();
  #asked = 0;

  private constructor(child: ChildProcess, port: number) {
    this.#child = child;
    this.port = port;
    child.on("message", ({ n, value }: { n: number; value: unknown }) => {
      this.#waiting.get(n)?.(value);
      this.#waiting.delete(n);
    });
  }

  static async start(manner: GatewayManner = {}): Promise<GatewayProcess> {
    const gateway = await onFreePorts(() => GatewayProcess.#startOnce());
    await gateway.manner(manner);
    return gateway;
  }

  static async #startOnce(): Promise<GatewayProcess> {
    const port = await freePort();
    const child = fork(new URL("./bare-gateway.ts", import.meta.url), [String(port)], { execArgv: [] });
    const problem = await new Promise<string | undefined>((resolve, reject) => {
      child.once("message", ({ value }: { value?: string }) => resolve(value));
      child.once("exit", (code) => reject(new Error(`the gateway ended with ${code}`)));
    });
    if (problem === undefined) return new GatewayProcess(child, port);
    child.kill("SIGKILL");
    throw new Error(`the gateway did not start: ${problem}`);
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  get pid(): number {
    return this.#child.pid!;
  }

  stats(): Promise<GatewayStats> {
    return this.#ask({ kind: "stats" });
  }

  /** How often each request id has come. */
  async sent(): Promise<ReadonlyMap<string, number>> {
    return new Map((await this.stats()).sent);
  }

  /** Forgets what it has seen. */
  reset(): Promise<void> {
    return this.#ask({ kind: "reset" });
  }

  manner(manner: GatewayManner): Promise<void> {
    return this.#ask({ kind: "manner", manner });
  }

  /** Answers what it holds. */
  release(): Promise<void> {
    return this.#ask({ kind: "release" });
  }

  /**
   * Answers `requests` requests in all, counted from its start, and lets the others wait for the next call. However slow the
   * machine is, no more than this is done before the test has done its next step.
   * @param requests default: all
   */
  async answers(requests = Number.MAX_SAFE_INTEGER): Promise<void> {
    await this.manner({ answers: requests });
    await this.release();
  }

  /** Refuses connections from now on, and cuts those there are. */
  closePort(): Promise<void> {
    return this.#ask({ kind: "close" });
  }

  openPort(): Promise<void> {
    return this.#ask({ kind: "open" });
  }

  /** Resolves when so many requests have come in all. @param limitMs milliseconds */
  async reaches(requests: number, limitMs = 30_000): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      const limit = fixedLimit(limitMs);
      timer = setTimeout(() => reject(new Error(`the gateway had no ${requests} requests in ${limit} ms`)), limit);
    });
    await Promise.race([this.#ask({ kind: "reaches", requests }), late]).finally(() => clearTimeout(timer));
  }

  async stop(): Promise<void> {
    this.#child.kill("SIGKILL");
    if (this.#child.exitCode === null && this.#child.signalCode === null)
      await new Promise((resolve) => this.#child.once("exit", resolve));
  }

  #ask<T>(question: GatewayQuestion): Promise<T> {
    const n = ++this.#asked;
    return new Promise((resolve, reject) => {
      this.#waiting.set(n, resolve as (value: unknown) => void);
      this.#child.send({ n, question }, (error) => {
        if (error !== null) reject(error);
      });
    });
  }
}
