import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openStore } from "../support/dispatch-store.ts";
import { poll } from "../support/poll.ts";
import { type RunningRedis, startRedis } from "../support/redis.ts";
import { fixedLimit, slownessAtStart } from "../support/slowness.ts";
import { Cleanup, type Command, Dispatching, inSeconds, otherClient, ScriptedGateway } from "./dispatching.ts";

const cleanup = new Cleanup();
let redis: RunningRedis;
let gateway: ScriptedGateway;
let send: Command;
let dispatching: Dispatching;
let outage: ReturnType<typeof throughAnOutage>;

beforeAll(async () => {
  outage = throughAnOutage();
  // Whoever waits for it hears of it.
  outage.catch(() => {});
  redis = cleanup.add(await startRedis(), (each) => each.stop());
  gateway = cleanup.add(await new ScriptedGateway().open(), (each) => each.close());
  send = await otherClient(redis.url, cleanup);
  dispatching = cleanup.add(
    await Dispatching.start({
      transport: { name: "redis-sortedset", config: { url: redis.url, result_queue_name: "results" } },
      gateway: gateway.url,
    }),
    ({ process }) => process.stop(),
  );
  await dispatching.ready();
});
afterAll(() => cleanup.run());

/** Takes its time, and runs while the other tests do. */
async function throughAnOutage() {
  const store = cleanup.add(await openStore("SQLite"), (each) => each.close());
  const away = cleanup.add(await new ScriptedGateway().open(), (each) => each.close());
  away.reply = () => ({ after: 20 });
  const other = cleanup.add(
    await Dispatching.start({ transport: store.transport, gateway: away.url, workers: 16 }),
    ({ process }) => process.stop(),
  );
  let count = 0;
  const submit = (): Promise<void> =>
    store.submit(
      Array.from({ length: 25 }, () => ({ id: `m${count++}`, deadline: inSeconds(600), payload: { n: count } })),
    );
  await submit();
  await poll("the first results", async () => (await store.countResults()) > 10);
  await away.close();
  const closedAt = performance.now();
  while (performance.now() - closedAt < 10_000 || count <= 500) {
    await submit();
    await poll("a tenth of a second", () => new Promise((resolve) => setTimeout(() => resolve(true), 100)));
  }
  await away.open();
  await poll("all results", async () => (await store.countResults()) === count, 40_000);
  return {
    ...{ count, results: await store.results() },
    failed: await other.metric("failed_requests_total"),
    requested: await other.metric("request_total"),
  };
}

const TOKEN = "0123456789abcdef0123456789abcdef";

/** Waits for a result as the reference's consumers do. */
async function pop(list = "results"): Promise<Record<string, unknown>> {
  const popped = (await send("BRPOP", list, String(fixedLimit(15_000) / 1000))) as [string, string] | null;
  expect(popped, `a result in ${list}`).not.toBeNull();
  return JSON.parse(popped![1]) as Record<string, unknown>;
}

