import { randomInt } from "node:crypto";
import { createServer, type Server } from "node:net";

/**
 * Ports that tests choose: below those that systems give to outgoing connections and to port 0 (32,768 and up), as one of
 * those would take a port between choice and use.
 */
const FIRST_PORT = 20_000;
const SLICE = 100;
const SLICES = 119;
/** How often a part may find its address taken. */
const TRIES = 3;

/**
 * The slice that this process draws from. It is ours as long as we listen on its first port: no other worker of the test
 * run, and no other run on this machine, draws from it meanwhile.
 */
interface Slice {
  next: number;
  readonly end: number;
}

let slice: Promise<Slice> | undefined;

/**
 * The first of so many ports in a row on which nobody listens on 127.0.0.1. No port is given twice by a process, nor by two
 * at a time, so that whoever asked may use it later, in another process, or leave it dead, or come back to it.
 */
export async function freePort(inARow = 1): Promise<number> {
  for (;;) {
    slice ??= takeSlice();
    const taken = slice;
    const current = await taken;
    const first = current.next;
    current.next += inARow;
    if (current.next > current.end) {
      // The old one stays ours: what was drawn from it may be used until this process ends.
      if (slice === taken) slice = undefined;
      continue;
    }
    const ports = Array.from({ length: inARow }, (_, i) => first + i);
    if ((await Promise.all(ports.map(isFree))).every(Boolean)) return first;
  }
}

/**
 * Starts a part on ports that `start` draws. Where the part says that an address is in use, which only somebody can cause
 * who draws ports in another way, it is started again with others; three times in all.
 */
export async function onFreePorts<T>(start: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await start();
    } catch (error) {
      if (attempt === TRIES || !/address already in use|EADDRINUSE/i.test(String(error))) throw error;
      process.stderr.write(`attempt ${attempt} of ${TRIES}: ${String(error).slice(0, 500)}\n`);
    }
  }
}

async function takeSlice(): Promise<Slice> {
  // Whose turn it is first is chance, so that runs at the same time seldom meet.
  const begin = randomInt(SLICES);
  for (let i = 0; i < SLICES; i++) {
    const first = FIRST_PORT + ((begin + i) % SLICES) * SLICE;
    const lock = await listen(first);
    // It shall hold the port, and not the process.
    lock?.unref();
    if (lock !== undefined) return { next: first + 1, end: first + SLICE };
  }
  throw new Error(`no ports are left: all ${SLICES} slices from ${FIRST_PORT} up are taken; end other test runs`);
}

function listen(port: number): Promise<Server | undefined> {
  return new Promise((resolve) => {
    const server = createServer((socket) => socket.destroy());
    server.once("error", () => resolve(undefined));
    server.listen(port, "127.0.0.1", () => resolve(server));
  });
}

async function isFree(port: number): Promise<boolean> {
  const server = await listen(port);
  await new Promise<void>((resolve) => (server === undefined ? resolve() : server.close(() => resolve())));
  return server !== undefined;
}
