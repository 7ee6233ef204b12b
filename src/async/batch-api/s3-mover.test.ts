import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { describe, expect, it } from "vitest";
import { engineRigs, inputLines } from "../../../test/support/batch-api/engine-rig.cases.ts";
import { SluiceError } from "../../base/inference/errors.ts";
import { silentLogger } from "../../base/telemetry/logger.ts";
import { S3Contents } from "./s3-contents.ts";
import { S3Mover } from "./s3-mover.ts";

const rigs = engineRigs();
type Rig = ReturnType<typeof rigs>;

/** A bucket in memory. */
class Bucket {
  readonly objects = new Map<string, Buffer>();
  readonly calls: string[] = [];
  /** Undefined = it works. */
  fault: (() => void) | undefined;
  /** Awaited within each call. */
  hold: Promise<unknown> = Promise.resolve();

  async put(id: string, path: string, signal: AbortSignal): Promise<void> {
    this.calls.push(`put ${id}`);
    const content = readFileSync(path);
    const cut = new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    await Promise.race([this.hold, cut]);
    this.fault?.();
    this.objects.set(id, content);
  }

  async get(id: string): Promise<{ content: Readable; bytes: number }> {
    this.calls.push(`get ${id}`);
    await this.hold;
    this.fault?.();
    const content = this.objects.get(id);
    if (content === undefined) throw new SluiceError("BATCH_BUCKET", `no object ${id}`);
    return { content: Readable.from([content.subarray(0, 3), content.subarray(3)]), bytes: content.length };
  }

  async remove(id: string): Promise<void> {
    this.calls.push(`remove ${id}`);
    this.fault?.();
    this.objects.delete(id);
  }
}

function setUp(rig: Rig = rigs(), bucket = new Bucket()) {
  const { folder, store, clock } = rig;
  const files = store.bucketFiles();
  const isInput = (id: string): boolean => store.files.isInput(id);
  const mover = new S3Mover({ folder, files, objects: bucket, isInput, clock, log: silentLogger });
  const contents = new S3Contents(folder, bucket, (id) => mover.free(id));
  const text = async (id: string): Promise<string> => {
    const { bytes } = store.files.find("a", id)!;
    return (await buffer(await contents.read(id, bytes))).toString();
  };
  const isLocal = (id: string): boolean => existsSync(folder.content(id));
  return { rig, bucket, files, mover, contents, text, isLocal };
}

