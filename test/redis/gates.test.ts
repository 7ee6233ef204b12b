import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClient } from "@redis/client";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import type { GateFactory } from "../../src/async/gates/factory.ts";
import type { Clock } from "../../src/base/clock/clock.ts";
import { freshRandom } from "../../src/base/clock/random.ts";
import { realClock } from "../../src/base/clock/real.ts";
import { VirtualClock } from "../../src/base/clock/virtual.ts";
import type { DispatchGate } from "../../src/base/plugin/gate.ts";
import { clientAuthority } from "../support/certificates.ts";
import { Collected, factory, LogLines, message, OWNER } from "../support/gates/gate-fakes.cases.ts";
import { poll } from "../support/poll.ts";
import { ROOT, TestProcess } from "../support/process.ts";
import { type RunningRedis, startRedis } from "../support/redis.ts";
import { setAhead } from "./server-clock.ts";

vi.mock(import("../../src/base/redis/script.ts"), async (original) => {
  const { scriptsOnAClockAhead } = await import("./server-clock.ts");
  return scriptsOnAClockAhead(await original());
});

const CLIENTS = 32;
/** Each test has a tenant of its own: places of the one before may still be renewed. */
let tenant = "";
let key = "";
const byTenant = () => message({ userid: tenant });

let server: RunningRedis;
let redis: ReturnType<typeof client>;
const factories: GateFactory[] = [];

function client(url: string) {
  return createClient({ url, socket: { reconnectStrategy: 50 } }).on("error", () => {});
}

/** A gate on a connection of its own, as in another process. */
function make(type: string, parameters: Record<string, unknown>, clock: Clock = realClock): DispatchGate {
  const gates = factory({ clock, random: freshRandom(), log: new LogLines() });
  factories.push(gates);
  return gates.make({ type, parameters }, OWNER);
}

/** A quota that has reached its server. */
async function quota(parameters: Record<string, unknown>, clock: Clock = realClock): Promise<DispatchGate> {
  const gate = make("redis-quota", { address: `127.0.0.1:${server.port}`, ...parameters }, clock);
  await poll("a connection of a quota", async () => {
    const collected = new Collected();
    await gate.apply(message({ userid: "nobody" }), collected);
    collected.release(true);
    return true;
  });
  return gate;
}

const quotas = (count: number, parameters: Record<string, unknown>, clock?: Clock): Promise<DispatchGate[]> =>
  Promise.all(Array.from({ length: count }, () => quota(parameters, clock)));

/** The gate's own reading, and why it is what it is. */
const reading = (gate: DispatchGate) => gate.capacities[0]!.read(true);

/** Waits until a gate can read, or until it knows why it cannot: its first connection may take longer than one question. */
async function budget(gate: DispatchGate, problem?: RegExp): Promise<number> {
  await poll("a reading", async () => {
    const { readable, problem: why } = await reading(gate);
    return problem === undefined ? readable : problem.test(why);
  });
  return gate.budget();
}

/** Instants of all admissions under `key`, Unix nanoseconds, as the server carries them out. */
async function admissions(): Promise<{ readonly instants: readonly number[]; complete(): Promise<void> }> {
  const instants: number[] = [];
  const watcher = client(server.url);
  await watcher.connect();
  let isComplete = false;
  const end = `end of ${key}`;
  const [admission, last] = [new RegExp(`"ZADD" "${key}" "(\\d+)"`, "i"), `"${end}"`];
  await watcher.monitor((line) => {
    const instant = admission.exec(line)?.[1];
    if (instant !== undefined) instants.push(Number(instant));
    isComplete ||= line.includes(last);
  });
  return {
    instants,
    async complete() {
      await redis.echo(end);
      await poll("the last command", () => isComplete);
      watcher.destroy();
    },
  };
}

/** Unix milliseconds by the server's clock. */
async function serverTime(): Promise<number> {
  const [seconds, micros] = (await redis.sendCommand(["TIME"])) as unknown as [string, string];
  return Number(seconds) * 1_000 + Number(micros) / 1_000;
}

