import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { addKey } from "../clients/world.ts";
import { ask, getJson } from "../support/client.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { poll } from "../support/poll.ts";
import { sluice } from "../support/process.ts";
import { type Sim, startSims } from "../support/stack.ts";
import { BatchCalls, chatLine, chatLines } from "./calls.ts";

const LINES = 150;

describe("a gateway with the Batch API", () => {
  let folder: string;
  let sims: Sim[];
  let gateway: TestGateway;
  let endpoints: string;
  let args: string[];
  const keys = { alice: "", bob: "" };

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "sluice-batch-gateway-"));
    sims = await startSims(1, ["--time-scale", "0.1"]);
    endpoints = join(folder, "endpoints.yaml");
    writeFileSync(endpoints, `endpoints:\n- { name: sim, address: 127.0.0.1, port: ${sims[0]!.port} }\n`);
    const file = join(folder, "keys.yaml");
    keys.alice = await addKey(file, "alice");
    keys.bob = await addKey(file, "bob", "--models", "other");
    args = ["--keys", file, "--batch", join(folder, "batches"), "--batch-workers", "16", "--batch-window", "100"];
    gateway = await startGateway(endpoints, args);
  });
  afterAll(async () => {
    await Promise.all([gateway, ...sims].map((one) => one?.process.stop()));
    rmSync(folder, { recursive: true, force: true });
  });

  it("answers batches beside live requests, also after a SIGKILL in the middle", async () => {
    const alice = new BatchCalls(`${gateway.url}/v1`, keys.alice);
    const id = await alice.submit(chatLines("c", LINES));
    await gateway.process.until("some answers", async () => (await alice.get(id)).request_counts.completed > 0);
    const live = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${keys.alice}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "sim", max_tokens: 2, messages: [{ role: "user", content: "now" }] }),
    });
    expect(live.status).toBe(200);
    await gateway.process.stop("SIGKILL");
    gateway = await startGateway(endpoints, args);
    alice.moveTo(`${gateway.url}/v1`);
    const { status, request_counts } = await alice.ended(id);
    expect([status, request_counts]).toEqual(["completed", { total: LINES, completed: LINES, failed: 0 }]);
    const { all } = await alice.answers(id);
    expect([all.length, new Set(all).size]).toEqual([LINES, LINES]);
    const feed = await getJson<{ gate: { because: string }; batches: { id: string; caller: string }[] }>(
      `${gateway.adminUrl}/debug/batches`,
    );
    expect(feed.batches).toMatchObject([{ id, caller: "alice", status: "completed", completed: LINES }]);
    // The dispatcher of the batches, which has a thread of its own, counts in the metrics of the gateway. The first batch may have
    // ended before the kill.
    expect((await alice.ended(await alice.submit(chatLines("m", 2)))).status).toBe("completed");
    const accept = "application/openmetrics-text";
    const lane = '{pool_name="batch",queue_id="batch-lane-0",queue_name="batch-lane-0"}';
    // The dispatcher looks at its backlog each second.
    const page = await poll("an empty backlog", async () => {
      const { text } = await ask(`${gateway.adminUrl}/metrics`, { headers: { accept } });
      return text.includes(`\nllm_d_async_async_broker_backlog${lane} 0\n`) ? text : undefined;
    });
    expect(page).toMatch(new RegExp(`^llm_d_async_async_successful_requests_total${lane} [1-9]`, "m"));
    expect(page).toContain('\nllm_d_async_async_pool_worker_limit{pool_name="batch"} 16\n');
    expect(page).toContain('\nllm_d_async_async_gate_metric_source_available{inference_pool="",pool_name="batch"');
    expect(page).toContain("\nllm_d_epp_");
    expect(page.match(/^# EOF$/gm)).toHaveLength(1);
    // What lets the lines into the gateway does not reach a model server.
    const { requests } = await getJson<{ requests: { headers: Record<string, string> }[] }>(
      `${sims[0]!.url}/admin/requests`,
    );
    expect(requests.length).toBeGreaterThan(0);
    const names = new Set(requests.flatMap(({ headers }) => Object.keys(headers)));
    expect([names.has("authorization"), names.has("x-sluice-batch")]).toEqual([false, false]);
  });

  it("keeps callers apart, and a batch to the models of its key", async () => {
    const bob = new BatchCalls(`${gateway.url}/v1`, keys.bob);
    expect((await bob.call<{ data: unknown[] }>("GET", "/batches")).data).toEqual([]);
    expect((await bob.ended(await bob.submit(`${chatLine("a")}\n`))).status).toBe("failed");
    await expect(new BatchCalls(`${gateway.url}/v1`).call("GET", "/files")).rejects.toThrow(/^401 /);
  });

  it("has its folder to itself, and says what it keeps batches in", async () => {
    const second = sluice(
      "gateway",
      "--endpoints",
      endpoints,
      "--listen",
      "127.0.0.1:0",
      "--admin",
      "127.0.0.1:0",
      ...args,
    );
    expect((await second.ended()).code).toBe(1);
    expect(second.stderr).toContain("another process already serves the batches in");
    const remote = sluice("gateway", "--endpoints", endpoints, "--batch", "redis://127.0.0.1:6379");
    expect((await remote.ended()).code).toBe(2);
    expect(remote.stderr).toContain("batches in Redis need a place for files that all processes reach");
  });

  it("ends in order while a batch runs", async () => {
    const alice = new BatchCalls(`${gateway.url}/v1`, keys.alice);
    await alice.submit(chatLines("d", LINES));
    await gateway.process.stop("SIGTERM");
    expect(gateway.process.exit).toEqual({ code: 0, signal: null });
  });
});
