import { describe, expect, it } from "vitest";
import { engineRigs, inputLine, inputLines } from "../../../test/support/batch-api/engine-rig.cases.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import type { Logger } from "../../base/telemetry/logger.ts";
import type { GatewayAnswer, InferenceClient, OutboundRequest } from "../dispatch/send/inference-client.ts";
import { BatchStore } from "./batch-store.ts";
import { Webhook } from "./webhook.ts";
import { WebhookEvents } from "./webhook-events.ts";
import { webhookSignature } from "./webhook-secret.ts";

const rigs = engineRigs();
const SECRET = new Uint8Array(32).fill(7);
const HOOK = "https://hooks.example/T0KEN";

type Rig = ReturnType<typeof rigs>;

function response(status: number, retryAfterMs?: number): GatewayAnswer {
  return { kind: "response", status, body: new Uint8Array(), contentType: "", retryAfterMs, dropReason: "" };
}

/** A receiver that keeps what it gets, and answers as the test says. */
class Receiver implements InferenceClient {
  readonly got: { readonly at: number; readonly headers: Map<string, string>; readonly body: string }[] = [];
  readonly urls = new Set<string>();
  answer: () => GatewayAnswer | Promise<GatewayAnswer> = () => response(200);
  closed = false;
  readonly #rig: Rig;

  constructor(rig: Rig) {
    this.#rig = rig;
  }