let tenants = 0;
function nextTenant(): void {
  tenant = `tenant-${tenants++}`;
  key = `quota:userid:${tenant}`;
}

beforeEach(nextTenant);

beforeAll(async () => {
  server = await startRedis({ appendOnly: true });
  redis = client(server.url);
  await redis.connect();
});

afterAll(async () => {
  await Promise.all(factories.map((gates) => gates.close()));
  redis.destroy();
  await server.stop();
});

describe("redis-quota, rate limit", () => {
  it(`admits exactly the limit in every sliding window under ${CLIENTS} clients (A-19)`, async () => {
    const [limit, window] = [20, 500];
    const gates = await quotas(CLIENTS, { limit, window: `${window}ms` });
    // Not from the set: what has left the window is out of it, and a test that stands still for a window misses it.
    const { instants, complete } = await admissions();
    let admitted = 0;
    let refused = 0;
    let over = false;
    const hammering = gates.map(async (gate) => {
      while (!over) {
        const verdict = await gate.apply(byTenant(), new Collected());
        if (verdict.kind === "continue") admitted++;
        else refused++;
      }
    });
    await poll("four windows", () => instants.length >= 4 * limit);
    over = true;
    await Promise.all(hammering);
    await complete();

    expect(instants.length).toBe(admitted);
    expect(refused).toBeGreaterThan(admitted);
    const times = [...instants].sort((a, b) => a - b);
    const within = times.map((time) => times.filter((other) => other <= time && other > time - window * 1e6).length);
    expect(Math.max(...within)).toBe(limit);
    // From the end of one full window to the end of the next there are as many admissions, whoever was first.
    expect(times[limit]! - times[0]!).toBeGreaterThanOrEqual(window * 1e6);
  });

  it("shares the window with processes that write instants of nanoseconds, as the reference does", async () => {
    const now = BigInt(Math.round((await serverTime()) * 1e3)) * 1_000n;
    await redis.zAdd(key, [
      { value: String(now), score: Number(now) },
      { value: String(now - 3_600_000_000_000n), score: Number(now - 3_600_000_000_000n) },
    ]);
    const gate = await quota({ limit: 2, window: "1m" });
    expect((await gate.apply(byTenant(), new Collected())).kind).toBe("continue");
    expect(await gate.apply(byTenant(), new Collected())).toEqual({ kind: "refuse", reason: "quota_exhausted" });
    expect(await redis.zCard(key)).toBe(2);
    expect(await redis.pTTL(key)).toBeGreaterThan(60_000);
  });

  it("gives a token back when its message was not sent (G-18)", async () => {
    const gate = await quota({ limit: 1, window: "10m" });
    for (let i = 0; i < 10; i++) {
      const collected = new Collected();
      expect((await gate.apply(byTenant(), collected)).kind).toBe("continue");
      collected.release(true);
    }
    const sent = new Collected();
    await gate.apply(byTenant(), sent);
    sent.release();
    expect((await gate.apply(byTenant(), new Collected())).kind).toBe("refuse");
  });
});

