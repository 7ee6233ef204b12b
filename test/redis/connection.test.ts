import { afterEach, describe, expect, it } from "vitest";
import { realClock } from "../../src/base/clock/real.ts";
import { VirtualClock } from "../../src/base/clock/virtual.ts";
import { selfSignedPair } from "../../src/base/grpc/self-signed.ts";
import type { RedisConnection } from "../../src/base/redis/address.ts";
import { connectRedis, type Redis, type RedisOptions } from "../../src/base/redis/connection.ts";
import { redisScript } from "../../src/base/redis/script.ts";
import type { Span, Tracing } from "../../src/base/telemetry/tracing.ts";
import { clientAuthority } from "../support/certificates.ts";
import { poll } from "../support/poll.ts";
import { type RunningRedis, type RedisOptions as ServerOptions, startRedis } from "../support/redis.ts";
import { fixedLimit } from "../support/slowness.ts";
import { type TcpProxy, tcpProxy } from "../support/tcp-proxy.ts";
import { at, deps, direct, keepingLog } from "./setup.ts";

let server: RunningRedis;
let proxy: TcpProxy | undefined;
let links: Redis[] = [];

afterEach(async () => {
  for (const link of links) link.close();
  links = [];
  await proxy?.close();
  proxy = undefined;
  await server?.stop();
});

async function serve(options?: ServerOptions): Promise<void> {
  server = await startRedis(options);
}

function link(connection: RedisConnection, options: RedisOptions = {}, more: object = {}): Redis {
  const made = connectRedis(connection, { ...deps, ...more }, options);
  links.push(made);
  return made;
}

const isReady = (made: Redis): Promise<void> => made.whenReady(fixedLimit(10_000));

async function proxied(options: RedisOptions = {}, more: object = {}): Promise<Redis> {
  proxy = await tcpProxy(server.port);
  const made = link(at(`redis://127.0.0.1:${proxy.port}`), options, more);
  await isReady(made);
  return made;
}

/** Whatever the reason is: an attempt has failed. */
const TOLD = /cannot be used(?!.*not connected yet)/;

/** Waits until a connection that is not to be had says why. */
async function refused(link: Redis, reason: RegExp): Promise<void> {
  await poll(`${reason}`, () => reason.test(link.absence().message));
  await expect(link.whenReady(1)).rejects.toEqual(unavailable);
}

const unavailable = expect.objectContaining({ code: "BROKER_UNAVAILABLE" });

