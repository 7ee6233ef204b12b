import { type AddressInfo, connect, createServer, type Socket } from "node:net";

/** Stands between a client and a server on the loopback interface, to break what passes. */
export interface TcpProxy {
  readonly port: number;
  /** Connections made so far. */
  connections(): number;
  /** The next thing the server says is swallowed, and both ends are cut: whatever it answered was done, and nobody heard. */
  loseNextReply(): void;
  /** Nothing passes any more in either direction, and nobody is told; `false` ends it for connections made later. */
  blackHole(on: boolean): void;
  close(): Promise<void>;
}

export async function tcpProxy(target: number): Promise<TcpProxy> {
  const sockets = new Set<Socket>();
  let connections = 0;
  let losing = false;
  let hole = false;
  const server = createServer((client) => {
    connections++;
    const upstream = connect(target, "127.0.0.1");
    const end = (): void => {
      client.destroy();
      upstream.destroy();
    };
    let lost = false;
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("error", end);
      socket.on("close", end);
    }
    client.on("data", (chunk) => {
      lost ||= hole;
      if (!lost) upstream.write(chunk);
    });
    upstream.on("data", (chunk) => {
      lost ||= hole;
      if (lost) return;
      if (!losing) {
        client.write(chunk);
        return;
      }
      losing = false;
      end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    port: (server.address() as AddressInfo).port,
    connections: () => connections,
    loseNextReply() {
      losing = true;
    },
    blackHole(on) {
      hole = on;
    },
    close() {
      for (const socket of sockets) socket.destroy();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}