describe("what other producers write and other consumers read (A-31)", () => {
  it("an envelope as Go's producer writes it, in its transaction; the result in the list that it names", async () => {
    const deadline = inSeconds(600);
    const data = `{"id":"go-1","created":${inSeconds(0)},"deadline":${deadline},"payload":{"max_tokens":5,"model":"m","prompt":"a \\u003c b"},"metadata":{"userid":"alice"},"headers":{"X-Team":"red"},"request_queue_name":"q","result_queue_name":"go-results"}`;
    const internal = `{"request_token":"${TOKEN}","request_queue_name":"q","result_queue_name":"go-results"}`;
    const envelope = `{"internal":${internal},"request_kind":"redis","data":${data}}`;
    await send("MULTI");
    await send("DEL", "request-cancel:go-1");
    await send("SET", "request-active:go-1", TOKEN, "EX", "600");
    await send("ZADD", "q", String(deadline), envelope);
    expect(await send("EXEC")).toEqual([0, "OK", 1]);
    expect(await pop("go-results")).toEqual({ id: "go-1", status_code: 200, payload: '{"ok":true}' });
    const seen = gateway.seen.find(({ id }) => id === "go-1")!;
    // The bytes of the payload as they stood in the envelope.
    expect(seen.body).toBe('{"max_tokens":5,"model":"m","prompt":"a \\u003c b"}');
    expect(seen.headers).toMatchObject({
      "content-type": "application/json",
      "x-team": "red",
      "x-llm-d-inference-fairness-id": "alice",
    });
    expect(seen.path).toBe("/v1/completions");
    // Nothing is left of it.
    await poll("its state to be gone", async () => (await send("EXISTS", "request-active:go-1")) === 0);
    expect(await send("ZCARD", "q")).toBe(0);
    expect(await send("HLEN", "{q}:claims")).toBe(0);
    expect(await send("ZCARD", "{q}:leases")).toBe(0);
  });

  it.each([
    ["plain", "", '"n":12345678901234567890123,"z":1.0,"a":"\\u00e9<>&"'],
    ["redis", '"queue_id":"somebody-elses","request_queue_name":"elsewhere",', '"x":[1,2]'],
    ["pubsub", '"transport_correlation_id":"77","labels":{"tier":"batch"},', '"x":null'],
  ])("an envelope of kind %s, members in any order and some that nobody knows", async (kind, internal, members) => {
    const id = `kind-${kind}`;
    const data = `{"pubsub_id":"p","payload":{${members}},"later":{"deadline":1},"deadline":${inSeconds(600)},"id":"${id}"}`;
    const envelope = `{"data":${data},"future":[1],"request_kind":"${kind}","internal":{${internal}"x":1}}`;
    await send("ZADD", "q", "5", envelope);
    expect(await pop()).toMatchObject({ id, status_code: 200 });
    expect(gateway.seen.find((seen) => seen.id === id)!.body).toBe(`{${members}}`);
  });

  it("a cancel of that generation is a CANCELLED result, one of another generation nothing (A-38)", async () => {
    const envelope = (id: string): string =>
      `{"internal":{"request_token":"${TOKEN}"},"request_kind":"redis","data":{"id":"${id}","deadline":${inSeconds(600)},"payload":{}}}`;
    await send("SET", "request-cancel:c-1", TOKEN);
    await send("SET", "request-cancel:c-2", TOKEN.replace("0", "f"));
    await send("SET", "request-active:c-1", TOKEN);
    await send("ZADD", "q", "1", envelope("c-1"));
    await send("ZADD", "q", "2", envelope("c-2"));
    const results = [await pop(), await pop()].sort((a, b) => (String(a["id"]) < String(b["id"]) ? -1 : 1));
    expect(results).toEqual([
      { id: "c-1", payload: '{"error":"cancelled"}', error_code: "CANCELLED", error_message: "cancelled" },
      { id: "c-2", status_code: 200, payload: '{"ok":true}' },
    ]);
    expect(gateway.seen.some(({ id }) => id === "c-1")).toBe(false);
    await poll("the marks", async () => (await send("EXISTS", "request-active:c-1", "request-cancel:c-1")) === 0);
    // The mark of the other generation is not ours to remove.
    expect(await send("EXISTS", "request-cancel:c-2")).toBe(1);
  });

  it("what cannot be read is a dead letter, and holds up nothing (A-30, A-50)", async () => {
    const bad = [
      "no JSON",
      "null",
      `{"id":"bare","deadline":${inSeconds(600)},"payload":{}}`,
      '{"internal":{},"data":{"id":"kindless","payload":{}}}',
      '{"internal":{},"request_kind":"other","data":{"id":"unknown-kind","deadline":1,"payload":{}}}',
      '{"internal":{},"request_kind":"redis","data":null}',
      '{"internal":{},"request_kind":"redis","data":{"id":"text-deadline","deadline":"soon","payload":{}}}',
    ];
    for (const [i, entry] of bad.entries()) await send("ZADD", "q", String(i), entry);
    const good = `{"internal":{},"request_kind":"redis","data":{"id":"good","deadline":${inSeconds(600)},"payload":{}}}`;
    await send("ZADD", "q", "100", good);
    await poll("dead letters", async () => (await send("LLEN", "q:dead")) === bad.length);
    const results = new Map<unknown, unknown>();
    await poll("the good one", async () => {
      for (const text of (await send("LRANGE", "results", "0", "-1")) as string[]) {
        const { id, error_code } = JSON.parse(text) as { id: string; error_code?: string };
        results.set(id, error_code);
      }
      return results.has("good");
    });
    expect(results.get("good")).toBeUndefined();
    // Whoever has an id is told.
    for (const id of ["kindless", "unknown-kind", "text-deadline"])
      expect([id, results.get(id)]).toEqual([id, "INVALID_REQUEST"]);
    await poll("their number", async () => (await dispatching.metric("dead_lettered_total")) === bad.length);
    await send("DEL", "results");
  });

  it("retries stand in the retry set as the reference writes them, and come back with their deadline (A-54)", async () => {
    // So many seconds that it is seen where it is parked.
    const pause = 4 + Math.ceil(slownessAtStart());
    gateway.reply = ({ attempt }) => (attempt === 1 ? { status: 503, headers: { "retry-after": String(pause) } } : {});
    const [begun, deadline] = [inSeconds(0), inSeconds(600)];
    const text = `{"id":"r-1","deadline":${deadline},"payload":{"b":1,"a":2.0}}`;
    await send("ZADD", "q", "7", `{"internal":{"request_token":"${TOKEN}"},"request_kind":"redis","data":${text}}`);
    const parked = await poll("it to be parked", async () => {
      const found = (await send("ZRANGE", "retry-sortedset", "0", "-1", "WITHSCORES")) as string[];
      return found.length === 2 ? found : undefined;
    });
    const { internal, request_kind } = JSON.parse(parked[0]!) as { internal: object; request_kind: string };
    expect(request_kind).toBe("redis");
    expect(internal).toMatchObject({ retry_count: 1, queue_id: "q", request_token: TOKEN, request_queue_name: "q" });
    expect(parked[0]).toContain(`"data":${text}`);
    expect(Number(parked[1])).toBeGreaterThanOrEqual(begun + pause);
    expect(Number(parked[1])).toBeLessThanOrEqual(inSeconds(pause * 1.25) + 1);
    expect(await pop()).toMatchObject({ id: "r-1", status_code: 200 });
    const attempts = gateway.seen.filter(({ id }) => id === "r-1");
    expect(attempts).toHaveLength(2);
    // Whole seconds count.
    expect(attempts[1]!.at - attempts[0]!.at).toBeGreaterThan((pause - 1) * 1000 - 100);
    gateway.reply = () => ({});
  });

  it("answers that are no text, are compressed, or come late stand in results as they are to (A-33, A-36)", async () => {
    const binary = Buffer.from([0xff, 0xfe, 0x00, 0x80]);
    gateway.reply = ({ id }) => {
      if (id === "bin") return { body: binary, headers: { "content-type": "application/octet-stream" } };
      return id === "nf"
        ? { status: 404, body: "no such model" }
        : { status: 302, body: "", headers: { location: "/" } };
    };
    for (const id of ["bin", "nf", "moved"])
      await send(
        "ZADD",
        "q",
        "1",
        `{"internal":{},"request_kind":"redis","data":{"id":"${id}","deadline":${inSeconds(600)},"payload":{}}}`,
      );
    const results = new Map<unknown, unknown>();
    for (let i = 0; i < 3; i++) {
      const result = await pop();
      results.set(result["id"], result);
    }
    expect(results.get("bin")).toEqual({
      ...{ id: "bin", status_code: 200, payload: binary.toString("base64") },
      ...{ payload_encoding: "base64", content_type: "application/octet-stream" },
    });
    expect(results.get("nf")).toEqual({ id: "nf", status_code: 404, payload: "no such model" });
    // Not followed (async-processor 7.3).
    expect(results.get("moved")).toMatchObject({ status_code: 302, payload: "" });
    expect(gateway.seen.filter(({ id }) => id === "moved")).toHaveLength(1);
    gateway.reply = () => ({});
  });
});

describe("a gateway that refuses connections for ten seconds (A-78)", () => {
  it("costs retries, not results: every message ends with 200", async () => {
    const { count, results, failed, requested } = await outage;
    expect(count).toBeGreaterThan(500);
    const statuses = results.map((text) => (JSON.parse(text) as { status_code?: number }).status_code);
    expect(statuses).toEqual(Array(count).fill(200));
    expect(failed).toBeNaN();
    expect(requested).toBe(count);
  });
});
