import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, it, type TestContext } from "vitest";
import type { DispatchProcessOptions } from "../support/dispatch-process.ts";
import { type DispatchStore, openStore, RedisStore, type StoreKind } from "../support/dispatch-store.ts";
import { poll } from "../support/poll.ts";
import { PROGRAM, sluice, TestProcess } from "../support/process.ts";
import { tcpProxy } from "../support/tcp-proxy.ts";
import { Cleanup, Dispatching, inSeconds, ScriptedGateway } from "./dispatching.ts";

/** Of one test: they run side by side, since each mostly waits for its processes. */
function parts({ onTestFinished }: TestContext) {
  const cleanup = new Cleanup();
  onTestFinished(() => cleanup.run());
  return {
    cleanup,
    store: async (kind: StoreKind): Promise<DispatchStore> =>
      cleanup.add(await openStore(kind), (each) => each.close()),
    gatewayOf: async (): Promise<ScriptedGateway> =>
      cleanup.add(await new ScriptedGateway().open(), (each) => each.close()),
    dispatch: async (options: DispatchProcessOptions): Promise<Dispatching> =>
      cleanup.add(await Dispatching.start(options), ({ process }) => process.stop()),
  };
}

const JSON_TYPE = expect.stringMatching(/^application\/json/);
const requests = (count: number, prefix = "m") =>
  Array.from({ length: count }, (_, i) => ({ id: `${prefix}${i}`, deadline: inSeconds(600), payload: { n: i } }));
const idsOf = (texts: readonly string[]) => texts.map((text) => (JSON.parse(text) as { id: string }).id);