describe("redis-quota, concurrency", () => {
  it(`never has more than the limit in flight under ${CLIENTS} clients, and frees all (A-20)`, async () => {
    const limit = 5;
    const gates = await quotas(CLIENTS, { limit, mode: "concurrency" });
    let [inFlight, most, done] = [0, 0, 0];
    await Promise.all(
      gates.map(async (gate) => {
        while (done < 500) {
          const collected = new Collected();
          if ((await gate.apply(byTenant(), collected)).kind !== "continue") continue;
          most = Math.max(most, ++inFlight);
          await redis.ping();
          inFlight--;
          done++;
          collected.release();
        }
      }),
    );
    expect(most).toBe(limit);
    await poll("all places to be free", async () => (await redis.exists(key)) === 0);
  });

  it("holds the place of a request that runs for three windows (A-20, H-35)", async () => {
    // Both clocks are the test's: a process that stands still for a window does lose its place.
    const clock = new VirtualClock();
    const [one, other] = await quotas(2, { limit: 1, window: "90s", mode: "concurrency" }, clock);
    const collected = new Collected();
    await one!.apply(byTenant(), collected);
    const end = async (): Promise<number> => (await redis.zRangeWithScores(key, 0, -1))[0]!.score;
    try {
      for (let seconds = 30; seconds <= 300; seconds += 30) {
        const before = await end();
        await setAhead((command) => redis.sendCommand([...command]), seconds * 1_000);
        clock.advance(30_000);
        await poll("a renewal", async () => (await end()) > before);
        expect((await other!.apply(byTenant(), new Collected())).kind).toBe("refuse");
      }
      collected.release();
      await poll("the place", async () => (await other!.apply(byTenant(), new Collected())).kind === "continue");
    } finally {
      await setAhead((command) => redis.sendCommand([...command]), 0);
    }
  });

  it("frees the places of a holder that was killed within one window (A-20)", async () => {
    const [limit, window] = [3, 2_000];
    const holder = new TestProcess(process.execPath, [
      join(ROOT, "test", "redis", "quota-holder.ts"),
      ...[`127.0.0.1:${server.port}`, tenant, String(limit), `${window}ms`],
    ]);
    await holder.until("the holder", () => holder.stdout.includes("holding"));
    const gate = await quota({ limit, window: `${window}ms`, mode: "concurrency" });
    const ends = async (): Promise<number[]> => (await redis.zRangeWithScores(key, 0, -1)).map(({ score }) => score);
    // It lives: its places outlast their first lease.
    const firstEnd = Math.max(...(await ends()));
    await poll("renewals", async () => (await ends()).filter((end) => end > firstEnd).length === limit);
    // A holder that stands still for a window loses its places, and has them again as soon as it goes on.
    await poll("a refusal", async () => {
      const collected = new Collected();
      const { kind } = await gate.apply(byTenant(), collected);
      collected.release();
      return kind === "refuse";
    });
    await holder.stop("SIGKILL");
    const killed = await serverTime();
    for (const end of await ends()) expect(end - killed).toBeLessThanOrEqual(window);
    const collected = new Collected();
    await poll("all places", async () => {
      await gate.apply(byTenant(), collected);
      return collected.count === limit;
    });
  });

  it("gives places back after the server was away, without waiting for their leases to end", async () => {
    const gate = await quota({ limit: 200, window: "1h", mode: "concurrency" });
    const collected = new Collected();
    await Promise.all(Array.from({ length: 200 }, () => gate.apply(byTenant(), collected)));
    expect(await redis.zCard(key)).toBe(200);
    await server.kill();
    collected.release();
    await server.restart();
    await poll("all places to be free", async () => (await redis.exists(key)) === 0);
    await poll("a place", async () => (await gate.apply(byTenant(), new Collected())).kind === "continue");
  });

  it("waits for a counter of the reference to end, and removes one that never would", async () => {
    const gate = await quota({ limit: 3, mode: "concurrency" });
    await redis.set(key, "1", { expiration: { type: "EX", value: 3600 } });
    expect((await gate.apply(byTenant(), new Collected())).kind).toBe("refuse");
    await redis.pExpire(key, 1);
    await poll("the counter to end", async () => (await gate.apply(byTenant(), new Collected())).kind === "continue");
    await redis.set(key, "7");
    expect((await gate.apply(byTenant(), new Collected())).kind).toBe("continue");
  });

  it("counts quotas of both modes under one key apart, so that a changed mode starts afresh", async () => {
    const flight = await quota({ limit: 2, mode: "concurrency", window: "1h" });
    const rate = await quota({ limit: 3, window: "1h" });
    const [running, sent] = [new Collected(), new Collected()];
    const said = async (gate: DispatchGate, collected: Collected, count: number) => {
      const verdicts: string[] = [];
      for (let i = 0; i < count; i++) verdicts.push((await gate.apply(byTenant(), collected)).kind);
      return verdicts;
    };
    expect(await said(flight, running, 3)).toEqual(["continue", "continue", "refuse"]);
    expect(await said(rate, sent, 4)).toEqual(["continue", "continue", "continue", "refuse"]);
    expect(await said(flight, running, 1)).toEqual(["refuse"]);
    running.release();
    await poll("the places", async () => (await redis.zCard(key)) === 3);
    expect(await said(flight, running, 3)).toEqual(["continue", "continue", "refuse"]);
    expect(await said(rate, sent, 1)).toEqual(["refuse"]);
    expect(await redis.pTTL(key)).toBeGreaterThan(60_000);
    running.release();
  });
});