describe("a connection to Redis", () => {
  it("A-41 rediss:// with an authority of one's own and a client certificate", async () => {
    const { ca, client, server: pair } = await clientAuthority();
    await serve({ tls: { ...pair, ca } });
    const good = link({ url: server.url, tls: { ca, ...client }, enableTracing: false });
    await isReady(good);
    expect(await good.send(["PING"])).toBe("PONG");

    const trustingOthers = link({ url: server.url, tls: client, enableTracing: false });
    await refused(trustingOthers, /certificate/i);
    const unknown = link({ url: server.url, tls: { ca }, enableTracing: false });
    await refused(unknown, TOLD);
    const plain = link(at(server.url.replace("rediss", "redis")));
    await refused(plain, TOLD);
    await server.stop();

    const nameless = await selfSignedPair(realClock);
    await serve({ tls: nameless });
    const named = link({ url: server.url, tls: { ca: nameless.cert }, enableTracing: false });
    await refused(named, /does not match certificate|altnames/i);
  });

  it("user, password and database of the URL count; a wrong password is named as such and never shown", async () => {
    await serve({ password: "pa ss/w@rd" });
    const good = link(at(`${server.url}/3`));
    await isReady(good);
    await good.send(["SET", "here", "1"]);
    const other = await direct(server.url);
    links.push(other);
    expect(await other.send(["EXISTS", "here"])).toBe(0);
    expect(String(await other.send(["INFO", "keyspace"]))).toContain("db3:keys=1");

    const { log, lines } = keepingLog();
    const bad = link(at(`redis://:secret-secret@127.0.0.1:${server.port}`), {}, { log });
    await refused(bad, /WRONGPASS/);
    const none = link(at(`redis://127.0.0.1:${server.port}`), {}, { log });
    await refused(none, /NOAUTH/);
    await expect(bad.send(["PING"])).rejects.not.toThrow(/secret-secret/);
    expect(lines.length).toBeGreaterThan(0);
    expect(JSON.stringify(lines)).not.toContain("secret-secret");
  });

  it("without a server commands reject at once, and it is there as soon as the server is", async () => {
    await serve();
    await server.kill();
    const { log, lines } = keepingLog();
    const redis = link(at(server.url), {}, { log });
    for (let i = 0; i < 1000; i++) await expect(redis.send(["PING"])).rejects.toEqual(unavailable);
    await poll("several attempts", () => lines.length > 0);
    await server.restart();
    await isReady(redis);
    expect(await redis.send(["PING"])).toBe("PONG");
    // One line for the outage however many attempts, one for its end.
    expect(lines.map(({ level }) => level)).toEqual(["warn", "info"]);
  });

  it("H-15 a command whose answer was lost rejects and is not sent again", async () => {
    await serve();
    const redis = await proxied();
    const other = await direct(server.url);
    links.push(other);
    expect(await redis.send(["INCR", "count"])).toBe(1);
    proxy!.loseNextReply();
    const both = await Promise.allSettled([redis.send(["INCR", "count"]), redis.send(["INCR", "count"])]);
    expect(both.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    await isReady(redis);
    expect(proxy!.connections()).toBe(2);
    expect(await redis.send(["GET", "count"])).toBe("3");
  });

  it("a server that hangs, and a network that swallows everything, count as away; others are served afterwards", async () => {
    await serve();
    const redis = await proxied({ commandTimeout: 300 });
    proxy!.blackHole(true);
    await expect(redis.send(["PING"])).rejects.toThrow("no answer within 300 ms");
    await expect(redis.send(["PING"])).rejects.toEqual(unavailable);
    proxy!.blackHole(false);
    // A server that is slow may be away once more.
    expect(await poll("an answer", () => redis.send(["PING"]))).toBe("PONG");
  });

  it("a busy connection outlives its command timeout many times over", async () => {
    await serve();
    const clock = new VirtualClock();
    const redis = await proxied({ commandTimeout: 100 }, { clock });
    await redis.send(["PING"]);
    while (clock.now() < 1000) {
      const answer = redis.send(["PING"]);
      clock.advance(60);
      expect(await answer).toBe("PONG");
    }
    expect(proxy!.connections()).toBe(1);
  });

  it("an answer that came while the process stood still counts, also when its timer is looked at first", async () => {
    await serve();
    const later: (() => void)[] = [];
    const clock = new (class extends VirtualClock {
      override soon(callback: () => void): void {
        later.push(callback);
      }
    })();
    const redis = await proxied({ commandTimeout: 100 }, { clock });
    const answer = redis.send(["PING"]);
    clock.advance(100);
    expect(await answer).toBe("PONG");
    for (const callback of later.splice(0)) callback();
    expect(await redis.send(["PING"])).toBe("PONG");
    expect(proxy!.connections()).toBe(1);
  });

  it("asks for less where the server knows no HELLO, or no CLIENT TRACKING, and says what that means", async () => {
    for (const command of ["HELLO", "CLIENT"]) {
      await serve({ args: ["--rename-command", command, ""] });
      const { log, lines } = keepingLog();
      const redis = link(at(server.url), { onChanged() {} }, { log });
      await isReady(redis);
      expect(redis.announces).toBe(false);
      expect(await redis.send(["PING"])).toBe("PONG");
      expect(lines.filter(({ level }) => level === "warn").map(({ message }) => message)).toEqual([
        "Redis does not announce changes of keys (CLIENT TRACKING), so Sluice polls the queues",
      ]);
      redis.close();
      await server.stop();
    }
    await serve();
  });

  it("asks for less where the access list does not allow everything", async () => {
    await serve();
    const admin = await direct(server.url);
    links.push(admin);
    for (const denied of ["-client|tracking", "-client|caching"]) {
      const rules = ["reset", "on", ">pass", "~*", "&*", "+@all", denied];
      await admin.send(["ACL", "SETUSER", "limited", ...rules]);
      const redis = link(at(`redis://limited:pass@127.0.0.1:${server.port}`), { onChanged() {} });
      await isReady(redis);
      expect(redis.announces).toBe(false);
      expect(await redis.send(["PING"])).toBe("PONG");
    }
  });

  it("scripts are found again after they were flushed", async () => {
    await serve();
    const redis = await direct(server.url);
    links.push(redis);
    const script = redisScript("return { KEYS[1], ARGV[1] }");
    expect(await redis.run(script, ["k"], ["a"])).toEqual(["k", "a"]);
    await redis.send(["SCRIPT", "FLUSH"]);
    expect(await redis.run(script, ["k"], ["b"])).toEqual(["k", "b"]);
  });

  it("what the server refuses is told with its reason, and the connection goes on", async () => {
    await serve();
    const redis = await direct(server.url);
    links.push(redis);
    await redis.send(["SET", "text", "1"]);
    await expect(redis.send(["LPUSH", "text", "1"])).rejects.toMatchObject({
      code: "REDIS_REFUSED",
      wrongType: true,
      message: expect.stringContaining("WRONGTYPE"),
    });
    await redis.send(["CONFIG", "SET", "maxmemory", "1"]);
    await expect(redis.send(["SET", "more", "1"])).rejects.toEqual(unavailable);
    expect(await redis.send(["GET", "text"])).toBe("1");
  });

  it("subscriptions come back with the connection", async () => {
    await serve();
    const redis = link(at(server.url));
    const heard: string[] = [];
    redis.subscribe("news", (message) => heard.push(message));
    await isReady(redis);
    redis.subscribe("more", (message) => heard.push(message));
    const tell = async (channel: string, text: string): Promise<void> => {
      const other = await direct(server.url);
      await poll("a listener", async () => (await other.send(["PUBLISH", channel, text])) === 1);
      other.close();
    };
    await tell("news", "one");
    await tell("more", "two");
    await poll("two messages", () => heard.length === 2);
    await server.kill();
    await server.restart();
    await tell("news", "three");
    await poll("three messages", () => heard.length === 3);
    expect(heard).toEqual(["one", "two", "three"]);
  });

  it("enable_tracing: a span per command, with its failure and without its arguments", async () => {
    await serve();
    const spans: unknown[] = [];
    const tracing: Tracing = {
      on: true,
      start(name, _carrier, attributes) {
        const span = { name, attributes, failed: "", ended: false };
        spans.push(span);
        return {
          fail: (status: string) => {
            span.failed = status;
          },
          end: () => {
            span.ended = true;
          },
        } as Partial<Span> as Span;
      },
      close: async () => {},
    };
    const redis = link({ ...at(server.url), enableTracing: true }, {}, { tracing });
    await isReady(redis);
    await redis.send(["SET", "secret", "1"]);
    await redis.send(["LPUSH", "secret", "1"]).catch(() => undefined);
    const attributes = (name: string) => ({ "db.system.name": "redis", "db.operation.name": name });
    expect(spans).toEqual([
      { name: "redis SET", attributes: attributes("SET"), failed: "", ended: true },
      { name: "redis LPUSH", attributes: attributes("LPUSH"), failed: "command failed", ended: true },
    ]);
    const off = link(at(server.url), {}, { tracing });
    await isReady(off);
    await off.send(["PING"]);
    expect(spans).toHaveLength(2);
  });
});
