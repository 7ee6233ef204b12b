import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { pythonClients } from "../../scripts/test-parts.ts";
import type { Driver, Outcome, PlacedCall } from "./calls.ts";

/** The environment of a Python that finds the clients. */
export function pythonEnv(): NodeJS.ProcessEnv {
  return { ...process.env, PYTHONPATH: pythonClients(), PYTHONDONTWRITEBYTECODE: "1", NO_PROXY: "*" };
}

/** The clients of PyPI, in a process that lives as long as the driver. */
export class PythonDriver implements Driver {
  readonly language = "Python";
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, { resolve(outcome: Outcome): void; reject(error: Error): void }>();
  #calls = 0;
  #words = "";

  /**
   * @param script `concurrent_driver.py` makes all calls at the same time
   * @param authority the file of the only authority that the clients trust, PEM
   */
  constructor(script: "driver.py" | "concurrent_driver.py" = "driver.py", authority?: string) {
    const args = ["-u", join(import.meta.dirname, script), ...(authority === undefined ? [] : [authority])];
    this.#child = spawn("python3", args, { env: pythonEnv(), stdio: ["pipe", "pipe", "pipe"] });
    this.#child.stderr!.on("data", (chunk: Buffer) => {
      this.#words = (this.#words + chunk.toString()).slice(-4000);
    });
    createInterface({ input: this.#child.stdout! }).on("line", (line) => {
      const { id, outcome } = JSON.parse(line) as { id: number; outcome: Outcome };
      this.#waiting.get(id)?.resolve(outcome);
      this.#waiting.delete(id);
    });
    this.#child.on("close", (code) => {
      for (const { reject } of this.#waiting.values()) reject(new Error(`Python ended with ${code}: ${this.#words}`));
    });
  }

  perform(call: PlacedCall): Promise<Outcome> {
    const id = this.#calls++;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#child.stdin!.write(`${JSON.stringify({ id, ...call })}\n`);
    });
  }

  close(): void {
    this.#child.kill("SIGKILL");
  }
}
