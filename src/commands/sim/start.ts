import { realClock } from "../../base/clock/real.ts";
import { hostPort } from "../../base/inference/endpoint.ts";
import { readyLine } from "../../base/process/lifecycle.ts";
import type { SimOptions } from "../../lab/simulator/options.ts";
import { startInstances } from "../../lab/simulator/server.ts";

/**
 * Runs one simulated model server, or several in one process, until a signal.
 * @param untilStdinCloses the process also ends when stdin closes
 * @throws SluiceError LISTEN_FAILED
 */
export async function runSim(options: SimOptions, untilStdinCloses: boolean): Promise<number> {
  const servers = await startInstances(options, { clock: realClock, onCrash: () => process.exit(1) });
  for (const server of servers) {
    const address = hostPort(options.host, server.port);
    process.stdout.write(`${readyLine({ name: "sim", address }, process.pid)}\n`);
  }
  await new Promise<void>((resolve) => {
    process.once("SIGTERM", resolve);
    process.once("SIGINT", resolve);
    if (untilStdinCloses) process.stdin.resume().once("end", resolve).once("error", resolve);
  });
  await Promise.all(servers.map((server) => server.close()));
  process.stdin.pause();
  return 0;
}