describe("redis gate", () => {
  it("follows its key, closes when the server dies, and opens by itself when it is back (A-18)", async () => {
    const gate = make("redis", { address: `127.0.0.1:${server.port}`, missing_budget: 1 });
    const strict = make("redis", { address: `127.0.0.1:${server.port}` });
    expect([await budget(gate), await budget(strict, /does not exist/)]).toEqual([1, 0]);
    for (const [text, share] of [
      ["-3", 0],
      ["7", 1],
      ["0.25", 0.25],
      ["seven", 0],
    ] as const) {
      await redis.set("dispatch-gate-budget", text);
      expect((await reading(gate)).budget).toBe(share);
    }
    await redis.set("dispatch-gate-budget", "0.5");
    await server.kill();
    const away = await reading(gate);
    expect(away).toMatchObject({ readable: false, budget: 0 });
    expect(away.problem).toContain(`127.0.0.1:${server.port}`);
    await server.restart();
    await poll("the budget", async () => (await reading(gate)).budget === 0.5);
  });

  it("gives its password, from the URL or from the environment, and is closed without (H-22)", async () => {
    const secured = await startRedis({ password: "p@ss/word" });
    process.env["SLUICE_TEST_REDIS_PASSWORD"] = "p@ss/word";
    try {
      const address = `127.0.0.1:${secured.port}`;
      const byUrl = make("redis", { url: secured.url, missing_budget: 1 });
      const byVariable = make("redis", {
        address,
        password_env: "SLUICE_TEST_REDIS_PASSWORD",
        missing_budget: 1,
      });
      const without = make("redis", { address, missing_budget: 1 });
      expect([await budget(byUrl), await budget(byVariable), await budget(without, /NOAUTH/)]).toEqual([1, 1, 0]);
      expect((await reading(without)).problem).not.toContain("p@ss");
      const limited = make("redis-quota", { url: secured.url, limit: 1 });
      await poll("a place", async () => (await limited.apply(byTenant(), new Collected())).kind === "continue");
    } finally {
      delete process.env["SLUICE_TEST_REDIS_PASSWORD"];
      await secured.stop();
    }
  });

  it("speaks TLS, shows a client certificate, and trusts nobody it was not told to (H-22)", async () => {
    const { ca, client: pair, server: serving } = await clientAuthority();
    const secured = await startRedis({ tls: { ...serving, ca } });
    const folder = mkdtempSync(join(tmpdir(), "sluice-gate-tls-"));
    const file = (name: string, text: string): string => {
      writeFileSync(join(folder, name), text);
      return join(folder, name);
    };
    try {
      const files = {
        tls_ca_file: file("ca.pem", ca),
        tls_cert_file: file("cert.pem", pair.cert),
        tls_key_file: file("key.pem", pair.key),
      };
      const address = `127.0.0.1:${secured.port}`;
      const trusting = make("redis", { address, ...files, missing_budget: 1 });
      const byUrl = make("redis", { url: secured.url, ...files, missing_budget: 1 });
      const { tls_ca_file, tls_cert_file, tls_key_file } = files;
      // As transports name them.
      const others = { tls_ca_cert: tls_ca_file, tls_cert: tls_cert_file, tls_key: tls_key_file };
      const byOthers = make("redis", { address, ...others, missing_budget: 1 });
      const stranger = make("redis", { address, tls: true, missing_budget: 1 });
      expect([await budget(trusting), await budget(byUrl), await budget(byOthers)]).toEqual([1, 1, 1]);
      expect(await budget(stranger, /certificate/i)).toBe(0);
    } finally {
      await secured.stop();
      rmSync(folder, { recursive: true });
    }
  });
});
