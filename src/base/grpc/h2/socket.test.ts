import net from "node:net";
import { describe, expect, it } from "vitest";
import { poll } from "../../../../test/support/poll.ts";
import { readInto } from "./socket.ts";

describe("reading into one buffer", () => {
  it("reads at most 16 KiB at a time while there are many connections, and more when they are few again", async () => {
    let many = true;
    const lengths: number[] = [];
    const server = net.createServer({ pauseOnConnect: true }, (accepted) => {
      readInto(
        accepted,
        (chunk) => void lengths.push(chunk.length),
        () => many,
      );
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const client = net.connect((server.address() as net.AddressInfo).port, "127.0.0.1");
    const bytes = Buffer.alloc(1 << 20);
    const sum = (): number => lengths.reduce((total, length) => total + length, 0);
    client.write(bytes);
    await poll("a megabyte", () => sum() === bytes.length);
    expect(Math.max(...lengths)).toBe(16 * 1024);
    many = false;
    lengths.length = 0;
    await poll("a larger piece", async () => {
      await new Promise((resolve) => client.write(bytes, resolve));
      return lengths.some((length) => length > 16 * 1024);
    });
    client.destroy();
    server.close();
  });
});
