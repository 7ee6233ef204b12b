import { readdirSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { EngineRig, inputLines } from "../../../test/support/batch-api/engine-rig.cases.ts";
import type { BatchLimits } from "../../async/batch-api/records.ts";
import { silentLogger } from "../../base/telemetry/logger.ts";
import { type BatchApi, batchApi, isBatchPath } from "./batch-api.ts";
import { batchesSource } from "./batches-feed.ts";

let rig: EngineRig;
let api: BatchApi;
let woken: number;
const errors: unknown[] = [];

function start(limits: Partial<BatchLimits> = {}): void {
  rig = new EngineRig({ limits });
  woken = 0;
  api = batchApi({
    ...{ store: rig.batches, limits: rig.limits, clock: rig.clock },
    wake: () => void woken++,
    onError: (error) => errors.push(error),
  });
}

beforeEach(() => start());
afterEach(() => {
  rig.remove();
  expect(errors.splice(0)).toEqual([]);
});

type Answer = {
  status: number;
  body: Record<string, never> & { readonly error: { code: string; param: string | null } };
};

async function call(method: string, path: string, body?: string | FormData, caller = "alice"): Promise<Answer> {
  // As bytes: a form as a stream complains when a server stops reading it.
  const made = new Response(body ?? null);
  const type = made.headers.get("content-type");
  const sent = body === undefined ? {} : { body: await made.arrayBuffer() };
  const headers = type === null ? {} : { "content-type": type };
  const request = new Request(`http://api${path}`, { method, headers, ...sent });
  const response = await api(request, { id: caller, name: caller });
  return { status: response.status, body: (await response.json()) as Answer["body"] };
}

function form(
  content: string | Uint8Array<ArrayBuffer>,
  fields: Record<string, string> = { purpose: "batch" },
): FormData {
  const made = new FormData();
  made.append("file", new Blob([content]), "in.jsonl");
  for (const [name, value] of Object.entries(fields)) made.append(name, value);
  return made;
}

async function uploaded(content = inputLines(2), caller = "alice"): Promise<string> {
  const { status, body } = await call("POST", "/v1/files", form(content), caller);
  expect(status).toBe(200);
  return body["id"]!;
}

const wanted = (file: string, over: object = {}): string =>
  JSON.stringify({
    ...{ input_file_id: file, endpoint: "/v1/chat/completions", completion_window: "24h", ...over },
  });

/** What the page gets. */
const shown = () =>
  batchesSource({ store: rig.batches, clock: rig.clock, log: silentLogger, wake: () => void woken++ });

/** What the folder of contents holds. */
const contents = (): string[] => readdirSync(join(rig.folder.path, "files"));

describe("/v1/files", () => {
  it("keeps a file, and gives it back to its owner alone", async () => {
    const content = new Uint8Array(300_000).map((_, at) => at % 251);
    const { body } = await call("POST", "/v1/files", form(content));
    expect(body).toEqual({
      ...{ id: expect.stringMatching(/^file-[0-9a-f]{32}$/), object: "file", bytes: 300_000, filename: "in.jsonl" },
      ...{ purpose: "batch", status: "processed", created_at: 1_800_000_000, expires_at: 1_802_592_000 },
    });
    const id = body["id"]!;
    expect(await call("GET", `/v1/files/${id}`)).toEqual({ status: 200, body });
    const got = await api(new Request(`http://api/v1/files/${id}/content`), { id: "alice", name: "" });
    expect(Buffer.from(await got.arrayBuffer()).equals(content)).toBe(true);
    expect(got.headers.get("content-length")).toBe("300000");
    for (const [method, path] of [
      ["GET", ""],
      ["GET", "/content"],
      ["DELETE", ""],
    ] as const)
      expect(await call(method, `/v1/files/${id}${path}`, undefined, "bob")).toMatchObject({
        ...{ status: 404, body: { error: { code: "file_not_found" } } },
      });
    expect((await call("GET", "/v1/files", undefined, "bob")).body["data"]).toEqual([]);
    expect(await call("DELETE", `/v1/files/${id}`)).toEqual({
      status: 200,
      body: { id, object: "file", deleted: true },
    });
    expect(contents()).toEqual([]);
  });

  it("lists by cursor", async () => {
    const ids = [await uploaded(), await uploaded(), await uploaded()];
    const first = await call("GET", "/v1/files?limit=2");
    expect(first.body).toMatchObject({ object: "list", has_more: true, first_id: ids[2], last_id: ids[1] });
    const rest = await call("GET", `/v1/files?limit=2&after=${ids[1]}&purpose=batch`);
    expect(rest.body).toMatchObject({ has_more: false, data: [{ id: ids[0] }] });
    expect((await call("GET", "/v1/files?purpose=vision")).body["data"]).toEqual([]);
    expect((await call("GET", "/v1/files?limit=0")).body.error.param).toBe("limit");
    expect((await call("GET", "/v1/files?after=file-x")).body.error.param).toBe("after");
    expect((await call("GET", "/v1/files?befor=1")).body.error.param).toBe("befor");
  });

  it.each([
    ["purpose", form("x", {})],
    ["purpose", form("x", { purpose: "fine-tune" })],
    ["color", form("x", { purpose: "batch", color: "red" })],
    ["expires_after[anchor]", form("x", { purpose: "batch", "expires_after[seconds]": "3600" })],
    ["expires_after[seconds]", form("x", { purpose: "batch", "expires_after[anchor]": "created_at" })],
    ["purpose", form("x", { purpose: "b".repeat(2000) })],
  ])("refuses a form with a wrong %s, and keeps nothing of it", async (param, body) => {
    expect(await call("POST", "/v1/files", body)).toMatchObject({ status: 400, body: { error: { param } } });
    expect(contents()).toEqual([]);
  });

  it("refuses forms that have no file, two files, or are no forms", async () => {
    const none = new FormData();
    none.append("purpose", "batch");
    const two = form("x");
    two.append("file", new Blob(["y"]), "other");
    expect((await call("POST", "/v1/files", none)).body.error.param).toBe("file");
    expect((await call("POST", "/v1/files", two)).status).toBe(400);
    expect((await call("POST", "/v1/files", "text")).body.error.code).toBe("invalid_form");
    const torn = new Request("http://api/v1/files", {
      ...{ method: "POST", body: '--b\r\ncontent-disposition: form-data; name="file"; filename="f"\r\n\r\nabc' },
      headers: { "content-type": "multipart/form-data; boundary=b" },
    });
    expect((await api(torn, { id: "a", name: "" })).status).toBe(400);
    expect(contents()).toEqual([]);
  });

  it("ends an upload whose client leaves, and keeps nothing of it", async () => {
    let pieces = 0;
    const body = new ReadableStream({
      pull(controller) {
        if (pieces++ > 3) controller.error(new Error("gone"));
        else if (pieces === 1)
          controller.enqueue(Buffer.from('--b\r\ncontent-disposition: form-data; name="file"; filename="f"\r\n\r\n'));
        else controller.enqueue(Buffer.alloc(70_000));
      },
    });
    const headers = { "content-type": "multipart/form-data; boundary=b" };
    const request = new Request("http://api/v1/files", {
      method: "POST",
      body,
      headers,
      duplex: "half",
    } as RequestInit);
    expect((await api(request, { id: "a", name: "" })).status).toBe(400);
    expect(contents()).toEqual([]);
  });

  it("bounds a file, and the files of a caller", async () => {
    rig.remove();
    start({ fileBytes: 100, callerBytes: 150, callerFiles: 2 });
    const over = await call("POST", "/v1/files", form("x".repeat(101)));
    expect(over).toMatchObject({ status: 413, body: { error: { code: "file_too_large" } } });
    await uploaded("x".repeat(100));
    expect(await call("POST", "/v1/files", form("x".repeat(51)))).toMatchObject({
      ...{ status: 413, body: { error: { code: "quota_exceeded" } } },
    });
    await uploaded("x".repeat(100), "bob");
    await uploaded("x");
    expect((await call("POST", "/v1/files", form("x"))).status).toBe(429);
    expect(contents()).toHaveLength(3);
  });
});

describe("/v1/batches", () => {
  it("makes a batch that its owner alone sees", async () => {
    const file = await uploaded();
    const { status, body } = await call("POST", "/v1/batches", wanted(file, { metadata: { job: "7" } }));
    expect(status).toBe(200);
    expect(body).toMatchObject({
      ...{ object: "batch", status: "validating", endpoint: "/v1/chat/completions", errors: null },
      ...{ input_file_id: file, completion_window: "24h", output_file_id: null, error_file_id: null },
      ...{ created_at: 1_800_000_000, expires_at: 1_800_086_400, metadata: { job: "7" } },
      request_counts: { total: 0, completed: 0, failed: 0 },
    });
    expect(woken).toBe(1);
    const id = body["id"]!;
    expect(await call("GET", `/v1/batches/${id}`)).toEqual({ status: 200, body });
    expect((await call("GET", `/v1/batches/${id}`, undefined, "bob")).status).toBe(404);
    expect((await call("POST", `/v1/batches/${id}/cancel`, undefined, "bob")).status).toBe(404);
    expect((await call("GET", "/v1/batches", undefined, "bob")).body["data"]).toEqual([]);
    expect(await call("DELETE", `/v1/files/${file}`)).toMatchObject({
      status: 400,
      body: { error: { code: "file_in_use" } },
    });
  });

  it("takes a batch to its end, and gives its files to its owner", async () => {
    rig.engine.start();
    const { body } = await call("POST", "/v1/batches", wanted(await uploaded()));
    await rig.finish(body["id"]!);
    const ended = (await call("GET", `/v1/batches/${body["id"]}`)).body;
    expect(ended).toMatchObject({ status: "completed", request_counts: { total: 2, completed: 2, failed: 0 } });
    expect(ended["usage"]).toMatchObject({ input_tokens: 6, output_tokens: 4, total_tokens: 10 });
    const path = `/v1/files/${ended["output_file_id"]}`;
    expect((await call("GET", path)).body).toMatchObject({ purpose: "batch_output" });
    expect((await call("GET", path, undefined, "bob")).status).toBe(404);
    const text = await (await api(new Request(`http://api${path}/content`), { id: "alice", name: "" })).text();
    expect(text.trimEnd().split("\n")).toHaveLength(2);
    expect(await call("POST", `/v1/batches/${body["id"]}/cancel`)).toMatchObject({
      ...{ status: 400, body: { error: { code: "batch_not_cancellable" } } },
    });
    await rig.engine.stop();
  });

  it("cancels a batch, and answers the same a second time", async () => {
    const { body } = await call("POST", "/v1/batches", wanted(await uploaded()));
    for (let n = 0; n < 2; n++)
      expect((await call("POST", `/v1/batches/${body["id"]}/cancel`)).body).toMatchObject({ status: "cancelling" });
  });

  it("is cancelled by the page for every caller, and its lines end without an answer", async () => {
    rig.engine.start();
    const { body } = await call("POST", "/v1/batches", wanted(await uploaded(inputLines(4))));
    const id = body["id"]!;
    await rig.pass(1000);
    await rig.settle(await rig.claim(1));
    woken = 0;
    for (let n = 0; n < 2; n++)
      expect(await shown().cancel(id)).toMatchObject({
        isCancelled: true,
        batch: { id, caller: "alice", status: "cancelling" },
      });
    expect(woken).toBe(2);
    await rig.pass(3000);
    await rig.finish(id);
    const ended = (await call("GET", `/v1/batches/${id}`)).body;
    expect(ended).toMatchObject({ status: "cancelled", request_counts: { total: 4, completed: 1, failed: 3 } });
    await rig.engine.stop();
  });

  it("is not cancelled by the page once it has ended, or when nobody has made it", async () => {
    rig.engine.start();
    const { body } = await call("POST", "/v1/batches", wanted(await uploaded()));
    await rig.finish(body["id"]!);
    woken = 0;
    expect(await shown().cancel(body["id"]!)).toMatchObject({ isCancelled: false, batch: { status: "completed" } });
    expect(await shown().cancel("batch_none")).toBeUndefined();
    expect(woken).toBe(0);
    await rig.engine.stop();
  });

  it.each([
    ["endpoint", { endpoint: "/v1/images" }],
    ["completion_window", { completion_window: "soon" }],
    ["completion_window", { completion_window: "40d" }],
    ["input_file_id", { input_file_id: 5 }],
    ["input_file_id", { input_file_id: "file-none" }],
    ["metadata.a", { metadata: { a: 1 } }],
    ["output_expires_after.seconds", { output_expires_after: { anchor: "created_at", seconds: 1 } }],
    ["colour", { colour: "red" }],
  ])("refuses a wrong %s", async (param, over) => {
    const answer = await call("POST", "/v1/batches", wanted(await uploaded(), over));
    expect(answer).toMatchObject({ status: 400, body: { error: { param, type: "invalid_request_error" } } });
    expect(woken).toBe(0);
  });

  it("takes windows of days, and refuses bodies that are no JSON or too long", async () => {
    const file = await uploaded();
    const { body } = await call("POST", "/v1/batches", wanted(file, { completion_window: "7d" }));
    expect(body["expires_at"]).toBe(1_800_000_000 + 7 * 86_400);
    expect((await call("POST", "/v1/batches", "{")).body.error.code).toBe("invalid_json");
    expect((await call("POST", "/v1/batches", `"${"x".repeat(70_000)}"`)).status).toBe(413);
  });

  it("bounds the open batches of a caller", async () => {
    rig.remove();
    start({ callerBatches: 1 });
    const file = await uploaded();
    expect((await call("POST", "/v1/batches", wanted(file))).status).toBe(200);
    expect(await call("POST", "/v1/batches", wanted(file))).toMatchObject({
      ...{ status: 429, body: { error: { code: "too_many_batches", type: "rate_limit_error" } } },
    });
  });
});

describe("the Batch API", () => {
  it("answers other paths and methods with 404", async () => {
    for (const [method, path] of [
      ["GET", "/v1/batches/a/b"],
      ["PUT", "/v1/files"],
      ["GET", "/x"],
    ] as const)
      expect(await call(method, path)).toMatchObject({ status: 404, body: { error: { code: "path_not_found" } } });
  });

  it("has the paths below files and batches alone", () => {
    for (const path of ["/v1/files", "/v1/files/", "/v1/files/a/content", "/v1/batches", "/v1/batches/b/cancel"])
      expect(isBatchPath(path), path).toBe(true);
    for (const path of ["/v1/filesystem", "/v1/batchesx", "/v1", "/v1/chat/completions", "/a/v1/files"])
      expect(isBatchPath(path), path).toBe(false);
  });

  it("tells its progress to the page", async () => {
    rig.engine.start();
    const first = await call("POST", "/v1/batches", wanted(await uploaded(inputLines(4))));
    await rig.pass(1000);
    await rig.settle(await rig.claim(2));
    await rig.pass(2000);
    const feed = await shown().feed();
    expect(feed).toMatchObject({ open: 1, linesLeft: 2, gate: { state: "unknown" } });
    expect(feed.batches).toMatchObject([
      {
        id: first.body["id"],
        caller: "alice",
        status: "in_progress",
        total: 4,
        completed: 2,
        underWay: 2,
        makesIt: true,
      },
    ]);
    expect(feed.batches[0]!.etaSeconds).toBeGreaterThan(0);
    await rig.finish(first.body["id"]!);
    expect(await shown().feed()).toMatchObject({
      ...{ open: 0, linesLeft: 0, linesPerSecond: 0 },
      batches: [{ status: "completed", etaSeconds: null, underWay: 0, endedAt: expect.any(Number) }],
    });
    await rig.engine.stop();
  });
});
