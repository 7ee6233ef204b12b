import { describe, expect, it } from "vitest";
import { valkeyServer } from "../../scripts/test-parts.ts";
import { SeededRandom } from "../../src/base/clock/random.ts";
import { KEY_PREFIX } from "../../src/pool/peers/redis-keys.ts";
import { clientAuthority } from "../support/certificates.ts";
import { poll } from "../support/poll.ts";
import type { RunningRedis } from "../support/redis.ts";
import { tcpProxy } from "../support/tcp-proxy.ts";
import { ask, ending, LOG, PREFIX, pair, Replica, serve } from "./peers-setup.ts";

describe.each([
  ["Redis", undefined],
  ["Valkey", valkeyServer],
])("replicas that share through %s", (_, program) => {
  const begin = (): Promise<RunningRedis> => serve(program === undefined ? {} : { program: program() });

  it("hear each other, and a late joiner hears all; who ends is forgotten at once, the dead after 3 s", async () => {
    const server = await begin();
    const [a, b] = await pair(server.url);
    await b.hears(a, "a1", "a2");
    await a.hears(b, "b1");
    const c = new Replica("c", server.url);
    await c.isUp;
    await poll("the log", () => c.log.size === 3);
    await poll("the loads", () => c.loads.size === 2);
    const members = (): Promise<unknown> => ask(server.url, "SMEMBERS", `${PREFIX}:members`);
    expect(await members()).toHaveLength(2);
    await a.transport.close();
    expect(await members()).toHaveLength(1);
    // Only this replica is silent from now on: its key expires, and the next one that joins removes it from the set.
    await poll("its load to expire", async () => (await ask(server.url, "DBSIZE")) === 2);
    const d = new Replica("d", server.url);
    await d.isUp;
    await poll("the set to be empty", async () => (await ask(server.url, "DBSIZE")) === 1);
    expect(d.loads.size).toBe(0);
  });

  it("go on after the store was killed and restarted, and after it lost everything", async () => {
    const server = await begin();
    const [a, b] = await pair(server.url);
    await b.hears(a, "before");
    await server.kill();
    await poll("both to know", () => !a.up && !b.up);
    a.tell("meanwhile");
    expect(a.transport.view.state).not.toBe("up");
    await server.restart();
    await b.hears(a, "after");
    await poll("what waited", () => b.log.has("meanwhile"));
    await ask(server.url, "FLUSHALL");
    await b.hears(a, "last");
    expect(a.transport.view).toMatchObject({ state: "up", dropped: 0, waiting: 0 });
  });
});

