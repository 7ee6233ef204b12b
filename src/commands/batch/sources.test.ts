import { afterEach, describe, expect, it } from "vitest";
import { type EngineRig, engineRigs, inputLine, inputLines } from "../../../test/support/batch-api/engine-rig.cases.ts";
import { batchApi } from "../../wires/batch-api/batch-api.ts";
import { ApiSource } from "./api-source.ts";
import { FolderSource } from "./folder-source.ts";
import type { BatchSource } from "./source.ts";

const rigs = engineRigs();
const open: BatchSource[] = [];
afterEach(() => {
  for (const source of open.splice(0)) source.close();
});

/** The gate as the service of the folder tells it. */
const GATE = {
  ...({ state: "closed", because: "D 0.1 is not above B 0.2; http://10.0.0.1/metrics" } as const),
  ...{ budget: 0.1, baseline: 0.2, running: 0, workers: 4 },
};

/** The folder, or the API as its caller alice sees it. */
function sourceOf(kind: "folder" | "api", r: EngineRig): BatchSource {
  const source = kind === "folder" ? new FolderSource(r.folder.path, r.clock) : apiOf(r, "alice");
  open.push(source);
  return source;
}

function apiOf(r: EngineRig, owner: string): ApiSource {
  const onError = (error: unknown): void => {
    throw error;
  };
  const api = batchApi({ store: r.batches, limits: r.limits, clock: r.clock, wake: () => r.engine.wake(), onError });
  const send = (url: unknown, init: unknown) =>
    api(new Request(url as string, init as RequestInit), { id: owner, name: owner });
  return new ApiSource("http://batches.test/v1/", "key", r.clock, send as typeof fetch);
}

describe.each(["folder", "api"] as const)("batches from the %s", (kind) => {
  it("have counts, rate, ETA, tokens, files and the gate while they run, and after", async () => {
    const r = rigs({ window: 4 });
    r.engine.start();
    const id = r.batch(inputLines(40), { owner: "alice", seconds: 3600 });
    const source = sourceOf(kind, r);
    expect((await source.get(id)).batch).toMatchObject({ status: "validating", total: 0 });
    await r.pass(1000);
    for (let turn = 0; turn < 5; turn++) {
      await r.settle(await r.claim(2));
      await r.pass(1000);
    }
    r.store.keepGate(GATE, r.clock.wall());
    const { batch, gate } = await source.get(id);
    const file = r.get(id).inputFileId;
    expect(batch).toMatchObject({ id, status: "in_progress", endpoint: "/v1/chat/completions", inputFile: file });
    expect(batch).toMatchObject({ total: 40, completed: 10, failed: 0, inputTokens: 30, outputTokens: 20 });
    expect(batch.pace).toMatchObject({ underWay: 4, makesIt: true, linesPerSecond: expect.any(Number) });
    expect(batch.pace!.etaSeconds).toBe(Math.round(30 / r.get(id).rate));
    expect(batch.caller).toBe(kind === "folder" ? "alice" : undefined);
    expect(gate?.state).toBe("closed");
    if (kind === "folder") expect(gate!.reason).toBe(GATE.because);
    else expect(gate!.reason).toBe("10 % of the model servers is free, but 20 % must stay free for other requests");
    expect(await source.list(5)).toEqual({ batches: [batch], hasMore: false, gate });
    await r.finish(id);
    const done = (await source.get(id)).batch;
    expect(done).toMatchObject({ status: "completed", completed: 40, pace: undefined, errorFile: undefined });
    expect(done.outputFile).toBe(r.get(id).outputFileId);
    await r.engine.stop();
  });

  it("are cancelled, and tell what is wrong with their input", async () => {
    const r = rigs();
    r.engine.start();
    const id = r.batch(inputLines(9), { owner: "alice" });
    const bad = r.batch(inputLine("a", { method: "GET" }), { owner: "alice" });
    await r.pass(2000);
    const source = sourceOf(kind, r);
    const { batch } = await source.get(bad);
    expect(batch).toMatchObject({ status: "failed", problems: [{ line: 1, code: "invalid_method", param: "method" }] });
    expect(await source.cancel(id)).toBe("cancelling");
    expect(r.get(id).status).toBe("cancelling");
    await r.finish(id);
    expect((await source.get(id)).batch.status).toBe("cancelled");
    const refused = { code: "BATCH_API_REFUSED", message: expect.stringContaining("cannot be cancelled") };
    await expect(source.cancel(id)).rejects.toMatchObject(refused);
    await expect(source.get("batch_1")).rejects.toMatchObject({ code: "BATCH_API_REFUSED" });
    const both = await source.list(1);
    expect([both.batches.length, both.hasMore]).toEqual([1, true]);
    await r.engine.stop();
  });
});

