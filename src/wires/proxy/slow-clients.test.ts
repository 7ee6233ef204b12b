import type { Socket } from "node:net";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterEach, describe, expect, it } from "vitest";
import { answerBytes, type RawClient } from "../../../test/support/loopback.ts";
import { poll } from "../../../test/support/poll.ts";
import { get, ProxyHarness, post } from "../../../test/support/proxy-harness.ts";

let harness: ProxyHarness;
afterEach(() => harness.close());

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

/** Opens connections in groups: more at once than the backlog would wait for a retransmission. */
async function clients(count: number, paused: boolean): Promise<RawClient[]> {
  const all: RawClient[] = [];
  while (all.length < count)
    all.push(
      ...(await Promise.all(
        Array.from({ length: Math.min(100, count - all.length) }, () => harness.client({ paused })),
      )),
    );
  return all;
}

describe("slow clients", () => {
  it("1,000 that read nothing hold little memory each, and others are served", async () => {
    const COUNT = 1_000;
    harness = new ProxyHarness();
    const endless: Socket[] = [];
    // One piece for all: what this side of the test holds does not count.
    const piece = Buffer.alloc(64 * 1024);
    const model = await harness.model(({ head, socket }) => {
      if (!head.includes("POST")) socket.write(answerBytes(200, "served"));
      else {
        socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${2 ** 40}\r\n\r\n`);
        endless.push(socket);
      }
    });
    await harness.start({ endpoints: [model.endpoint] }, { limits: { connectionsPerAddress: 10_000 } });
    collectGarbage();
    const before = process.memoryUsage();
    for (const client of await clients(COUNT, true)) client.send(post("body", ""));
    await poll("all are answered", () => endless.length === COUNT);
    let last = -1;
    await poll(
      "everything stands still",
      () => {
        for (const socket of endless) if (!socket.writableNeedDrain) socket.write(piece);
        const now = harness.exchanges.reduce((sum, { answerBytes: bytes }) => sum + bytes, 0);
        const still = now === last && endless.every((socket) => socket.writableNeedDrain);
        last = now;
        return still;
      },
      120_000,
    );
    collectGarbage();
    const after = process.memoryUsage();
    const held = after.arrayBuffers + after.heapUsed - before.arrayBuffers - before.heapUsed;
    // A piece that was read and the buffers of node, on the side of the proxy, and a piece on the sides of client and server.
    expect(held / COUNT).toBeLessThan(256 * 1024);
    expect(await harness.ask(get())).toMatch(/served$/);
  }, 600_000);

  it("idle and stalled connections are bounded, and do not keep a new client out", async () => {
    harness = new ProxyHarness();
    const model = await harness.model(({ socket }) => socket.write(answerBytes(200, "served")));
    await harness.start({ endpoints: [model.endpoint] }, { limits: { connections: 500, connectionsPerAddress: 400 } });
    await clients(1_000, false);
    const stalled = await clients(100, false);
    for (const client of stalled) client.send("POST /v1/completions HTTP/1.1\r\nhost: gw\r\ncontent-le");
    await poll("the bound", () => harness.proxy.connections <= 400);
    expect(await harness.ask(get())).toMatch(/served$/);
    expect(harness.metrics.refused).toBeGreaterThanOrEqual(700);
  });
});