describe("replicas that share through Redis", () => {
  it("heal after each way in which a network fails: cut, slow, silent, garbled, cut in the middle", async () => {
    const server = await serve();
    const proxy = ending(await tcpProxy(server.port), (one) => one.close());
    const [a, b] = await pair(server.url, `redis://127.0.0.1:${proxy.port}`);
    await b.hears(a, "0");
    proxy.cut();
    await b.hears(a, "cut");
    proxy.delay(50);
    await b.hears(a, "slow");
    // Later than a store may answer: also the first commands of each connection are as late, and do not hide it.
    proxy.delay(2000);
    await poll("b to find it slow", () => b.transport.view.state === "slow");
    expect(b.transport.view.reason).toMatch(/no answer within|does not answer/);
    proxy.delay(0);
    proxy.cut();
    await poll("b to be well after the slowness", () => b.up);
    proxy.truncateAfter(40);
    await b.hears(a, "short");
    proxy.garble(new SeededRandom(5));
    for (let i = 0; i < 20; i++) b.tell(`garbled-${i}`);
    await poll("garbled pieces", () => {
      a.tell("while garbled");
      return b.transport.view.damaged > 0 || b.transport.view.state !== "up";
    });
    proxy.garble(undefined);
    proxy.cut();
    await b.hears(a, "whole");
    proxy.blackHole(true);
    await poll("b to notice", () => !b.up);
    proxy.blackHole(false);
    await b.hears(a, "again");
    await a.hears(b, "both ways");
    await poll("b to be well", () => b.up);
    // Nothing that was damaged came through: b has heard only what a has said.
    expect([...b.log].filter((text) => !/^[\w- ]+$/.test(text))).toEqual([]);
  });

  it("a full store takes no log, but loads go on; with room again the log follows", async () => {
    const server = await serve();
    const [a, b] = await pair(server.url);
    await ask(server.url, "CONFIG", "SET", "maxmemory", "1");
    a.tell("kept");
    await poll("a to know", () => a.transport.view.state === "full");
    await b.hears(a);
    await ask(server.url, "CONFIG", "SET", "maxmemory", "0");
    await b.hears(a, "more");
    await poll("what was kept", () => b.log.has("kept"));
    // As a replica does every second: what the store refused of its load is written again with the next one.
    await poll("a to be well", () => a.tell() > 0 && a.up);
    // A failover without a Sentinel: the server of this URL takes no writes for a while.
    await ask(server.url, "REPLICAOF", "127.0.0.1", "1");
    a.tell("kept, too");
    await poll("a to find a replica", () => a.transport.view.state === "read-only");
    await ask(server.url, "REPLICAOF", "NO", "ONE");
    await b.hears(a, "after the failover");
    await poll("what was kept", () => b.log.has("kept, too"));
  });

  it("a key of somebody else is told, left alone, and used once it is gone", async () => {
    const server = await serve();
    await ask(server.url, "SET", LOG, "not a stream");
    const [a, b] = [new Replica("a", server.url), new Replica("b", server.url)];
    a.tell("kept");
    await poll("a to know", () => a.transport.view.state === "wrong-type");
    expect(await ask(server.url, "GET", LOG)).toBe("not a stream");
    await b.hears(a);
    await ask(server.url, "DEL", LOG);
    await b.hears(a, "more");
    await poll("what was kept", () => b.log.has("kept"));
  });

  it("a user of the access list needs the keys and the commands that the documentation names, and no more", async () => {
    const server = await serve();
    const commands = [
      ...["+publish", "+subscribe", "+set", "+del", "+mget", "+pttl", "+pexpire", "+exists", "+ping", "+info"],
      ...["+sadd", "+srem", "+srandmember", "+xadd", "+xread", "+xrevrange", "+client|setname", "+hello", "+select"],
    ];
    const user = ["ACL", "SETUSER", "picker", "reset", "on", ">secret", `~${KEY_PREFIX}*`, `&${KEY_PREFIX}*`];
    await ask(server.url, ...user, ...commands);
    const url = `redis://picker:secret@127.0.0.1:${server.port}`;
    const [a, b] = await pair(url);
    await b.hears(a, "allowed");
    await ask(server.url, "ACL", "SETUSER", "picker", "-xadd");
    a.tell("forbidden");
    await poll("a to know", () => a.transport.view.state === "forbidden");
    await ask(server.url, "ACL", "SETUSER", "picker", "+xadd");
    await poll("the log", () => b.log.has("forbidden"));
    const stranger = new Replica("s", `redis://picker:wrong@127.0.0.1:${server.port}`);
    await poll("the stranger to know", () => stranger.transport.view.state === "forbidden");
    expect(JSON.stringify(stranger.transport.view)).not.toContain("wrong@");
  });

  it("a server without streams is told, and loads go on; so is one that does not know the first commands", async () => {
    const server = await serve({ args: ["--rename-command", "XADD", "", "--rename-command", "XREAD", ""] });
    const [a, b] = [new Replica("a", server.url), new Replica("b", server.url)];
    await poll("a to know", () => a.transport.view.state === "refused");
    await b.hears(a);
    const older = await serve({ args: ["--rename-command", "EXISTS", ""] });
    const c = new Replica("c", older.url);
    await poll("c to know", () => c.transport.view.state === "refused");
    expect(c.transport.view.reason).toContain("unknown command");
  });

  it("TLS with an authority of one's own and a client certificate", async () => {
    const { ca, client, server: own } = await clientAuthority();
    const server = await serve({ tls: { ...own, ca } });
    const [a, b] = [new Replica("a", server.url, { ca, ...client }), new Replica("b", server.url, { ca, ...client })];
    await b.hears(a, "private");
    const trustingOthers = new Replica("s", server.url);
    await poll("the certificate to be refused", () => trustingOthers.transport.view.state === "away");
  });
});
