/**
 * Global set-up of the lanes with real parts: what Node.js compiles of Sluice it keeps in a folder of this run, so that
 * the hundreds of `sluice` processes that tests start compile nothing twice. That takes about half of the processor time of
 * a start (sim 0.6 to 0.3 s, epp 1.6 to 0.9 s). Processes write there when they end in order, and those of tests are mostly
 * killed: each command is started and ended once beforehand.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sluice } from "./process.ts";

export default async function setUp(): Promise<() => void> {
  const folder = mkdtempSync(join(tmpdir(), "sluice-compiled-"));
  process.env["NODE_COMPILE_CACHE"] = join(folder, "cache");
  const endpoints = join(folder, "endpoints.yaml");
  writeFileSync(endpoints, "endpoints: [{ name: a, address: 127.0.0.1, port: 9 }]\n");
  const queues = [{ queue_name: "q", igw_base_url: "http://127.0.0.1:9" }];
  const transport = JSON.stringify({ path: join(folder, "queue.db"), result_queue_name: "results", queues });
  await Promise.all([
    once("sim", "sim", "--host", "127.0.0.1", "--port", "0"),
    once("gateway", "gateway", "--endpoints", endpoints, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"),
    once(
      "admin",
      ...["epp", "--endpoints", endpoints, "--bind-address", "127.0.0.1", "--drain-timeout", "0s"],
      ...["--grpc-port", "0", "--grpc-health-port", "0", "--metrics-port", "0"],
    ),
    once(
      "metrics",
      ...["dispatch", "--transport", "sqlite", "--transport-config", transport, "--bind-address", "127.0.0.1"],
      ...["--health-port", "0", "--metrics-port", "0"],
    ),
  ]);
  return () => rmSync(folder, { recursive: true, force: true });
}

/** Starts `sluice` and ends it in order as soon as it listens. Whatever is wrong with it is for the tests to say. */
async function once(listening: string, ...args: readonly string[]): Promise<void> {
  const started = sluice(...args);
  try {
    await started.listening(listening);
    await started.stop("SIGTERM");
  } catch (error) {
    process.stderr.write(`compiling in advance: ${error}\n`);
    await started.stop();
  }
}
