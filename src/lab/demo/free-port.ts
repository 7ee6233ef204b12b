import { createServer } from "node:net";
import { SluiceError } from "../../base/inference/errors.ts";

/** How many ports are tried. */
const TRIES = 100;

/**
 * The first port from `port` up on which nobody listens on `host`.
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
