import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { loadS3, S3Objects } from "../../src/async/batch-api/s3-objects.ts";
import { startBatchServer, type TestBatchServer } from "../support/batch-server.ts";
import { freePort } from "../support/free-port.ts";
import { GatewayProcess } from "../support/gateway-process.ts";
import { poll } from "../support/poll.ts";
import { sluice } from "../support/process.ts";
import { type S3Server, startS3 } from "../support/s3/s3-server.ts";
import { BatchCalls, chatLines } from "./calls.ts";

// The files of batches in a bucket of a server that nobody here wrote.

const MIB = 1024 * 1024;
const LINES = 30;

describe("a bucket for the files of batches", () => {
  let folder: string;
  let s3: S3Server;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "sluice-batch-s3-"));
    // Without credentials here, the client of S3 would look for some in the network.
    process.env["AWS_ACCESS_KEY_ID"] = "test";
    process.env["AWS_SECRET_ACCESS_KEY"] = "test";
    s3 = await startS3("files");
  });
  afterAll(async () => {
    await s3?.process.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  it("keeps objects of any size, and says what is wrong", async () => {
    const place = { bucket: "files", prefix: "sizes/", endpoint: s3.url, region: "us-east-1" };
    const package_ = await loadS3();
    const objects = new S3Objects(package_, place, 5 * MIB);
    const { signal } = new AbortController();
    expect(await objects.check(signal)).toBeUndefined();
    const path = join(folder, "content");
    // In one piece; in parts, the last one shorter; and over the first of the same name.
    for (const size of [0, 1000, 5 * MIB, 11 * MIB + 1]) {
      const content = Buffer.alloc(size, "0123456789\n");
      writeFileSync(path, content);
      await objects.put("file-1", path, signal);
      const { content: read, bytes } = await objects.get("file-1");
      expect([bytes, (await buffer(read)).equals(content)]).toEqual([size, true]);
    }
    await expect(objects.put("file-2", path, AbortSignal.abort())).rejects.toMatchObject({ code: "BATCH_BUCKET" });
    await objects.remove("file-1");
    await objects.remove("file-1");
    await expect(objects.get("file-1")).rejects.toMatchObject({ code: "BATCH_BUCKET", message: /NoSuchKey/ });
    expect(await s3.keys()).toEqual([]);
    objects.close();
    const missing = new S3Objects(package_, { ...place, bucket: "nothing" });
    await expect(missing.check(signal)).rejects.toMatchObject({ code: "BATCH_BUCKET", message: /bucket nothing/ });
    missing.close();
    const away = new S3Objects(package_, { ...place, endpoint: `http://127.0.0.1:${await freePort()}` });
    expect(await away.check(signal)).toMatchObject({ code: "BATCH_BUCKET" });
    away.close();
  });

  it("has the inputs and the answers of a batch server, over a kill", async () => {
    const gateway = await GatewayProcess.start({});
    const batches = join(folder, "batches");
    const args = ["--batch-files", "s3://files/jobs", "--batch-s3-endpoint", s3.url];
    let server: TestBatchServer | undefined;
    const localFiles = (): string[] => readdirSync(join(batches, "files"));
    try {
      server = await startBatchServer(batches, gateway.url, args);
      const calls = new BatchCalls(server.url);
      const id = await calls.submit(chatLines("c", LINES));
      expect((await calls.ended(id)).request_counts).toEqual({ total: LINES, completed: LINES, failed: 0 });
      await poll("a folder without files", async () => (localFiles().length === 0 ? true : undefined));
      expect(await s3.keys()).toHaveLength(2);
      expect((await s3.keys()).every((key) => /^jobs\/file-[0-9a-f]{32}$/.test(key))).toBe(true);
      expect(new Set((await calls.answers(id)).good).size).toBe(LINES);
      // A new batch reads the input from the bucket, and goes on after a kill.
      const { input_file_id } = await calls.call<{ input_file_id: string }>("GET", `/batches/${id}`);
      await gateway.manner({ hold: true });
      const wanted = { input_file_id, endpoint: "/v1/chat/completions", completion_window: "24h" };
      const { id: second } = await calls.call<{ id: string }>("POST", "/batches", wanted);
      await poll("a batch that runs", async () =>
        (await calls.get(second)).status === "in_progress" ? true : undefined,
      );
      await server.process.stop("SIGKILL");
      await gateway.manner({ hold: false });
      await gateway.release();
      server = await startBatchServer(batches, gateway.url, args);
      calls.moveTo(server.url);
      expect((await calls.ended(second)).request_counts).toEqual({ total: LINES, completed: LINES, failed: 0 });
      await poll("a folder without files", async () => (localFiles().length === 0 ? true : undefined));
      expect(new Set((await calls.answers(second)).all).size).toBe(LINES);
      await calls.call("DELETE", `/files/${input_file_id}`);
      await poll("a bucket without the input", async () => ((await s3.keys()).length === 2 ? true : undefined));
      const page = await (await fetch(`${server.adminUrl}/metrics`)).text();
      expect(page).toContain("sluice_batch_files_waiting 0");
    } finally {
      await server?.process.stop();
      await gateway.stop();
    }
  });

  it("must be there at the start", async () => {
    const args = ["--gateway", "http://127.0.0.1:1", "--dir", join(folder, "none"), "--batch-s3-endpoint", s3.url];
    const refused = sluice("batch-server", ...args, "--batch-files", "s3://nothing");
    expect((await refused.ended()).code).toBe(1);
    expect(refused.stderr).toMatch(/BATCH_BUCKET|the bucket nothing cannot be used/);
  });
});
