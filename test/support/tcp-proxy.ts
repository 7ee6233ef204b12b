import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import type { Random } from "../../src/base/clock/random.ts";

/** Stands between a client and a server on the loopback interface, to break what passes. */
export interface TcpProxy {
  readonly port: number;
  /** Connections made so far. */
  connections(): number;
  /** The next thing the server says is swallowed, and both ends are cut: whatever it answered was done, and nobody heard. */
  loseNextReply(): void;
  /** Cuts every connection that is open. */
  cut(): void;
  /** Of what servers say, so many more bytes pass; then the connection that carried the last of them is cut. */
  truncateAfter(bytes: number): void;
  /** What servers say from now on arrives so many milliseconds later. */
  delay(ms: number): void;
  /** What servers say waits, and nobody is told; `false` lets it through. */
  hold(on: boolean): void;
  /** One byte in each piece that passes, in either direction, has another value; `undefined` ends it. */
  garble(random: Random | undefined): void;
  /** Nothing passes any more in either direction, and nobody is told; `false` ends it for connections made later. */
  blackHole(on: boolean): void;
  /** Connections made from now on lead to this port. */
  retarget(port: number): void;
  close(): Promise<void>;
}

export async function tcpProxy(target: number): Promise<TcpProxy> {
  const sockets = new Set<Socket>();
  let connections = 0;
  let port = target;
  let losing = false;
  let hole = false;
  let left = Number.POSITIVE_INFINITY;
  let delay = 0;
  let holding = false;
  let garbling: Random | undefined;
  const altered = (piece: Buffer): Buffer => {
    if (garbling === undefined || piece.length === 0) return piece;
    const copy = Buffer.from(piece);
    copy[garbling.below(copy.length)]! ^= 1 + garbling.below(255);
    return copy;
  };
  const releases = new Set<() => void>();
  const server = createServer((client) => {
    connections++;
    const upstream = connect(port, "127.0.0.1");
    const end = (): void => {
      client.destroy();
      upstream.destroy();
      releases.delete(release);
    };
    let lost = false;
    // In the order in which it was said, whatever the delay was when.
    const waiting: Buffer[] = [];
    const pass = (piece: Buffer | undefined): void => {
      if (piece === undefined || lost) return;
      if (piece.length <= left) {
        left -= piece.length;
        client.write(piece);
        return;
      }
      lost = true;
      client.end(piece.subarray(0, left), end);
      left = Number.POSITIVE_INFINITY;
    };
    const release = (): void => {
      for (const piece of waiting.splice(0)) pass(piece);
    };
    releases.add(release);
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("error", end);
      socket.on("close", () => {
        sockets.delete(socket);
        end();
      });
    }
    client.on("data", (chunk) => {
      lost ||= hole;
      if (!lost) upstream.write(altered(chunk as Buffer));
    });
    upstream.on("data", (said: Buffer) => {
      lost ||= hole;
      if (lost) return;
      const chunk = altered(said);
      if (!losing) {
        if (holding) waiting.push(chunk);
        else if (delay === 0 && waiting.length === 0) pass(chunk);
        else {
          waiting.push(chunk);
          setTimeout(() => holding || pass(waiting.shift()), delay);
        }
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
    cut() {
      for (const socket of sockets) socket.destroy();
    },
    truncateAfter(bytes) {
      left = bytes;
    },
    delay(ms) {
      delay = ms;
    },
    hold(on) {
      holding = on;
      if (!on) for (const release of [...releases]) release();
    },
    garble(random) {
      garbling = random;
    },
    blackHole(on) {
      hole = on;
    },
    retarget(to) {
      port = to;
    },
    close() {
      for (const socket of sockets) socket.destroy();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}
