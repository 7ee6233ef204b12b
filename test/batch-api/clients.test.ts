import { once } from "node:events";
import { createReadStream, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type IncomingHttpHeaders, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { pythonEnv } from "../clients/python-driver.ts";
import { addKey } from "../clients/world.ts";
import { startBatchServer, type TestBatchServer } from "../support/batch-server.ts";
import { getJson } from "../support/client.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { poll } from "../support/poll.ts";
import { sluice, TestProcess } from "../support/process.ts";
import { type Sim, startSims } from "../support/stack.ts";
import { BatchCalls, chatLine, chatLines, type ShownBatch } from "./calls.ts";

// The official clients run batches on a batch server in front of a real gateway and a simulator.

const LINES = 40;
const NAMES = Array.from({ length: LINES }, (_, at) => `c${at + 1}`).sort();

describe("the official clients on the Batch API", () => {
  let folder: string;
  let input: string;
  let sims: Sim[];
  let gateway: TestGateway;
  let server: TestBatchServer;
  const keys = { alice: "", bob: "", server: "" };
  const secret = `whsec_${Buffer.alloc(32, 9).toString("base64")}`;
  /** Events that the webhook got. */
  const events: { readonly headers: IncomingHttpHeaders; readonly body: string }[] = [];
  let hook: Server;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "sluice-batch-clients-"));
    input = join(folder, "in.jsonl");
    writeFileSync(input, chatLines("c", LINES));
    sims = await startSims(1, ["--time-scale", "0.01"]);
    const endpoints = join(folder, "endpoints.yaml");
    writeFileSync(endpoints, `endpoints:\n- { name: sim, address: 127.0.0.1, port: ${sims[0]!.port} }\n`);
    const keysFile = join(folder, "keys.yaml");
    keys.server = await addKey(keysFile, "batches", "--background", "--chooses-flow");
    const clients = join(folder, "clients.yaml");
    keys.alice = await addKey(clients, "alice");
    keys.bob = await addKey(clients, "bob", "--models", "other");
    gateway = await startGateway(endpoints, ["--keys", keysFile]);
    hook = createServer(async (request, response) => {
      events.push({ headers: request.headers, body: await text(request) });
      response.end();
    }).listen(0, "127.0.0.1");
    await once(hook, "listening");
    const secretFile = join(folder, "webhook.secret");
    writeFileSync(secretFile, `${secret}\n`);
    const { port } = hook.address() as AddressInfo;
    const webhook = [
      "--batch-webhook",
      `http://127.0.0.1:${port}/hooks?t=1`,
      "--batch-webhook-secret-file",
      secretFile,
    ];
    server = await startBatchServer(
      join(folder, "batches"),
      gateway.url,
      ["--gateway-metrics", `${gateway.adminUrl}/metrics`, "--keys", clients, ...webhook],
      keys.server,
    );
  });
  afterAll(async () => {
    await Promise.all([server, gateway, ...sims].map((one) => one?.process.stop()));
    hook?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  it("of npm runs a batch from upload to answers", async () => {
    const client = new OpenAI({ baseURL: server.url, apiKey: keys.alice, maxRetries: 0 });
    const file = await client.files.create({ file: createReadStream(input), purpose: "batch" });
    const made = await client.batches.create({
      ...{ input_file_id: file.id, endpoint: "/v1/chat/completions", completion_window: "24h" },
      metadata: { job: "7" },
    });
    const done = await poll("the end of the batch", async () => {
      const batch = await client.batches.retrieve(made.id);
      return batch.status === "completed" ? batch : undefined;
    });
    expect(done.request_counts).toEqual({ total: LINES, completed: LINES, failed: 0 });
    expect([done.metadata, done.error_file_id]).toEqual([{ job: "7" }, null]);
    const output = await (await client.files.content(done.output_file_id!)).text();
    const answers = output
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(answers.map(({ custom_id }) => custom_id).sort()).toEqual(NAMES);
    expect(answers.every(({ response }) => response.body.choices[0].message.content.length > 0)).toBe(true);
    const listed: string[] = [];
    for await (const batch of client.batches.list({ limit: 1 })) listed.push(batch.id);
    expect(listed).toContain(made.id);
    await expect(client.batches.cancel(made.id)).rejects.toMatchObject({ status: 400, code: "batch_not_cancellable" });
    expect(await client.files.delete(file.id)).toMatchObject({ deleted: true });
    await expect(client.files.retrieve(file.id)).rejects.toMatchObject({ status: 404, code: "file_not_found" });
  });

  it("of PyPI does the same", async () => {
    const driver = new TestProcess(
      "python3",
      [join(import.meta.dirname, "batch_driver.py"), server.url, keys.alice, input],
      { env: pythonEnv() },
    );
    expect((await driver.ended(60_000)).code, driver.stderr).toBe(0);
    expect(JSON.parse(driver.stdout)).toEqual({
      file: ["file", "batch", "in.jsonl", chatLines("c", LINES).length],
      batch: ["completed", { total: LINES, completed: LINES, failed: 0 }, { job: "7" }, true],
      ...{ answers: NAMES, text: true, listed: true, cancel: ["batch_not_cancellable", "batch_id"] },
      ...{ files: expect.any(Number), deleted: [true, true], gone: "file_not_found" },
    });
  });

  it("of npm takes the events of the webhook as those of OpenAI", async () => {
    const client = new OpenAI({ baseURL: server.url, apiKey: keys.alice, webhookSecret: secret });
    const batches = await client.batches.list();
    await poll("an event of each batch", async () => (events.length >= batches.data.length ? true : undefined));
    const unwrapped = await Promise.all(events.map(({ headers, body }) => client.webhooks.unwrap(body, headers)));
    const about = unwrapped.map(({ type, data }) => [type, (data as { id: string }).id]);
    expect(about.sort()).toEqual(batches.data.map(({ id, status }) => [`batch.${status}`, id]).sort());
    await expect(client.webhooks.unwrap(`${events[0]!.body} `, events[0]!.headers)).rejects.toThrow(/signature/);
    await poll("the counts of the events", async () => {
      const page = await (await fetch(`${server.adminUrl}/metrics`)).text();
      const delivered = `sluice_batch_webhook_events_total{outcome="delivered"} ${events.length}`;
      return page.includes(delivered) && page.includes("sluice_batch_webhook_waiting 0") ? true : undefined;
    });
    expect(server.process.stderr).not.toMatch(/whsec_|hooks\?t/);
  });

  it("shows its batches in the terminal, and follows and cancels them", async () => {
    const key = join(folder, "alice.key");
    writeFileSync(key, keys.alice);
    const access = ["--url", server.url, "--key-file", key];
    const alice = new BatchCalls(server.url, keys.alice);
    const id = await alice.submit(chatLines("f", 20));
    const follow = sluice("batch", "show", id, "--follow", ...access);
    expect((await follow.ended(60_000)).code, follow.stderr).toBe(0);
    expect(follow.stdout).toMatch(new RegExp(`^${id} completed: 20 of 20 answered \\(100 %\\); [1-9]\\d* tokens in`));
    const cancel = sluice("batch", "cancel", id, ...access);
    expect([(await cancel.ended()).code, cancel.stderr]).toEqual([1, expect.stringContaining("cannot be cancelled")]);
    const list = sluice("batch", "ls", "--dir", join(folder, "batches"), "--json");
    expect((await list.ended()).code, list.stderr).toBe(0);
    const shown = JSON.parse(list.stdout) as { gate: { state: string }; batches: { id: string; caller: string }[] };
    expect(shown.batches.find((batch) => batch.id === id)).toMatchObject({ caller: "alice", completed: 20 });
    expect(shown.gate.state).toBe("open");
  });

  it("needs a key, keeps callers apart, and holds a batch to the models of its key", async () => {
    const [alice, bob] = [new BatchCalls(server.url, keys.alice), new BatchCalls(server.url, keys.bob)];
    const id = await alice.submit(`${chatLine("a")}\n`);
    await expect(bob.get(id)).rejects.toThrow(/^404 .*batch_not_found/);
    await expect(new BatchCalls(server.url).get(id)).rejects.toThrow(/^401 .*invalid_api_key/);
    expect((await bob.call<{ data: unknown[] }>("GET", "/batches")).data).toEqual([]);
    const refused = await bob.ended(await bob.submit(`${chatLine("a")}\n`));
    const { errors } = refused as ShownBatch & { readonly errors: unknown };
    expect([refused.status, errors]).toEqual([
      "failed",
      {
        object: "list",
        data: [expect.objectContaining({ code: "model_not_found", line: 1, param: "body.model" })],
      },
    ]);
    expect((await alice.ended(id)).status).toBe("completed");
  });

  it("tells the page how far the batches are", async () => {
    interface Feed {
      readonly gate: { readonly workers: number; readonly baseline: number | null };
      readonly batches: readonly object[];
    }
    const feed = await poll("a gate that has read its metric", async () => {
      const found = await getJson<Feed>(`${server.adminUrl}/debug/batches`);
      return found.gate.baseline === 0.2 ? found : undefined;
    });
    expect(feed.gate.workers).toBe(64);
    expect(feed.batches[0]).toMatchObject({ caller: expect.any(String), total: expect.any(Number) });
  });
});
