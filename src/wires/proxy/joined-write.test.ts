import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { afterEach, expect, it } from "vitest";
import { poll } from "../../../test/support/poll.ts";
import { JOINED, writeJoined } from "./joined-write.ts";

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

/** A socket, and the other end of its connection, which does not read. */
async function pair(): Promise<{ socket: Socket; peer: Socket }> {
  const server = createServer({ pauseOnConnect: true });
  const accepted = new Promise<Socket>((resolve) => server.once("connection", resolve));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
  const peer = await accepted;
  closers.push(() => {
    socket.destroy();
    peer.destroy();
    server.close();
  });
  return { socket, peer };
}

/** Writes a piece that no other one equals. @returns its text */
function write(socket: Socket, n: number): string {
  const piece = String(n % 10).repeat(JOINED / 2);
  writeJoined(socket, `<${n}>`, [Buffer.from(piece), Buffer.from("-")], piece.length + 1, "\r\n");
  return `<${n}>${piece}-\r\n`;
}

it("a peer that does not read gets the bytes as they were, whatever is written after them", async () => {
  const slow = await pair();
  const fast = await pair();
  let got = "";
  fast.peer.on("data", (bytes: Buffer) => {
    got += bytes.toString("latin1");
  });
  fast.peer.resume();
  let [toSlow, toFast] = ["", ""];
  for (let n = 0; n < 1000; n++) {
    toSlow += write(slow.socket, n);
    if (n % 10 === 0) toFast += write(fast.socket, n);
  }
  expect(slow.socket.writableLength).toBeGreaterThan(0);
  let late = "";
  slow.peer.on("data", (bytes: Buffer) => {
    late += bytes.toString("latin1");
  });
  slow.peer.resume();
  await poll("all bytes", () => late.length === toSlow.length && got.length === toFast.length);
  expect(late === toSlow).toBe(true);
  expect(got === toFast).toBe(true);
});

it("writes a text alone", async () => {
  const { socket, peer } = await pair();
  writeJoined(socket, "a\xff", [], 0, "b");
  const [bytes] = await new Promise<Buffer[]>((resolve) =>
    peer.once("data", (...all) => resolve(all as Buffer[])).resume(),
  );
  expect(bytes).toEqual(Buffer.from("a\xffb", "latin1"));
});
