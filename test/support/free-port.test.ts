import { createServer, type Server } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { freePort, onFreePorts } from "./free-port.ts";
import { TestProcess } from "./process.ts";

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

function listen(port: number): Promise<void> {
  const server = createServer();
  servers.push(server);
  return new Promise((resolve, reject) => {
    server.once("error", reject).listen(port, "127.0.0.1", () => resolve());
  });
}

/** Draws `count` ports in a process of its own, one line each, and stays until it is stopped. */
function drawing(count: number): TestProcess {
  const module = JSON.stringify(new URL("./free-port.ts", import.meta.url).href);
  const draw = `const { freePort } = await import(${module});
    for (let i = 0; i < ${count}; i++) console.log(await freePort());
    setInterval(() => {}, 1000);`;
  return new TestProcess(process.execPath, ["--input-type=module", "--eval", draw]);
}

describe("freePort", () => {
  it("gives no port twice, here or in processes at the same time, though nobody listens on them", async () => {
    // More than a slice has.
    const COUNT = 150;
    const others = [drawing(COUNT), drawing(COUNT)];
    try {
      const drawn = await Promise.all(Array.from({ length: COUNT }, () => freePort()));
      for (const other of others) {
        await other.until("its ports", () => other.stdout.split("\n").length > COUNT);
        drawn.push(...other.stdout.trim().split("\n").map(Number));
      }
      expect(drawn).toHaveLength(3 * COUNT);
      expect(new Set(drawn).size).toBe(3 * COUNT);
      expect(Math.min(...drawn)).toBeGreaterThan(20_000);
      // Ports from 32,768 up are given to outgoing connections.
      expect(Math.max(...drawn)).toBeLessThan(32_768);
    } finally {
      for (const other of others) await other.stop();
    }
  });

  it("gives so many in a row that are all free", async () => {
    const first = await freePort(4);
    const next = await freePort();
    for (const port of [first, first + 1, first + 2, first + 3]) await listen(port);
    expect(next < first || next > first + 3).toBe(true);
  });

  it("passes over a port that somebody else has taken", async () => {
    const before = await freePort();
    // In a new slice the next port is another, and nobody has it.
    await listen(before + 1).catch(() => {});
    expect(await freePort()).not.toBe(before + 1);
  });
});

describe("onFreePorts", () => {
  it("begins again with other ports when an address is in use", async () => {
    const taken = await freePort();
    await listen(taken);
    const ports: number[] = [];
    await onFreePorts(async () => {
      const port = ports.length < 2 ? taken : await freePort();
      ports.push(port);
      await listen(port);
    });
    expect(ports.slice(0, 2)).toEqual([taken, taken]);
    expect(ports).toHaveLength(3);
  });

  it("does so three times, and for nothing else", async () => {
    let attempts = 0;
    const fails = (message: string) =>
      onFreePorts(async () => {
        attempts++;
        throw new Error(message);
      });
    await expect(fails("cannot bind '127.0.0.1:25545': Address already in use")).rejects.toThrow("25545");
    expect(attempts).toBe(3);
    await expect(fails("no such configuration")).rejects.toThrow("no such configuration");
    expect(attempts).toBe(4);
  });
});