describe.concurrent("the probes (A-86, async-processor 8.3)", () => {
  it("say ready, and not ready from SIGTERM on, while the process lives on; nothing of Kubernetes is needed", async (context) => {
    const { store, gatewayOf, dispatch } = parts(context);
    const [queue, gateway] = [await store("SQLite"), await gatewayOf()];
    const answers = Promise.withResolvers<void>();
    gateway.reply = () => ({ until: answers.promise });
    // As outside of a cluster.
    const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("KUBE")));
    expect(env["KUBERNETES_SERVICE_HOST"]).toBeUndefined();
    const dispatching = await dispatch({ transport: queue.transport, gateway: gateway.url });
    await dispatching.ready();
    expect(await dispatching.probe("/readyz")).toEqual({ status: 200, type: JSON_TYPE, body: { status: "ready" } });
    expect(await dispatching.probe("/healthz")).toEqual({ status: 200, type: JSON_TYPE, body: { status: "ok" } });
    await queue.submit(requests(1));
    await poll("the request", () => gateway.running === 1);
    dispatching.process.child.kill("SIGTERM");
    await poll("not ready", async () => (await dispatching.probe("/readyz")).status === 503);
    expect(await dispatching.probe("/readyz")).toEqual({ status: 503, type: JSON_TYPE, body: { status: "not ready" } });
    expect(await dispatching.probe("/healthz")).toEqual({ status: 200, type: JSON_TYPE, body: { status: "ok" } });
    answers.resolve();
    expect(await dispatching.process.ended()).toEqual({ code: 0, signal: null });
    expect(idsOf(await queue.results())).toEqual(["m0"]);
    // Everything it says goes to stderr.
    expect(dispatching.process.stdout).toBe("");
  });

  it("a Redis that is down at start costs readiness, not the process; it begins by itself when Redis is there", async (context) => {
    const { cleanup, gatewayOf, dispatch } = parts(context);
    const redis = cleanup.add(await RedisStore.start(), (each) => each.close());
    const gateway = await gatewayOf();
    await redis.submit(requests(5));
    await redis.server.kill();
    const dispatching = await dispatch({ transport: redis.transport, gateway: gateway.url });
    expect((await dispatching.probe("/healthz")).status).toBe(200);
    const down = await poll("the first attempt to connect to have failed", async () => {
      const seen = await dispatching.probe("/readyz");
      expect(seen).toMatchObject({ status: 503, type: JSON_TYPE, body: { status: "not ready" } });
      return (seen.body as { error: string }).error.includes("not connected yet") ? undefined : seen;
    });
    expect((down.body as { error: string }).error).toMatch(/ECONNREFUSED|connection refused/);
    await redis.server.restart();
    await dispatching.ready();
    await poll("five results", async () => (await redis.countResults()) === 5);
    // And again, while it runs.
    await redis.server.kill();
    await poll("not ready", async () => (await dispatching.probe("/readyz")).status === 503);
    dispatching.process.child.kill("SIGTERM");
    expect(await dispatching.process.ended()).toEqual({ code: 0, signal: null });
    await redis.server.restart();
  });

  it("a Redis that is out of memory is not ready, with the reason and one line in the log, and ready again with room", async (context) => {
    const { cleanup, gatewayOf, dispatch } = parts(context);
    const redis = cleanup.add(await RedisStore.start(false), (each) => each.close());
    const gateway = await gatewayOf();
    const dispatching = await dispatch({ transport: redis.transport, gateway: gateway.url });
    await dispatching.ready();
    // On a slow machine it may have told before that Redis was not connected yet.
    const toldBefore = dispatching.process.stderr.length;
    const answers = Promise.withResolvers<void>();
    gateway.reply = () => ({ until: answers.promise });
    await redis.submit(requests(20));
    await poll("the requests", () => gateway.running === 20);
    await redis.redis.send(["CONFIG", "SET", "maxmemory", "1"]);
    answers.resolve();
    await poll("every answer waits", () => gateway.seen.length === 20 && gateway.running === 0);
    await poll("not ready", async () => (await dispatching.probe("/readyz")).status === 503);
    for (let i = 0; i < 20; i++) {
      const { body } = await dispatching.probe("/readyz");
      expect(body).toEqual({ status: "not ready", error: expect.stringContaining("OOM") });
    }
    expect((await dispatching.probe("/healthz")).status).toBe(200);
    await redis.redis.send(["CONFIG", "SET", "maxmemory", "0"]);
    await dispatching.ready();
    await poll("all results", async () => (await redis.countResults()) === 20);
    // A key of another type where the queue should be.
    await redis.redis.send(["SET", "q", "x"]);
    await poll("not ready", async () => (await dispatching.probe("/readyz")).status === 503);
    const { body } = await dispatching.probe("/readyz");
    expect(body).toEqual({ status: "not ready", error: expect.stringMatching(/WRONGTYPE/) });
    await redis.redis.send(["DEL", "q"]);
    await dispatching.ready();
    const said = dispatching.process.stderr.slice(toldBefore);
    const told = said.split("\n").filter((line) => line.includes("not ready: "));
    expect(told).toEqual([expect.stringContaining("OOM"), expect.stringContaining("WRONGTYPE")]);
  });

  it("a broker that accepts connections and says nothing is not ready within the limit of 3 s", async (context) => {
    const { cleanup, dispatch } = parts(context);
    const redis = cleanup.add(await RedisStore.start(false), (each) => each.close());
    const proxy = cleanup.add(await tcpProxy(redis.server.port), (each) => each.close());
    const transport = {
      name: "redis-sortedset" as const,
      config: { ...redis.transport.config, url: `redis://127.0.0.1:${proxy.port}` },
    };
    const dispatching = await dispatch({ transport, gateway: "http://127.0.0.1:9" });
    await dispatching.ready();
    proxy.blackHole(true);
    await poll("not ready", async () => (await dispatching.probe("/readyz")).status === 503);
    const { body } = await dispatching.probe("/readyz");
    expect((body as { error?: string }).error).not.toBe("");
    expect((await dispatching.probe("/healthz")).status).toBe(200);
  });
});

