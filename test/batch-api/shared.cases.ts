import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import OpenAI, { toFile } from "openai";
import { expect } from "vitest";
import { SeededRandom } from "../../src/base/clock/random.ts";
import { realClock } from "../../src/base/clock/real.ts";
import { connectRedis } from "../../src/base/redis/connection.ts";
import { silentLogger } from "../../src/base/telemetry/logger.ts";
import { startSharedServer, type TestBatchServer } from "../support/batch-server.ts";
import { startGateway } from "../support/gateway.ts";
import { GatewayProcess } from "../support/gateway-process.ts";
import { poll } from "../support/poll.ts";
import { type RunningRedis, startRedis } from "../support/redis.ts";
import { type S3Server, startS3 } from "../support/s3/s3-server.ts";
import { fixedLimit } from "../support/slowness.ts";
import { endpointsFile, startSims } from "../support/stack.ts";
import { BatchCalls, chatLines } from "./calls.ts";

const WORKERS = 8;
/** Lines that a dispatcher has at most: those of its workers, and a quarter more that it has claimed ahead where answers came fast. */
const CLAIMED = WORKERS + WORKERS / 4;

/** Two batch servers that share a Redis and a bucket, and a gateway that answers as many requests as a test says. */
export class SharedRig {
  readonly gateway: GatewayProcess;
  readonly redis: RunningRedis;
  readonly s3: S3Server;
  /** The ids of the events of the webhook, by their types and batches. */
  readonly events = new Map<string, Set<unknown>>();
  readonly #hook: Server;
  readonly folder: string;
  readonly servers: TestBatchServer[] = [];

