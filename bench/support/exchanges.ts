import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { readTree, spent } from "../peers/cpu.ts";
import { readBusyMs } from "../peers/others.ts";

/** What one run of the client measured. */
export interface Figures {
  /** Microseconds of CPU of the server for each exchange. */
  readonly us: number;
  /** Exchanges per second. */
  readonly rps: number;
  /** Microseconds to the decision. */
  readonly pickP99: number;
  /** Resident memory of the server at the end. */
  readonly mib: number;
  /** Cores that programs outside of the benchmark used. */
  readonly others: number;
}

export interface Server {
  readonly pid: number;
  readonly port: number;
}

/**
 * Runs the client of bench/extproc.ts on core 1 against a server.
 * @param client its command line @param args of the case @param seconds that count @param warmup seconds before them
 */
export async function exchanges(
  client: readonly string[],
  server: Server,
  args: readonly string[],
  seconds: string,
  warmup: string,
): Promise<Figures> {
  const address = ["--addr", `127.0.0.1:${server.port}`, "--server-pid", String(server.pid)];
  const time = ["--duration", seconds, "--warmup", warmup, "--json"];
  const child = spawn("taskset", ["-c", "1", ...client, ...address, ...time, ...args], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const reading = () => ({ at: performance.now(), own: readTree([process.pid]), busy: readBusyMs() });
  const before = reading();
  let after = before;
  let stdout = "";
  // The client has not ended yet: what it used is among the times of its processes.
  child.stdout.once("data", () => (after = reading()));
  for await (const chunk of child.stdout) stdout += chunk;
  const others = (after.busy - before.busy - spent(before.own, after.own)) / (after.at - before.at);
  const figures = JSON.parse(stdout) as {
    srv_us_req: number | null;
    rps: number;
    errors: number;
    immediate: object;
    pick_us: { p99: number };
  };
  // NaN leaves JSON as null.
  if (!figures.srv_us_req) throw new Error(`no exchange ended in ${seconds} s; give more --seconds`);
  if (figures.errors > 0 || Object.keys(figures.immediate).length > 0)
    throw new Error(`the exchange failed: ${stdout}`);
  const mib = Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${server.pid}/status`, "utf8"))![1]) / 1024;
  return { us: figures.srv_us_req, rps: figures.rps, pickP99: figures.pick_us.p99, mib, others: Math.max(0, others) };
}