describe.concurrent.each(["Redis", "SQLite"] as const)("a stop of a process on %s", (kind) => {
  it("lets what runs end and gives the rest back; a second signal ends it at once (A-87, A-90)", async (context) => {
    const { store, gatewayOf, dispatch } = parts(context);
    const [queue, gateway] = [await store(kind), await gatewayOf()];
    const answers = Promise.withResolvers<void>();
    gateway.reply = ({ id }) => (id < "m4" ? { until: answers.promise } : { after: Number.POSITIVE_INFINITY });
    const options = { transport: queue.transport, gateway: gateway.url, workers: 4 };
    const first = await dispatch(options);
    await queue.submit(requests(9));
    await poll("four requests", () => gateway.running === 4);
    first.process.child.kill("SIGTERM");
    await poll("not ready", async () => (await first.probe("/readyz")).status === 503);
    answers.resolve();
    expect(await first.process.ended()).toEqual({ code: 0, signal: null });
    expect((await queue.results()).map((text) => JSON.parse(text).status_code)).toEqual([200, 200, 200, 200]);
    expect(await queue.leftovers()).toEqual({ waiting: 5, claimed: 0, retries: 0, dead: 0 });

    // Those that are left are never answered: a second signal does not wait for them.
    const second = await dispatch({ ...options, leases: { claim_ttl_ms: 2000, reclaim_interval_ms: 500 } });
    await poll("four more", () => gateway.running === 4);
    second.process.child.kill("SIGTERM");
    await poll("not ready", async () => (await second.probe("/readyz")).status === 503);
    second.process.child.kill("SIGTERM");
    const { code, signal } = await second.process.ended(3000);
    expect(signal).toBeNull();
    expect(code).not.toBe(0);
    // Nothing is lost by it: the leases run out.
    gateway.reply = () => ({});
    await dispatch({ ...options, leases: { claim_ttl_ms: 2000, reclaim_interval_ms: 500 } });
    await poll("all results", async () => (await queue.countResults()) === 9);
    expect(new Set(idsOf(await queue.results())).size).toBe(9);
  });

  it("cuts off what takes longer than the drain, and is gone in time: queued + parked + results = all (A-87)", async (context) => {
    const { store, gatewayOf, dispatch } = parts(context);
    const [queue, gateway] = [await store(kind), await gatewayOf()];
    gateway.reply = ({ id }) => {
      // Its retry is not due before the end.
      if (id === "m0") return { status: 503, headers: { "retry-after": "200" } };
      return { after: id === "m1" ? 0 : Number.POSITIVE_INFINITY };
    };
    const dispatching = await dispatch({
      ...{ transport: queue.transport, gateway: gateway.url, workers: 8 },
      args: ["--drain-timeout", "1s"],
    });
    await queue.submit(requests(30));
    await poll("eight requests", () => gateway.running === 8);
    const begun = performance.now();
    dispatching.process.child.kill("SIGTERM");
    expect(await dispatching.process.ended(10_000)).toEqual({ code: 0, signal: null });
    expect(performance.now() - begun).toBeGreaterThan(900);
    expect(await queue.leftovers()).toEqual({ waiting: 28, claimed: 0, retries: 1, dead: 0 });
    expect(idsOf(await queue.results())).toEqual(["m1"]);
    // Cut off: the gateway has noticed.
    await poll("the connections to be gone", () => gateway.running === 0);
  });

  it("returns everything when all workers are parked at a closed gate (A-88)", async (context) => {
    const { cleanup, store, gatewayOf, dispatch } = parts(context);
    const queue = await store(kind);
    const folder = mkdtempSync(join(tmpdir(), "sluice-pools-"));
    cleanup.add(folder, () => rmSync(folder, { recursive: true, force: true }));
    const pools = join(folder, "pools.json");
    const one = { gate_type: "local-max-concurrency", gate_params: { limit: 1 } };
    const gate = { gate_type: "wait-on-refuse", gate_params: { gate: one } };
    writeFileSync(pools, JSON.stringify([{ id: "default", workers: 4, ...gate }]));
    const gateway = await gatewayOf();
    gateway.reply = () => ({ after: Number.POSITIVE_INFINITY });
    const dispatching = await dispatch({
      ...{ transport: queue.transport, gateway: gateway.url },
      args: ["--pool-config-file", pools, "--drain-timeout", "500ms"],
    });
    await queue.submit(requests(20));
    // One has the only slot for ever; three wait for it.
    const parked = async () =>
      (await dispatching.metric("gate_decisions_total", 'queue_name="",reason="gate_closed"')) === 3;
    await poll("three that wait", parked);
    dispatching.process.child.kill("SIGTERM");
    expect(await dispatching.process.ended(6000)).toEqual({ code: 0, signal: null });
    expect(gateway.seen).toHaveLength(1);
    expect(await queue.leftovers()).toEqual({ waiting: 20, claimed: 0, retries: 0, dead: 0 });
  });

  const whenGone = async (context: TestContext): Promise<void> => {
    const { cleanup, gatewayOf, dispatch } = parts(context);
    const redis = cleanup.add(await RedisStore.start(), (each) => each.close());
    const gateway = await gatewayOf();
    const answers = Promise.withResolvers<void>();
    gateway.reply = () => ({ until: answers.promise });
    const dispatching = await dispatch({
      ...{ transport: redis.transport, gateway: gateway.url, workers: 4 },
      args: ["--drain-timeout", "1s"],
    });
    await redis.submit(requests(4));
    await poll("four requests", () => gateway.running === 4);
    await redis.server.kill();
    answers.resolve();
    dispatching.process.child.kill("SIGTERM");
    expect(await dispatching.process.ended(20_000)).toEqual({ code: 0, signal: null });
    await redis.server.restart();
    const left = await poll("a connection", () => redis.leftovers());
    expect(left).toMatchObject({ claimed: 4 });
  };
  // A file cannot be gone as a server can.
  if (kind === "Redis") it("ends within the drain and 5 s although its store is gone (async-processor 8.4)", whenGone);
});

