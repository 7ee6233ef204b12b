import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { poll } from "../../../test/support/poll.ts";
import { VirtualClock } from "../clock/virtual.ts";
import type { Logger } from "../telemetry/logger.ts";
import { selfSignedPair } from "./self-signed.ts";
import { loadTlsPair, type TlsPair } from "./tls.ts";
import { FOLLOWED, TlsFollower } from "./tls-follower.ts";

let root: string;
let pairs: TlsPair[];
let follower: TlsFollower<TlsPair> | undefined;

beforeAll(async () => {
  root = mkdtempSync(join(tmpdir(), "sluice-follow-"));
  const clock = new VirtualClock(Date.UTC(2026, 0, 1));
  pairs = await Promise.all([1, 2, 3].map(() => selfSignedPair(clock)));
});
afterAll(() => rmSync(root, { recursive: true }));
afterEach(() => follower?.close());

function write(directory: string, pair: { cert: string; key: string }): void {
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, "tls.crt"), pair.cert);
  writeFileSync(join(directory, "tls.key"), pair.key);
}

/** A directory as a mounted secret is laid out: the files are links into `..data`, itself a link that is swapped. */
function mounted(pair: TlsPair): { directory: string; swap(pair: TlsPair): void } {
  const directory = mkdtempSync(join(root, "secret-"));
  let generation = 0;
  const swap = (next: TlsPair): void => {
    const name = `..generation-${++generation}`;
    write(join(directory, name), next);
    symlinkSync(name, join(directory, "..data_tmp"));
    renameSync(join(directory, "..data_tmp"), join(directory, "..data"));
  };
  swap(pair);
  for (const file of ["tls.crt", "tls.key"]) symlinkSync(join("..data", file), join(directory, file));
  return { directory, swap };
}

function follow(directory: string, use?: (pair: TlsPair) => void) {
  const clock = new VirtualClock();
  const used: TlsPair[] = [];
  const lines: string[] = [];
  const note =
    (level: string) =>
    (_: unknown, text: string): void =>
      void lines.push(`${level}: ${text}`);
  const log: Logger = {
    debug: note("debug"),
    info: note("info"),
    warn: note("warn"),
    error: note("error"),
    child: () => log,
  };
  follower = new TlsFollower({
    what: FOLLOWED.pair,
    directory,
    load: () => loadTlsPair(directory),
    inUse: loadTlsPair(directory),
    use: use ?? ((pair) => void used.push(pair)),
    clock,
    log,
  });
  /** Waits for the file system to tell, then lets the time pass until the files are read. */
  const settle = async (): Promise<void> => {
    await poll("an event of the directory", () => clock.pending > 1);
    clock.advance(250);
  };
  return { clock, used, lines, settle };
}

describe("following a certificate (E-126, D-30)", () => {
  it("uses a pair that a mounted secret swaps in, a quarter of a second after the first event", async () => {
    const { directory, swap } = mounted(pairs[0]!);
    const { clock, used, lines } = follow(directory);
    swap(pairs[1]!);
    await poll("an event of the directory", () => clock.pending > 1);
    clock.advance(249);
    expect(used).toEqual([]);
    clock.advance(1);
    expect(used).toEqual([pairs[1]]);
    expect(lines).toEqual(["info: certificate: new connections get the new certificate"]);
  });

  it("keeps the old pair when the new one is broken, says so once, and takes the next good one", async () => {
    const directory = join(root, "plain");
    write(directory, pairs[0]!);
    const { used, lines, settle } = follow(directory);
    write(directory, { cert: pairs[1]!.cert, key: "garbage" });
    await settle();
    write(directory, { cert: pairs[1]!.cert, key: "garbage" });
    await settle();
    expect(used).toEqual([]);
    expect(lines).toEqual([
      "warn: certificate: the new certificate or key cannot be used; the old certificate stays in use",
    ]);
    write(directory, { cert: pairs[1]!.cert, key: pairs[2]!.key });
    await settle();
    expect(lines).toHaveLength(2);
    write(directory, pairs[1]!);
    await settle();
    expect(used).toEqual([pairs[1]]);
    expect(lines.at(-1)).toBe("info: certificate: new connections get the new certificate");
  });

  it("says when the files are put right again without any change", async () => {
    const directory = join(root, "restored");
    write(directory, pairs[0]!);
    const { used, lines, settle } = follow(directory);
    rmSync(join(directory, "tls.key"));
    await settle();
    write(directory, pairs[0]!);
    await settle();
    expect(used).toEqual([]);
    expect(lines).toEqual([
      "warn: certificate: the new certificate or key cannot be used; the old certificate stays in use",
      "info: certificate: the files contain the certificate in use again",
    ]);
  });

  it("survives a server that refuses the pair, and looks by itself every minute", () => {
    const directory = join(root, "refused");
    write(directory, pairs[0]!);
    let refusals = 0;
    const { clock, lines } = follow(directory, () => {
      refusals++;
      throw new Error("no such curve");
    });
    write(directory, pairs[1]!);
    clock.advance(60_000);
    expect(refusals).toBe(1);
    expect(lines).toEqual([
      "warn: certificate: the new certificate or key cannot be used; the old certificate stays in use",
    ]);
  });

  it("goes on without events from a directory that cannot be watched", () => {
    const directory = join(root, "gone");
    write(directory, pairs[0]!);
    const pair = loadTlsPair(directory);
    rmSync(directory, { recursive: true });
    const clock = new VirtualClock();
    const used: TlsPair[] = [];
    const lines: string[] = [];
    const log = { warn: (_: unknown, text: string) => void lines.push(text) } as unknown as Logger;
    follower = new TlsFollower({
      what: FOLLOWED.pair,
      directory,
      load: () => loadTlsPair(directory),
      inUse: pair,
      use: (next) => void used.push(next),
      clock,
      log: { ...log, info() {} },
    });
    expect(lines).toEqual(["certificate: the directory cannot be watched; checking it every 60 s instead"]);
    write(directory, pairs[2]!);
    clock.advance(60_000);
    expect(used).toEqual([pairs[2]]);
  });

  it("watches a directory that was removed and created again", async () => {
    const directory = join(root, "replaced");
    write(directory, pairs[0]!);
    const { clock, used, settle } = follow(directory);
    rmSync(directory, { recursive: true });
    write(directory, pairs[0]!);
    await settle();
    clock.advance(60_000);
    write(directory, pairs[1]!);
    await settle();
    expect(used).toEqual([pairs[1]]);
  });

  it("stops when it is closed", () => {
    const directory = join(root, "closed");
    write(directory, pairs[0]!);
    const { clock, used } = follow(directory);
    write(directory, pairs[1]!);
    follower!.close();
    expect(clock.pending).toBe(0);
    clock.advance(120_000);
    expect(used).toEqual([]);
  });
});
