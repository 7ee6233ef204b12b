import { type AddressInfo, connect, createServer, type Socket } from "node:net";

/** One address in front of several servers, as a Kubernetes Service is: each new connection goes to the next server. */
export interface TcpService {
  readonly port: number;
  /** Where new connections go; open ones stay. With none, connections are refused as far as a client can tell. */
  targets: readonly number[];
  close(): Promise<void>;
}

/** Starts a service on loopback. @param targets ports */
export async function tcpService(targets: readonly number[]): Promise<TcpService> {
  const sockets = new Set<Socket>();
  let next = 0;
  const server = createServer({ noDelay: true }, (client) => {
    const target = service.targets[next++ % service.targets.length];
    if (target === undefined) {
      client.resetAndDestroy();
      return;
    }
    const upstream = connect({ port: target, host: "127.0.0.1", noDelay: true });
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        sockets.delete(socket);
        other.destroy();
      });
      socket.pipe(other);
    }
  });
  const service: TcpService = {
    port: 0,
    targets,
    close() {
      for (const socket of sockets) socket.destroy();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return Object.assign(service, { port: (server.address() as AddressInfo).port });
}
