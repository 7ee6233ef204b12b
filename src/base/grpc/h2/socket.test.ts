import net from "node:net";
import { describe, expect, it } from "vitest";
import { poll } from "../../../../test/support/poll.ts";
import { readInto } from "./socket.ts";

describe("reading into one buffer", () => {
  it.each([
    [64, 256],
    [65, 64],
    [256, 64],
    [257, 16],
  ])("with %d connections reads at most %d KiB at a time", async (connections, kibibytes) => {
    const lengths: number[] = [];
    const server = net.createServer({ pauseOnConnect: true }, (accepted) => {
      readInto(
        accepted,
        (chunk) => void lengths.push(chunk.length),
        () => connections,
      );
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const client = net.connect((server.address() as net.AddressInfo).port, "127.0.0.1");
    const bytes = Buffer.alloc(1 << 20);
    // Whether a read finds as much as it may take depends on the system: once is enough.
    await poll("a whole piece", async () => {
      await new Promise((resolve) => client.write(bytes, resolve));
      return lengths.some((length) => length === kibibytes * 1024);
    });
    expect(Math.max(...lengths)).toBe(kibibytes * 1024);
    client.destroy();
    server.close();
  });
});