describe("a folder", () => {
  it("says that no process serves it, and shows no pace that nobody tells", async () => {
    const r = rigs();
    const id = r.batch(inputLines(3), { owner: "alice" });
    const source = sourceOf("folder", r);
    expect((await source.get(id)).gate).toMatchObject({ state: "unknown" });
    r.store.keepGate(GATE, r.clock.wall());
    expect((await source.get(id)).batch.pace).toBeDefined();
    await r.pass(11_000);
    expect(await source.get(id)).toMatchObject({ batch: { pace: undefined }, gate: { state: "stopped" } });
  });

  it("without batches is refused, and stays as it was", () => {
    const r = rigs();
    expect(() => new FolderSource(`${r.folder.path}/files`, r.clock)).toThrow(/it has no batches.db/);
  });
});

describe("a server", () => {
  const clock = { now: () => 0, wall: () => 0, after: () => ({ cancel() {} }), soon: () => {} };
  const answering = (answer: () => Response): ApiSource =>
    new ApiSource("http://batches.test", undefined, clock, (async () => answer()) as unknown as typeof fetch);

  it("shows the batches of other callers to nobody", async () => {
    const r = rigs();
    const id = r.batch(inputLines(3), { owner: "alice" });
    await expect(apiOf(r, "bob").get(id)).rejects.toMatchObject({ code: "BATCH_API_REFUSED" });
    expect((await apiOf(r, "bob").list(9)).batches).toEqual([]);
    const progress = await batchApi({
      ...{ store: r.batches, limits: r.limits, clock: r.clock, wake() {}, onError() {} },
    })(new Request(`http://batches.test/v1/batches/${id}/progress`), { id: "bob", name: "bob" });
    expect(progress.status).toBe(404);
  });

  it("without progress still shows its batches", async () => {
    const batch = { id: "batch_1", status: "in_progress", endpoint: "/v1/x", created_at: 1, input_file_id: "file-1" };
    const source = new ApiSource("http://batches.test", undefined, clock, (async (url: string) =>
      url.endsWith("/progress")
        ? new Response("not found", { status: 404 })
        : Response.json({ data: [batch], has_more: false })) as unknown as typeof fetch);
    const { batches, gate } = await source.list(5);
    expect(batches[0]).toMatchObject({ id: "batch_1", total: 0, expiresAt: undefined, pace: undefined });
    expect(gate).toBeUndefined();
  });

  it.each([
    [
      "a fault of its own",
      () => Response.json({ error: { message: "later" } }, { status: 503 }),
      "UNREACHABLE",
      /503: later/,
    ],
    [
      "no key",
      () => Response.json({ error: { message: "no\u001b key" } }, { status: 401 }),
      "REFUSED",
      /401: no {2}key/,
    ],
    ["another program", () => new Response("<html>"), "REFUSED", /not as a Batch API/],
    ["a redirect", () => new Response(null, { status: 302, headers: { location: "http://x" } }), "REFUSED", /302/],
    [
      "no connection",
      () => {
        throw new TypeError("fetch failed", { cause: Object.assign(new Error(""), { code: "ECONNREFUSED" }) });
      },
      "UNREACHABLE",
      /batches.test does not answer: ECONNREFUSED/,
    ],
    ["far too much", () => new Response(new Uint8Array(17 * 1024 * 1024)), "UNREACHABLE", /longer than/],
  ])("is refused with a reason: %s", async (_, answer, code, message) => {
    const refusal = { code: `BATCH_API_${code}`, message: expect.stringMatching(message) };
    await expect(answering(answer).list(5)).rejects.toMatchObject(refusal);
  });
});