describe.concurrent("a start that fails", () => {
  let folder = "";
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "sluice-config-"));
    return () => rmSync(folder, { recursive: true, force: true });
  });
  const queue = (more: string): string => `transport: sqlite
transport-config:
  path: queue.db
  queues:
  - queue_name: q
    igw_base_url: http://127.0.0.1:9
${more}`;
  async function failing(text: string, ...flags: string[]): Promise<{ code: number | null; stderr: string }> {
    const own = mkdtempSync(join(folder, "start-"));
    const file = join(own, "dispatch.yaml");
    writeFileSync(file, text);
    const ports = ["--health-port", "0", "--metrics-port", "0", "--bind-address", "127.0.0.1"];
    const started = sluice("dispatch", "--config", file, ...ports, ...flags);
    const { code } = await started.ended();
    expect(started.stdout).toBe("");
    return { code, stderr: started.stderr.replaceAll(own, "") };
  }

  it.each([
    ["a key of the file", queue("concurency: 3\n"), /\/dispatch\.yaml:7:1: .*concurency.*concurrency/],
    [
      "a value of the file",
      queue("concurrency: many\n"),
      /\/dispatch\.yaml:7:1: concurrency: expected a number, got the string/,
    ],
    ["no YAML at all", "transport: [sqlite\n", /\/dispatch\.yaml:\d+:\d+: /],
    [
      "an unknown gate type (A-13)",
      queue("    gate_type: promethius-budget\n"),
      /dispatch\.yaml:\d+:5: queues\[0\]\.gate_type: gate type `promethius-budget` is not known; did you mean `prometheus-budget`\?/,
    ],
    [
      "a gate's parameter (A-12, H-47)",
      queue("    gate_type: prometheus-budget\n    gate_params: {pol: llama}\n"),
      /dispatch\.yaml:\d+:19: queues\[0\]\.gate_params\.pol: unknown key `pol`; did you mean `pool`/,
    ],
    ["a pool that is not there (A-71)", queue("    worker_pool_id: big\n"), /big/],
  ])("because of %s says where and what, status 1", async (_, text, message) => {
    const { code, stderr } = await failing(text);
    expect(stderr).toMatch(message);
    expect(code).toBe(1);
    // Nothing but what is wrong: no stack, no source.
    expect(stderr).not.toMatch(/\n\s+at |node:internal/);
  });

  it("because of an unknown flag is status 2, of flags that exclude each other status 1", async () => {
    const unknown = await failing(queue(""), "--concurency=2");
    expect(unknown.code).toBe(2);
    expect(unknown.stderr).toMatch(
      /^sluice: unknown flag --concurency; did you mean --concurrency\?\n {2}FLAG_UNKNOWN: .*\n$/,
    );
    const both = await failing(queue(""), "--tls-cert", "x.pem");
    expect(both.code).toBe(1);
    expect(both.stderr).toMatch(/^(error|invalid configuration): /m);
  });

  it("because a port is taken is status 1 and names it", async (context) => {
    const { gatewayOf } = parts(context);
    const gateway = await gatewayOf();
    const port = gateway.url.slice(gateway.url.lastIndexOf(":") + 1);
    const { code, stderr } = await failing(queue(""), "--health-port", port);
    expect(code).toBe(1);
    expect(stderr).toContain(port);
  });

  it("is none with the switch for unknown gates: the gate is open, and a warning says so (A-13)", async (context) => {
    const { cleanup } = parts(context);
    const file = join(folder, "open.yaml");
    writeFileSync(file, queue("    gate_type: aimd-of-mine\n"));
    const ports = ["--health-port", "0", "--metrics-port", "0", "--bind-address", "127.0.0.1"];
    const started = sluice("dispatch", "--config", file, ...ports, "--allow-unknown-gates");
    cleanup.add(started, (each) => each.stop());
    const dispatching = await Dispatching.of(started);
    await dispatching.ready();
    expect(started.stderr).toMatch(/WARN.*aimd-of-mine/);
  });

  it("help is status 0 on stdout", async () => {
    const help = new TestProcess(process.execPath, [PROGRAM, "dispatch", "--help"]);
    expect((await help.ended()).code).toBe(0);
    expect(help.stderr).toBe("");
    expect(help.stdout).toContain("--drain-timeout");
  });
});
