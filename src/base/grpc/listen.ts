import type { AddressInfo, Server } from "node:net";
import { messageOf, SluiceError } from "../inference/errors.ts";

/**
 * Binds `server` and tells where.
 * @param port 0 = any free port
 * @throws SluiceError LISTEN_FAILED when the address cannot be had
 */
export function listenOn(server: Server, host: string, port: number): Promise<{ address: string; port: number }> {
  return new Promise((resolve, reject) => {
    const onError = (error: Error): void => {
      reject(
        new SluiceError("LISTEN_FAILED", `cannot listen on ${host}:${port}: ${messageOf(error)}`, { cause: error }),
      );
    };
    server.once("error", onError);
    server.listen(port, host, () => {
      server.removeListener("error", onError);
      const bound = server.address() as AddressInfo;
      resolve({ address: bound.address, port: bound.port });
    });
  });
}
