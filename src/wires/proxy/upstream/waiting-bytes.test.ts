import { once } from "node:events";
import { type AddressInfo, connect, createServer, Socket } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { poll } from "../../../../test/support/poll.ts";
import { readWaiting } from "./waiting-bytes.ts";

const ends: (() => void)[] = [];
afterEach(() => {
  for (const end of ends.splice(0)) end();
});

const into = Buffer.alloc(8);

/** A socket that is not read, and the other side. */
async function pair() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const accepted = once(server, "connection") as Promise<[Socket]>;
  const seen: string[] = [];
  const buffer = Buffer.alloc(8);
  const socket = connect({
    host: "127.0.0.1",
    port: (server.address() as AddressInfo).port,
    onread: { buffer, callback: (length) => seen.push(buffer.toString("latin1", 0, length)) > 0 },
  });
  const [other] = await accepted;
  await poll("the connection", () => !socket.connecting);
  socket.pause();
  socket.on("error", () => {});
  ends.push(() => {
    socket.destroy();
    other.destroy();
    server.close();
  });
  return { socket, other, seen };
}

describe("the bytes that wait at a socket", () => {
  it("are none before the other side sends", async () => {
    const { socket } = await pair();
    expect(readWaiting(socket, into)).toBe(0);
  });

  it("are read as far as there is room, and node reads those behind them", async () => {
    const { socket, other, seen } = await pair();
    other.write("0123456789");
    await poll("the bytes", () => readWaiting(socket, into) === 8);
    expect(into.toString()).toBe("01234567");
    socket.resume();
    await poll("the others", () => seen.join("") === "89");
  });

  it("are none at the end, which node sees", async () => {
    const { socket, other } = await pair();
    const ended = once(socket, "end");
    other.end();
    expect(readWaiting(socket, into)).toBe(0);
    socket.resume();
    await ended;
    expect(readWaiting(socket, into)).toBe(0);
  });

  it("are an error after a reset", async () => {
    const { socket, other } = await pair();
    other.resetAndDestroy();
    let code: unknown;
    await poll("the error", () => {
      try {
        readWaiting(socket, into);
      } catch (error) {
        ({ code } = error as NodeJS.ErrnoException);
      }
      return code !== undefined;
    });
    expect(code).toBe("ECONNRESET");
  });

  it("are none of a socket that is closed, or that never was open", async () => {
    const { socket } = await pair();
    socket.destroy();
    expect(readWaiting(socket, into)).toBe(0);
    expect(readWaiting(new Socket(), into)).toBe(0);
  });
});
