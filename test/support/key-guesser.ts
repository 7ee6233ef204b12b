/**
 * Tries keys at a rate, as a program of its own. Usage:
 *
 *   node test/support/key-guesser.ts PORT RATE
 *
 * Says "guessed N" with the answers so far. Under the port "target" it is a server that refuses every request, on a port that it
 * says: guesses there cost the machine as much, and the gateway nothing.
 */
import { createServer } from "node:http";
import net from "node:net";
import { newKey } from "../../src/wires/access/key-text.ts";

const SOCKETS = 50;
/** Milliseconds between two bursts. */
const EVERY = 20;
/** Guesses that one connection has without an answer; the gateway cuts one with more than 64. */
const MOST = 32;

function guess(port: number, rate: number): void {
  let answered = 0;
  const open = new Map<net.Socket, number>();
  const connect = (): void => {
    const socket = net.connect({ port, host: "127.0.0.1" });
    socket.setEncoding("latin1");
    open.set(socket, 0);
    let tail = "";
    socket.on("data", (text: string) => {
      const parts = (tail + text).split("HTTP/1.1 401");
      tail = parts.at(-1)!.slice(-16);
      answered += parts.length - 1;
      open.set(socket, open.get(socket)! - (parts.length - 1));
    });
    socket.on("error", () => {});
    socket.on("close", () => {
      open.delete(socket);
      connect();
    });
  };
  for (let n = 0; n < SOCKETS; n++) connect();
  const share = Math.ceil((rate * EVERY) / 1000 / SOCKETS);
  setInterval(() => {
    for (const [socket, waiting] of open) {
      const count = Math.min(share, MOST - waiting);
      if (count <= 0) continue;
      open.set(socket, waiting + count);
      const request = (): string =>
        `GET /v1/models HTTP/1.1\r\nhost: gw\r\nx-api-key: ${newKey(undefined).key}\r\n\r\n`;
      socket.write(Array.from({ length: count }, request).join(""));
    }
    process.stdout.write(`guessed ${answered}\n`);
  }, EVERY);
}

function target(): void {
  const server = createServer((_, response) => response.writeHead(401).end("no"));
  server.listen(0, "127.0.0.1", () => {
    process.stdout.write(
      `listening name=target address=127.0.0.1:${(server.address() as net.AddressInfo).port} pid=1\n`,
    );
  });
}

if (import.meta.main) {
  const [port = "", rate = "10000"] = process.argv.slice(2);
  if (port === "target") target();
  else guess(Number(port), Number(rate));
}