describe("files in a bucket", () => {
  it("move there from the folder, also those that were there before, and read the same", async () => {
    const rig = rigs();
    const before = rig.file("a", "before");
    const { bucket, files, mover, text, isLocal } = setUp(rig);
    const after = rig.file("a", "after\u{1f600}");
    expect([files.waiting(), await text(before), await text(after)]).toEqual([2, "before", "after\u{1f600}"]);
    mover.start();
    await rig.pass(1000);
    expect([files.waiting(), isLocal(before), isLocal(after)]).toEqual([0, false, false]);
    expect([...bucket.objects.keys()].sort()).toEqual([before, after].sort());
    expect([await text(before), await text(after)]).toEqual(["before", "after\u{1f600}"]);
    await mover.stop();
    // Another start moves nothing twice.
    const again = setUp(rig, bucket);
    again.mover.start();
    await rig.pass(5000);
    expect(bucket.calls.filter((call) => call.startsWith("put"))).toHaveLength(2);
    await again.mover.stop();
  });

  it("leave it with their file, whether or not they got there", async () => {
    const { rig, bucket, mover } = setUp();
    const [moved, never] = [rig.file("a", "1"), rig.file("a", "2")];
    expect(rig.store.files.remove("a", never)).toBe("removed");
    mover.start();
    await rig.pass(1000);
    expect([...bucket.objects.keys()]).toEqual([moved]);
    rig.store.files.remove("a", moved);
    await rig.pass(1000);
    expect(bucket.objects.size).toBe(0);
    const { length } = bucket.calls;
    await rig.pass(60_000);
    expect(bucket.calls).toHaveLength(length);
    await mover.stop();
  });

  it("leave it also when the file is removed while it moves", async () => {
    const { rig, bucket, mover } = setUp();
    const held = Promise.withResolvers<void>();
    bucket.hold = held.promise;
    const id = rig.file("a", "1");
    mover.start();
    await rig.pass(1000);
    rig.store.files.remove("a", id);
    held.resolve();
    await rig.pass(3000);
    expect(bucket.calls).toEqual([`put ${id}`, `remove ${id}`]);
    expect(bucket.objects.size).toBe(0);
    await mover.stop();
  });

  it("stay in the folder while the bucket is away, and hold nothing up", async () => {
    const { rig, bucket, files, mover, contents, text, isLocal } = setUp();
    bucket.fault = () => {
      throw new Error("away");
    };
    const [first, second] = [rig.file("a", "1"), rig.file("a", "2")];
    mover.start();
    await rig.pass(29_000);
    expect(bucket.calls.sort()).toEqual([`put ${first}`, `put ${second}`].sort());
    contents.free(first);
    expect([isLocal(first), await text(second)]).toEqual([true, "2"]);
    rig.store.files.remove("a", first);
    bucket.fault = undefined;
    await rig.pass(32_000);
    expect([[...bucket.objects.keys()], files.waiting()]).toEqual([[second], 0]);
    await mover.stop();
  });

  it("move again when the process ended before it knew of the object", async () => {
    const { rig, bucket, mover, isLocal } = setUp();
    bucket.hold = new Promise(() => {});
    const id = rig.file("a", "1");
    mover.start();
    await rig.pass(1000);
    await mover.stop();
    expect(isLocal(id)).toBe(true);
    bucket.hold = Promise.resolve();
    const next = setUp(rig, bucket);
    next.mover.start();
    await rig.pass(1000);
    expect([isLocal(id), await next.text(id), next.files.waiting()]).toEqual([false, "1", 0]);
    await next.mover.stop();
  });

  it("stay on this machine while a batch reads them", async () => {
    const { rig, bucket, mover, contents, isLocal } = setUp();
    const batch = rig.batch(inputLines(2), { owner: "a" });
    const { inputFileId: id } = rig.get(batch);
    mover.start();
    await rig.pass(2000);
    expect([bucket.objects.has(id), isLocal(id)]).toEqual([true, true]);
    expect(await contents.local(id, AbortSignal.abort())).toBe(rig.folder.content(id));
    rig.store.batches.move(batch, "failed", 1);
    contents.free(id);
    expect(isLocal(id)).toBe(false);
    await mover.stop();
  });

  it("come back as a copy for a batch, once for two, which goes at the end", async () => {
    const { rig, bucket, mover, contents } = setUp();
    const id = rig.file("a", inputLines(3));
    mover.start();
    await rig.pass(1000);
    const { signal } = new AbortController();
    const [one, two] = await Promise.all([contents.local(id, signal), contents.local(id, signal)]);
    expect([one, two, readFileSync(one, "utf8")]).toEqual([rig.folder.copy(id), one, inputLines(3)]);
    expect(await contents.local(id, signal)).toBe(one);
    expect(bucket.calls.filter((call) => call === `get ${id}`)).toHaveLength(1);
    contents.free(id);
    expect(existsSync(one)).toBe(false);
    // What a kill leaves is removed at the next start.
    await contents.local(id, signal);
    rig.store.sweep();
    expect(readdirSync(join(rig.folder.path, "files"))).toEqual([]);
    await mover.stop();
  });

  it("are an error when the object is gone, cut or broken off, and leave nothing behind", async () => {
    const { rig, bucket, mover, contents, text } = setUp();
    const id = rig.file("a", "123456");
    mover.start();
    await rig.pass(1000);
    const { signal } = new AbortController();
    const whole = bucket.objects.get(id)!;
    bucket.objects.set(id, whole.subarray(0, 5));
    await expect(text(id)).rejects.toMatchObject({ code: "BATCH_BUCKET" });
    bucket.get = async () => ({ content: Readable.from([whole.subarray(0, 5)]), bytes: 6 });
    await expect(contents.local(id, signal)).rejects.toMatchObject({ code: "BATCH_BUCKET" });
    const broken = new Readable({ read: () => broken.destroy(new Error("reset")) });
    bucket.get = async () => ({ content: broken, bytes: 6 });
    await expect(contents.local(id, signal)).rejects.toMatchObject({ code: "BATCH_BUCKET", message: /reset/ });
    expect(readdirSync(join(rig.folder.path, "files"))).toEqual([]);
    await mover.stop();
  });
});