  async send({ url, headers, body }: OutboundRequest, signal: AbortSignal): Promise<GatewayAnswer> {
    const pairs = new Map<string, string>();
    for (let at = 0; at < headers.length; at += 2) pairs.set(headers[at]!, headers[at + 1]!);
    this.urls.add(url.href);
    this.got.push({ at: this.#rig.clock.now(), headers: pairs, body: Buffer.from(body).toString() });
    const cut = new Promise<GatewayAnswer>((resolve) =>
      signal.addEventListener("abort", () => resolve({ kind: "aborted" })),
    );
    return Promise.race([this.answer(), cut]);
  }

  async close(): Promise<void> {
    this.closed = true;
  }

  get ids(): (string | undefined)[] {
    return this.got.map(({ headers }) => headers.get("webhook-id"));
  }
}

class Log implements Pick<Logger, "warn" | "error"> {
  readonly lines: string[] = [];
  warn = (fields: object, text: string): void => void this.lines.push(`${JSON.stringify(fields)} ${text}`);
  error = this.warn;
}

/** @param chance in place of seeded chance: 0 = the shortest pauses, 1 = the longest */
function setUp(chance?: number) {
  const rig = rigs({ notifies: true });
  const receiver = new Receiver(rig);
  const log = new Log();
  const start = (): Webhook => {
    const webhook = new Webhook({
      ...{ url: HOOK, secrets: [SECRET], events: rig.batches.events, client: receiver, clock: rig.clock },
      ...{ random: chance === undefined ? new SeededRandom(1) : { next: () => chance, below: () => 0 } },
      log: log as unknown as Logger,
    });
    webhook.start();
    return webhook;
  };
  /** A batch that has ended by a wrong line. */
  const failedBatch = (): string => {
    const id = rig.batch("x");
    expect(rig.store.batches.move(id, "failed", rig.clock.wall() / 1000)).toBe(true);
    return id;
  };
  return { rig, receiver, log, start, failedBatch };
}

describe("the webhook of batches", () => {
  it("tells each end of a batch once, signed, by the names of OpenAI", async () => {
    const { rig, receiver, start } = setUp();
    rig.engine.start();
    const webhook = start();
    const completed = rig.batch(inputLines(2));
    await rig.finish(completed);
    const failed = rig.batch(inputLine("a", { method: "GET" }));
    await rig.finish(failed);
    const cancelled = rig.batch(inputLines(3));
    await rig.pass(1000);
    rig.store.batches.move(cancelled, "cancelling", rig.clock.wall() / 1000);
    await rig.finish(cancelled);
    const expired = rig.batch(inputLines(3), { seconds: 2 });
    await rig.pass(4000);
    await rig.finish(expired);
    await rig.pass(5000);
    const bodies = receiver.got.map(({ body }) => JSON.parse(body) as Record<string, unknown>);
    expect(bodies.map(({ type, data }) => [type, data])).toEqual([
      ["batch.completed", { id: completed }],
      ["batch.failed", { id: failed }],
      ["batch.cancelled", { id: cancelled }],
      ["batch.expired", { id: expired }],
    ]);
    expect(bodies[0]).toEqual({
      ...{ id: expect.stringMatching(/^evt_[0-9a-f]{32}$/), object: "event", type: "batch.completed" },
      ...{ created_at: Math.floor(rig.get(completed).reached.completed!), data: { id: completed } },
    });
    for (const { headers, body } of receiver.got) {
      const id = headers.get("webhook-id")!;
      expect(id).toBe((JSON.parse(body) as { id: string }).id);
      const signature = webhookSignature([SECRET], id, Number(headers.get("webhook-timestamp")), body);
      expect(headers.get("webhook-signature")).toBe(signature);
    }
    expect([...receiver.urls]).toEqual([HOOK]);
    expect(rig.store.events.tallies()).toEqual({ delivered: 4, givenUp: 0, failedAttempts: 0 });
    expect(rig.store.events.waiting()).toBe(0);
    await webhook.stop();
    expect(receiver.closed).toBe(true);
    await rig.engine.stop();
  });

  it("notes no events where there is no webhook", () => {
    const rig = rigs();
    const id = rig.batch("x");
    rig.store.batches.move(id, "failed", 1);
    expect(rig.store.events.waiting()).toBe(0);
  });

  it("sends an event again with growing pauses until it is taken, and says nothing secret in the log", async () => {
    const { rig, receiver, log, start, failedBatch } = setUp();
    const answers = [response(500), response(302), { kind: "timeout", message: "late" } as const, response(204)];
    receiver.answer = () => answers.shift()!;
    start();
    const id = failedBatch();
    await rig.pass(120_000);
    expect(new Set(receiver.ids).size).toBe(1);
    const at = receiver.got.map((each) => each.at);
    expect(at).toHaveLength(4);
    const pauses = at.slice(1).map((time, n) => time - at[n]!);
    for (const [n, pause] of pauses.entries()) {
      expect(pause).toBeGreaterThanOrEqual(0.8 * 5000 * 2 ** n);
      expect(pause).toBeLessThanOrEqual(1.2 * 5000 * 2 ** n + 1000);
    }
    // Each attempt is signed with its own time.
    const times = receiver.got.map(({ headers }) => headers.get("webhook-timestamp"));
    expect(new Set(times).size).toBe(4);
    expect(rig.store.events.tallies()).toEqual({ delivered: 1, givenUp: 0, failedAttempts: 3 });
    expect(log.lines).toHaveLength(3);
    expect(log.lines[0]).toContain(id);
    expect(log.lines.join()).not.toMatch(/T0KEN|whsec|BwcHBw/);
  });

  it("waits as long as the receiver asks for", async () => {
    const { rig, receiver, start, failedBatch } = setUp();
    receiver.answer = () => (receiver.got.length === 1 ? response(429, 600_000) : response(200));
    start();
    failedBatch();
    await rig.pass(599_000);
    expect(receiver.got).toHaveLength(1);
    await rig.pass(5000);
    expect(rig.store.events.tallies().delivered).toBe(1);
  });

  it("gives an event up when the receiver is gone", async () => {
    const { rig, receiver, log, start, failedBatch } = setUp();
    receiver.answer = () => response(410);
    start();
    failedBatch();
    await rig.pass(60_000);
    expect(rig.store.events.tallies()).toEqual({ delivered: 0, givenUp: 1, failedAttempts: 1 });
    expect([receiver.got.length, log.lines.length]).toEqual([1, 1]);
  });

  it.each([
    ["50 attempts", 0, 50, 50],
    ["three days", 1, 35, 45],
  ])("gives an event up after %s", async (_, chance, least, most) => {
    const { rig, receiver, log, start, failedBatch } = setUp(chance);
    receiver.answer = () => response(500);
    start();
    failedBatch();
    // 80 hours, and a look at the events every 10 minutes.
    const begin = rig.clock.wall();
    for (let look = 0; look < 480; look++) {
      rig.clock.set(599_000);
      await rig.pass(1000);
    }
    expect(receiver.got.length).toBeGreaterThanOrEqual(least);
    expect(receiver.got.length).toBeLessThanOrEqual(most);
    const last = Number(receiver.got.at(-1)!.headers.get("webhook-timestamp"));
    expect(last - begin / 1000).toBeLessThan(72 * 3600);
    const counts = { delivered: 0, givenUp: 1, failedAttempts: receiver.got.length };
    expect([rig.store.events.tallies(), rig.store.events.waiting()]).toEqual([counts, 0]);
    expect(log.lines.filter((line) => line.includes("gives up a webhook event"))).toHaveLength(1);
  });

  it("lets no receiver put an event off for longer than 2 h", async () => {
    const { rig, receiver, start, failedBatch } = setUp();
    receiver.answer = () => response(503, 7 * 86_400_000);
    start();
    failedBatch();
    await rig.pass(2000);
    rig.clock.set(7_190_000);
    await rig.pass(2000);
    expect(receiver.got).toHaveLength(1);
    rig.clock.set(10_000);
    await rig.pass(2000);
    expect(receiver.got).toHaveLength(2);
  });

  it("gives up an event that waited while no process ran", async () => {
    const { rig, receiver, start, failedBatch } = setUp();
    failedBatch();
    rig.clock.set(73 * 3_600_000);
    start();
    await rig.pass(1000);
    expect([receiver.got.length, rig.store.events.tallies().givenUp]).toEqual([0, 1]);
  });

  it("sends an event again after a kill in the middle of an attempt", async () => {
    const { rig, receiver, start, failedBatch } = setUp();
    receiver.answer = () => new Promise(() => {});
    start();
    failedBatch();
    await rig.pass(1000);
    expect(receiver.got).toHaveLength(1);
    rig.crash();
    receiver.answer = () => response(200);
    start();
    await rig.pass(30_000);
    expect(receiver.ids).toEqual([receiver.ids[0], receiver.ids[0]]);
    expect(rig.store.events.tallies()).toEqual({ delivered: 1, givenUp: 0, failedAttempts: 0 });
    await rig.engine.stop();
  });

  it("sends an event at once at the next start when the end of the process cut an attempt off", async () => {
    const { rig, receiver, start, failedBatch } = setUp();
    receiver.answer = () => new Promise(() => {});
    const webhook = start();
    failedBatch();
    await rig.pass(1000);
    await webhook.stop();
    receiver.answer = () => response(200);
    start();
    await rig.pass(0);
    expect(receiver.got).toHaveLength(2);
    expect(rig.store.events.tallies()).toMatchObject({ delivered: 1, failedAttempts: 0 });
  });

  it("does not send an event again that is under way for longer than the first pause", async () => {
    const { rig, receiver, start, failedBatch } = setUp();
    receiver.answer = () => new Promise(() => {});
    const webhook = start();
    for (let n = 0; n < 3; n++) failedBatch();
    await rig.pass(14_000);
    expect(new Set(receiver.ids).size).toBe(3);
    expect(receiver.got).toHaveLength(3);
    await webhook.stop();
  });

  it("has at most 8 attempts under way, none of them twice", async () => {
    const { rig, receiver, start, failedBatch } = setUp();
    receiver.answer = () => new Promise(() => {});
    const webhook = start();
    for (let n = 0; n < 12; n++) failedBatch();
    // Shorter than the first pause, and far longer: the attempts are still under way.
    await rig.pass(3000);
    expect(receiver.got).toHaveLength(8);
    await rig.pass(60_000);
    expect(receiver.got).toHaveLength(8);
    expect(new Set(receiver.ids).size).toBe(8);
    await webhook.stop();
  });

  it("keeps a bounded number of events, and counts the oldest ones as given up", () => {
    const rig = rigs({ notifies: true });
    const store = new BatchStore(rig.folder, { notifies: true });
    const ids = Array.from({ length: 5 }, () => rig.batch("x"));
    const db = rig.database();
    const log = new Log();
    const events = new WebhookEvents(db, log as unknown as Logger, 3);
    for (const [n, id] of ids.entries()) db.write(() => events.insert(id, "failed", n));
    expect(store.events.due(100, 9).map(({ batchId }) => batchId)).toEqual(ids.slice(2));
    expect(store.events.tallies().givenUp).toBe(2);
    expect(log.lines).toEqual(ids.slice(0, 2).map((id) => expect.stringContaining(`"batch":"${id}"} Sluice gives up`)));
    store.close();
  });
});