  private constructor(folder: string, gateway: GatewayProcess, redis: RunningRedis, s3: S3Server) {
    this.folder = folder;
    this.gateway = gateway;
    this.redis = redis;
    this.s3 = s3;
    this.#hook = createServer(async (request, response) => {
      const { type, data } = JSON.parse(await text(request)) as { type: string; data: { id: string } };
      const told = `${type} ${data.id}`;
      this.events.set(told, (this.events.get(told) ?? new Set()).add(request.headers["webhook-id"]));
      response.end();
    });
  }

  static async start(): Promise<SharedRig> {
    process.env["AWS_ACCESS_KEY_ID"] = "test";
    process.env["AWS_SECRET_ACCESS_KEY"] = "test";
    process.env["SLUICE_BATCH_WEBHOOK_SECRET"] = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;
    const folder = mkdtempSync(join(tmpdir(), "sluice-shared-"));
    const parts = await Promise.all([GatewayProcess.start(), startRedis({ appendOnly: true }), startS3("files")]);
    const rig = new SharedRig(folder, ...parts);
    rig.#hook.listen(0, "127.0.0.1");
    await once(rig.#hook, "listening");
    rig.servers.push(...(await Promise.all([rig.server(), rig.server()])));
    return rig;
  }

  /** One more server. All of them have the same spool. */
  server(): Promise<TestBatchServer> {
    const { port } = this.#hook.address() as AddressInfo;
    return startSharedServer(this.redis.url, join(this.folder, "spool"), this.gateway.url, [
      ...["--batch-files", "s3://files/shared", "--batch-s3-endpoint", this.s3.url],
      ...["--batch-workers", String(WORKERS), "--batch-webhook", `http://127.0.0.1:${port}/hook`],
    ]);
  }

  /** Puts a new server in the place of one that has ended. */
  async replace(server: TestBatchServer): Promise<void> {
    this.servers[this.servers.indexOf(server)] = await this.server();
  }

  /** The server whose requests are at the gateway, and the other one. A former owner may have requests there, too. */
  async owner(): Promise<[TestBatchServer, TestBatchServer]> {
    const at = await poll("the owner of the batch", async () => {
      // The page may be a second old, and show the lines of the batch before.
      if ((await this.gateway.sent()).size < WORKERS) return undefined;
      for (const [index, { adminUrl }] of this.servers.entries()) {
        const page = async (path: string): Promise<string> => {
          const response = await fetch(`${adminUrl}${path}`, { signal: AbortSignal.timeout(fixedLimit(2000)) });
          return response.text();
        };
        const [shown, metrics] = await Promise.all([page("/debug/batches"), page("/metrics")]).catch(() => ["{}", ""]);
        const { gate } = JSON.parse(shown!) as { gate?: { running: number } };
        if (gate?.running === WORKERS && metrics!.includes("\nsluice_batch_held 1\n")) return [index];
      }
      return undefined;
    });
    return [this.servers[at[0]!]!, this.servers[1 - at[0]!]!];
  }

  /**
   * How often a batch got another owner. A server that gets no CPU for 5 s loses its batches: on a busy machine, that may be more often
   * than a test plans.
   */
  async takeovers(id: string): Promise<number> {
    const redis = connectRedis(
      { url: this.redis.url, tls: {}, enableTracing: false },
      { clock: realClock, random: new SeededRandom(7), log: silentLogger },
    );
    try {
      await redis.whenReady(fixedLimit(10_000));
      return Number(await redis.send(["HGET", `sluice:batches:{default}:batch:${id}`, "epoch"])) - 1;
    } finally {
      redis.close();
    }
  }

  async stop(): Promise<void> {
    for (const { process } of this.servers) await process.stop("SIGKILL");
    this.#hook.close();
    this.#hook.closeAllConnections();
    await Promise.all([this.gateway.stop(), this.redis.stop(), this.s3.process.stop()]);
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** The answers of a batch at each server: one for each line, all good. */
async function expectAll(rig: SharedRig, id: string, lines: number): Promise<void> {
  for (const { url } of rig.servers) {
    const calls = new BatchCalls(url);
    const { status, request_counts } = await calls.ended(id);
    expect([status, request_counts]).toEqual(["completed", { total: lines, completed: lines, failed: 0 }]);
    const { all, good } = await calls.answers(id);
    expect([all.length, new Set(good).size]).toEqual([lines, lines]);
  }
  await poll("the event", () => rig.events.has(`batch.completed ${id}`));
}

/** Makes a batch with the official client. @param urls of the server for the upload, and of the one for the batch */
async function submit(urls: readonly [string, string], lines: number): Promise<string> {
  // A server that was halted closes idle connections, and the next request may be on one of these: so the clients may try again.
  const [first, second] = urls.map((baseURL) => new OpenAI({ baseURL, apiKey: "none" }));
  const file = await toFile(Buffer.from(chatLines("l", lines)), "in.jsonl");
  const { id: input } = await first!.files.create({ file, purpose: "batch" });
  const endpoint = "/v1/chat/completions";
  const batch = await second!.batches.create({ input_file_id: input, endpoint, completion_window: "24h" });
  expect((await first!.batches.retrieve(batch.id)).id).toBe(batch.id);
  expect((await first!.batches.list({ limit: 1 })).data[0]?.id).toBe(batch.id);
  return batch.id;
}

/**
 * Kills the server that works on a batch, and the store with it. Expects that the other server ends the batch, and that no line whose
 * answer was noted goes out again.
 */
export async function survivesKill(rig: SharedRig, lines: number): Promise<void> {
  const { gateway } = rig;
  await gateway.reset();
  const answered = Math.floor(lines / 3);
  await gateway.answers(answered);
  const [a, b] = rig.servers;
  const id = await submit([a!.url, b!.url], lines);
  await poll("answers", async () => (await new BatchCalls(a!.url).get(id)).request_counts.completed === answered);
  const [owner, other] = await rig.owner();
  await owner.process.stop("SIGKILL");
  await rig.redis.kill();
  const refused = await fetch(`${other.url}/batches/${id}`);
  expect([refused.status, ((await refused.json()) as { error: { code: string } }).error.code]).toEqual([
    503,
    "storage_error",
  ]);
  await rig.redis.restart();
  await rig.owner();
  await gateway.answers();
  await rig.replace(owner);
  await expectAll(rig, id, lines);
  const sent = [...(await gateway.sent()).values()];
  expect(sent.length).toBe(lines);
  const takeovers = await rig.takeovers(id);
  expect(takeovers).toBeGreaterThanOrEqual(1);
  expect(Math.max(...sent)).toBeLessThanOrEqual(1 + takeovers);
  if (takeovers === 1) expect(sent.filter((times) => times > 1).length).toBeLessThanOrEqual(WORKERS);
}

/** Ends the server that works on a batch in order. Expects that the other one goes on at once, and that each line goes out once. */
export async function isHandedOver(rig: SharedRig, lines: number): Promise<void> {
  const { gateway } = rig;
  await gateway.reset();
  await gateway.answers(0);
  const id = await submit([rig.servers[0]!.url, rig.servers[0]!.url], lines);
  const [owner] = await rig.owner();
  const ended = owner.process.stop("SIGTERM");
  await poll("a closed door", () =>
    fetch(owner.url).then(
      () => false,
      () => true,
    ),
  );
  await gateway.answers();
  await ended;
  expect(owner.process.exit).toEqual({ code: 0, signal: null });
  await rig.replace(owner);
  await expectAll(rig, id, lines);
  const sent = [...(await gateway.sent()).values()];
  const takeovers = await rig.takeovers(id);
  expect(sent.length).toBe(lines);
  expect(takeovers).toBeGreaterThanOrEqual(1);
  // The planned one sends no line twice.
  expect(Math.max(...sent)).toBeLessThanOrEqual(takeovers);
}

/**
 * Halts the server that works on a batch until the other one has ended the batch. Expects that the first one sends no line once it
 * goes on, although its lines have just got their answers.
 */
export async function outlivesHalt(rig: SharedRig, lines: number): Promise<void> {
  const { gateway } = rig;
  await gateway.reset();
  await gateway.answers(0);
  const id = await submit([rig.servers[0]!.url, rig.servers[0]!.url], lines);
  const [owner, other] = await rig.owner();
  const before = await rig.takeovers(id);
  try {
    await poll("the takeover", async () => {
      // Again with each look: whoever halts and continues this whole test continues the server, too.
      owner.process.child.kill("SIGSTOP");
      return (await rig.takeovers(id)) > before;
    });
    await gateway.answers();
    const { status, request_counts } = await new BatchCalls(other.url).ended(id);
    expect([status, request_counts]).toEqual(["completed", { total: lines, completed: lines, failed: 0 }]);
    await gateway.reset();
  } finally {
    owner.process.child.kill("SIGCONT");
  }
  await poll("the end of the work", () => owner.process.stderr.includes(`"batch":"${id}"`));
  await expectAll(rig, id, lines);
  expect([...(await gateway.sent())]).toEqual([]);
}

/** Cancels a batch at the server that does not work on it. */
export async function isCancelledAnywhere(rig: SharedRig, lines: number): Promise<void> {
  const { gateway } = rig;
  await gateway.reset();
  await gateway.answers(0);
  const id = await submit([rig.servers[1]!.url, rig.servers[0]!.url], lines);
  const [owner, other] = await rig.owner();
  await new BatchCalls(other.url).call("POST", `/batches/${id}/cancel`);
  const calls = new BatchCalls(other.url);
  await poll("withdrawn lines", async () => {
    const { under_way } = await new BatchCalls(owner.url).call<{ under_way: number }>("GET", `/batches/${id}/progress`);
    return (under_way >= WORKERS && under_way <= CLAIMED) || (await calls.get(id)).status === "cancelled";
  });
  await gateway.answers();
  const { status, request_counts } = await calls.ended(id);
  const { completed } = request_counts;
  expect([status, request_counts]).toEqual(["cancelled", { total: lines, completed, failed: lines - completed }]);
  // Whoever takes a cancelled batch over sends no line of it, so the lines under way get no answer.
  if ((await rig.takeovers(id)) === 0) expect(completed).toBeGreaterThanOrEqual(WORKERS);
  expect(completed).toBeLessThanOrEqual(CLAIMED);
  const { all, codes } = await calls.answers(id);
  expect([all.length, new Set(all).size, [...codes]]).toEqual([lines, lines, ["batch_cancelled"]]);
  await poll("the event", () => rig.events.has(`batch.cancelled ${id}`));
}

/** Sends a batch to a gateway with a store and a bucket. */
export async function runsInGateway(rig: SharedRig, lines: number): Promise<void> {
  const [sim] = await startSims(1);
  const gateway = await startGateway(endpointsFile([sim!.port]), [
    ...["--batch", rig.redis.url, "--batch-name", "gateway", "--batch-spool", join(rig.folder, "gateway")],
    ...["--batch-files", "s3://files/gateway", "--batch-s3-endpoint", rig.s3.url],
  ]);
  try {
    const calls = new BatchCalls(`${gateway.url}/v1`);
    const id = await calls.submit(chatLines("l", lines));
    const { status, request_counts } = await calls.ended(id);
    expect([status, request_counts]).toEqual(["completed", { total: lines, completed: lines, failed: 0 }]);
    expect((await rig.s3.keys()).filter((key) => key.startsWith("gateway/file-"))).toHaveLength(2);
  } finally {
    await gateway.process.stop("SIGKILL");
    await sim!.process.stop("SIGKILL");
  }
}

/** Expects one event of each end. The same event may come again after a halt or a kill, with the same id. */
export function expectEventsOnce(rig: SharedRig): void {
  expect(rig.events.size).toBeGreaterThan(0);
  for (const [told, ids] of rig.events) expect([told, ids.size]).toEqual([told, 1]);
}
