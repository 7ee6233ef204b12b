import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, it } from "vitest";
import { engineRigs, inputLines } from "../../../test/support/batch-api/engine-rig.cases.ts";
import { NEXT_STATUS, STATUSES } from "./batch-status.ts";
import { BatchStore } from "./batch-store.ts";
import { BatchFolder } from "./folder.ts";

const rig = engineRigs();

const ALL = { after: undefined, limit: 100, order: "desc" } as const;

describe("the store of files and batches", () => {
  it("shows a caller its own files and batches alone", () => {
    const r = rig();
    const id = r.batch(inputLines(1), { owner: "alice" });
    const file = r.get(id).inputFileId;
    expect(r.store.files.find("alice", file)).toMatchObject({ id: file, owner: "alice", purpose: "batch" });
    expect(r.store.files.find("bob", file)).toBeUndefined();
    expect(r.store.files.list("bob", ALL)?.entries).toEqual([]);
    expect(r.store.files.list("bob", { ...ALL, after: file })).toBeUndefined();
    expect(r.store.files.remove("bob", file)).toBe("unknown");
    expect(r.store.batches.find("bob", id)).toBeUndefined();
    expect(r.store.batches.list("bob", ALL)?.entries).toEqual([]);
    expect(r.store.batches.list("bob", { ...ALL, after: id })).toBeUndefined();
    expect(r.store.batches.find("alice", id)?.id).toBe(id);
    // Another caller's file is no input.
    const other = { caller: { id: "bob", name: "bob" }, endpoint: "/v1/embeddings", inputFileId: file };
    const batch = {
      ...other,
      completionWindow: "1h",
      windowSeconds: 3600,
      metadata: undefined,
      outputSeconds: undefined,
    };
    expect(r.store.batches.add(batch, r.limits, 1)).toBe("no-file");
  });

  it("lists in parts, in both orders", () => {
    const r = rig();
    const ids = Array.from({ length: 5 }, () => r.file("a", "x"));
    const page = (after: string | undefined, order: "asc" | "desc") =>
      r.store.files.list("a", { after, limit: 2, order })!;
    const first = page(undefined, "desc");
    expect([first.entries.map(({ id }) => id), first.hasMore]).toEqual([[ids[4], ids[3]], true]);
    expect(page(ids[3], "desc").entries.map(({ id }) => id)).toEqual([ids[2], ids[1]]);
    expect(page(ids[1], "desc")).toMatchObject({ entries: [{ id: ids[0] }], hasMore: false });
    expect(page(ids[1], "asc").entries.map(({ id }) => id)).toEqual([ids[2], ids[3]]);
    expect(r.store.files.list("a", ALL, "batch_output")?.entries).toEqual([]);
    expect(r.store.files.list("a", ALL, "batch")?.entries).toHaveLength(5);
  });

  it("bounds the open batches of a caller, and of all", () => {
    const r = rig({ limits: { callerBatches: 2, allBatches: 3 } });
    r.batch("x", { owner: "a" });
    const second = r.batch("x", { owner: "a" });
    expect(() => r.batch("x", { owner: "a" })).toThrow("caller-full");
    r.batch("x", { owner: "b" });
    expect(() => r.batch("x", { owner: "c" })).toThrow("all-full");
    r.store.batches.move(second, "failed", 1);
    r.batch("x", { owner: "a" });
  });

  it("moves a batch as the table of statuses says, and in no other way", () => {
    const r = rig({ limits: { callerBatches: STATUSES.length ** 2 } });
    const db = new DatabaseSync(r.folder.database);
    for (const from of STATUSES)
      for (const to of STATUSES) {
        const id = r.batch("x");
        db.prepare("UPDATE batches SET status = ? WHERE id = ?").run(from, id);
        const allowed = NEXT_STATUS[from].includes(to);
        expect(r.store.batches.move(id, to, 7), `${from} to ${to}`).toBe(allowed);
        expect(r.get(id)).toMatchObject({ status: allowed ? to : from, reached: allowed ? { [to]: 7 } : {} });
      }
    db.close();
  });

  it("keeps the input of an open batch, and removes files and batches whose time is over", () => {
    const r = rig();
    const id = r.batch("x", { seconds: 10 });
    const input = r.get(id).inputFileId;
    const other = r.file("", "y");
    expect(r.store.files.remove("", input)).toBe("in-use");
    const later = r.clock.wall() / 1000 + r.limits.keep + 1;
    expect(r.store.files.expire(later)).toBe(1);
    expect([existsSync(r.folder.content(other)), existsSync(r.folder.content(input))]).toEqual([false, true]);
    expect(r.store.batches.forget(later)).toBe(0);
    r.store.batches.move(id, "failed", 1);
    expect(r.store.files.remove("", input)).toBe("removed");
    expect(existsSync(r.folder.content(input))).toBe(false);
    expect(r.store.batches.forget(later)).toBe(1);
    expect(r.store.batches.any(id)).toBeUndefined();
  });

  it("removes what a killed process left, but no answers of an open batch", () => {
    const r = rig();
    const id = r.batch("x");
    const { inputFileId, outputFileId } = r.get(id);
    for (const name of [outputFileId, "file-orphan", "file-1.part"]) writeFileSync(r.folder.content(name), "z");
    r.store.sweep();
    expect(readdirSync(join(r.folder.path, "files")).sort()).toEqual([inputFileId, outputFileId].sort());
  });

  it("has one process at a time", () => {
    const r = rig();
    const lock = r.folder.lock();
    expect(() => new BatchFolder(r.folder.path).lock()).toThrow(
      expect.objectContaining({
        code: "BATCH_SERVED",
        message: `another process already serves the batches in ${r.folder.path}`,
      }),
    );
    lock.release();
    r.folder.lock().release();
  });

  it("refuses a database of another program, and of a newer version", () => {
    const r = rig();
    const set = (pragma: string): void => {
      const db = new DatabaseSync(r.folder.database);
      db.exec(`PRAGMA ${pragma}`);
      db.close();
    };
    set("user_version = 99");
    expect(() => new BatchStore(r.folder)).toThrow(
      expect.objectContaining({ code: "BATCH_STORE", message: expect.stringContaining("newer version") }),
    );
    set("application_id = 1");
    expect(() => new BatchStore(r.folder)).toThrow(/another program/);
  });

  it("keeps the state of the gate", () => {
    const r = rig();
    expect(r.store.gate()).toBeUndefined();
    const gate = { state: "open", because: "x", budget: 1, baseline: 0.2, running: 3, workers: 4 } as const;
    expect(r.store.gateAt()).toBeUndefined();
    r.store.keepGate({ ...gate, running: 1 }, 1000);
    r.store.keepGate(gate, 2000);
    expect([r.store.gate(), r.store.gateAt()]).toEqual([gate, 2000]);
  });
});
