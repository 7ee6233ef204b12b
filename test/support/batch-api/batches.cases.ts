import { writeFileSync } from "node:fs";
import { buffer } from "node:stream/consumers";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type BatchStatus, NEXT_STATUS, STATUSES } from "../../../src/async/batch-api/batch-status.ts";
import type { Batches, Held } from "../../../src/async/batch-api/batches.ts";
import { newId } from "../../../src/async/batch-api/file-table.ts";
import { type BatchLimits, DEFAULT_BATCH_LIMITS, NO_COUNTS } from "../../../src/async/batch-api/records.ts";

const NOW = 1_800_000_000;
const ALL = { after: undefined, limit: 100, order: "desc" } as const;
const { signal } = new AbortController();

/** Statuses through which a batch gets to each status, the status itself last. */
const WAYS: Readonly<Record<BatchStatus, readonly BatchStatus[]>> = {
  validating: [],
  failed: ["failed"],
  in_progress: ["in_progress"],
  finalizing: ["in_progress", "finalizing"],
  completed: ["in_progress", "finalizing", "completed"],
  expired: ["in_progress", "finalizing", "expired"],
  cancelling: ["cancelling"],
  cancelled: ["cancelling", "cancelled"],
};

/** Uploads a file. @returns its id, or why it is refused */
export async function upload(
  batches: Batches,
  owner: string,
  content: string,
  limits: Partial<BatchLimits> = {},
): Promise<string> {
  const id = newId("file-");
  writeFileSync(batches.spool.upload(id), content);
  const file = { id, owner, purpose: "batch", filename: "ü.jsonl", bytes: Buffer.byteLength(content) } as const;
  const whole = { ...file, createdAt: NOW, expiresAt: NOW + 100 };
  return (await batches.addFile(whole, { ...DEFAULT_BATCH_LIMITS, ...limits })) ?? id;
}

/** Makes a batch of a file. @returns its id, or why it is refused */
export async function makeBatch(
  batches: Batches,
  owner: string,
  inputFileId: string,
  limits: Partial<BatchLimits> = {},
): Promise<string> {
  const made = await batches.add(
    {
      ...{ caller: { id: owner, name: owner, models: ["m"] }, endpoint: "/v1/embeddings", inputFileId },
      ...{ completionWindow: "10s", windowSeconds: 10, metadata: { a: "ü" }, outputSeconds: undefined },
    },
    { ...DEFAULT_BATCH_LIMITS, ...limits },
    NOW,
  );
  return typeof made === "string" ? made : made.id;
}

/** What every place for batches does alike. @param open a new and empty one, of the only process that uses it */
export function batchesCases(open: () => Promise<Batches>): void {
  describe("files and batches", () => {
    let batches: Batches;

    beforeEach(async () => {
      batches = await open();
    });
    afterEach(() => batches.close());

    /** The right to work on a batch. */
    const hold = async (id: string): Promise<Held> => {
      const held = (await batches.look(true)).find((each) => each.id === id);
      if (held === undefined) throw new Error(`${id} is not held`);
      return held;
    };

    it("are those of their caller alone", async () => {
      const file = await upload(batches, "alice", "x");
      const id = await makeBatch(batches, "alice", file);
      expect(await batches.file("alice", file)).toEqual({
        ...{ id: file, owner: "alice", purpose: "batch", filename: "ü.jsonl", bytes: 1 },
        ...{ createdAt: NOW, expiresAt: NOW + 100 },
      });
      expect(await batches.file("bob", file)).toBeUndefined();
      expect(await batches.listFiles("bob", ALL)).toEqual({ entries: [], hasMore: false });
      expect(await batches.listFiles("bob", { ...ALL, after: file })).toBeUndefined();
      expect(await batches.removeFile("bob", file)).toBe("unknown");
      expect(await batches.find("bob", id)).toBeUndefined();
      expect(await batches.list("bob", ALL)).toEqual({ entries: [], hasMore: false });
      expect(await batches.list("bob", { ...ALL, after: id })).toBeUndefined();
      expect(await batches.find("alice", id)).toMatchObject({
        ...{ id, owner: "alice", status: "validating", endpoint: "/v1/embeddings", inputFileId: file },
        ...{ caller: { id: "alice", name: "alice", models: ["m"] }, completionWindow: "10s", metadata: { a: "ü" } },
        ...{ outputSeconds: undefined, createdAt: NOW, expiresAt: NOW + 10, reached: {}, problems: [], total: 0 },
        ...{ submitted: 0, hasOutput: false, hasErrors: false, ...NO_COUNTS, underWay: 0, rate: 0, problem: "" },
      });
      expect(await batches.any("batch_none")).toBeUndefined();
      expect(await makeBatch(batches, "bob", file)).toBe("no-file");
      expect(await makeBatch(batches, "bob", "file-none")).toBe("no-file");
    });

    it("are listed in parts, in both orders", async () => {
      const files: string[] = [];
      for (let n = 0; n < 5; n++) files.push(await upload(batches, "a", "x"));
      const page = async (after: string | undefined, order: "asc" | "desc") => {
        const found = (await batches.listFiles("a", { after, limit: 2, order }))!;
        return [found.entries.map(({ id }) => files.indexOf(id)), found.hasMore];
      };
      expect(await page(undefined, "desc")).toEqual([[4, 3], true]);
      expect(await page(files[3], "desc")).toEqual([[2, 1], true]);
      expect(await page(files[1], "desc")).toEqual([[0], false]);
      expect(await page(undefined, "asc")).toEqual([[0, 1], true]);
      expect(await page(files[2], "asc")).toEqual([[3, 4], false]);
      expect((await batches.listFiles("a", ALL, "batch_output"))?.entries).toEqual([]);
      expect((await batches.listFiles("a", ALL, "batch"))?.entries).toHaveLength(5);
      const ids: string[] = [];
      for (let n = 0; n < 3; n++) ids.push(await makeBatch(batches, "a", files[0]!));
      const listed = await batches.list("a", { after: ids[2], limit: 1, order: "desc" });
      expect([listed?.entries.map(({ id }) => id), listed?.hasMore]).toEqual([[ids[1]], true]);
      await batches.move(await hold(ids[2]!), "failed", NOW);
      expect((await batches.latest(9)).map(({ id }) => id)).toEqual([ids[1], ids[0], ids[2]]);
    });

    it("are bounded for each caller, and for all", async () => {
      const limits = { callerFiles: 2, callerBytes: 10, callerBatches: 2, allBatches: 3 };
      const first = await upload(batches, "a", "12345678", limits);
      expect(await upload(batches, "a", "123", limits)).toBe("too-many-bytes");
      await upload(batches, "a", "12", limits);
      expect(await upload(batches, "a", "", limits)).toBe("too-many-files");
      expect(await batches.usage("a")).toEqual({ bytes: 10, files: 2 });
      expect(await batches.usage("b")).toEqual({ bytes: 0, files: 0 });
      const b = await upload(batches, "b", "x", limits);
      const c = await upload(batches, "c", "x", limits);
      const id = await makeBatch(batches, "a", first, limits);
      const second = await makeBatch(batches, "a", first, limits);
      expect(await makeBatch(batches, "a", first, limits)).toBe("caller-full");
      const third = await makeBatch(batches, "b", b, limits);
      expect(await makeBatch(batches, "c", c, limits)).toBe("all-full");
      const lanes = await Promise.all([id, second, third].map(async (each) => (await batches.any(each))!.lane));
      expect([lanes[0] === lanes[1], lanes[0] === lanes[2]]).toEqual([true, false]);
      await batches.move(await hold(id), "failed", NOW);
      expect(await makeBatch(batches, "a", first, limits)).toMatch(/^batch_/);
      expect(await batches.removeFile("a", first)).toBe("in-use");
      expect((await batches.totals()).open).toBe(3);
    });

    it("move as the table of statuses says, and in no other way", async () => {
      const file = await upload(batches, "a", "x");
      for (const from of STATUSES)
        for (const to of STATUSES) {
          const id = await makeBatch(batches, "a", file);
          const held = await hold(id);
          for (const [at, step] of WAYS[from].entries()) expect(await batches.move(held, step, NOW + at)).toBe(true);
          const allowed = NEXT_STATUS[from].includes(to);
          // An ended batch is held by nobody; a folder says so, and a store that another process may have it.
          const moved = await batches.move(held, to, NOW + 9).catch(() => false);
          expect(moved, `${from} to ${to}`).toBe(allowed);
          const batch = (await batches.any(id))!;
          expect(batch.status).toBe(allowed ? to : from);
          expect(batch.reached[to]).toBe(
            allowed ? NOW + 9 : WAYS[from].includes(to) ? NOW + WAYS[from].indexOf(to) : undefined,
          );
          await batches.cancel(id, NOW);
          if ((await batches.any(id))!.status === "cancelling") await batches.move(held, "cancelled", NOW);
          if ((await batches.any(id))!.status === "finalizing") await batches.move(held, "expired", NOW);
        }
      expect((await batches.totals()).open).toBe(0);
    });

    it("are cancelled by anybody who knows the id, until they end", async () => {
      const id = await makeBatch(batches, "a", await upload(batches, "a", "x"));
      const held = await hold(id);
      expect(await batches.cancel(id, NOW + 1)).toBe(true);
      expect(await batches.cancel(id, NOW + 2)).toBe(true);
      expect((await batches.any(id))!.reached).toEqual({ cancelling: NOW + 1 });
      expect((await batches.look(true)).map(({ status }) => status)).toEqual(["cancelling"]);
      await batches.move(held, "cancelled", NOW + 3);
      expect(await batches.cancel(id, NOW + 4)).toBe(false);
      expect(await batches.cancel("batch_none", NOW)).toBe(false);
    });

    it("tell of their progress, and have their answers at the end", async () => {
      const input = await upload(batches, "a", "the input");
      const id = await makeBatch(batches, "a", input);
      const held = await hold(id);
      const batch = (await batches.any(id))!;
      expect(String(await buffer(await batches.readFile((await batches.file("a", input))!)))).toBe("the input");
      const path = await batches.input(batch, signal);
      expect(await batches.input(batch, signal)).toBe(path);
      await batches.move(held, "in_progress", NOW, { total: 9 });
      await batches.advance(held, 7);
      const counts = { ...NO_COUNTS, completed: 2, failed: 1, inputTokens: 5 };
      await batches.note(held, counts, { underWay: 3, rate: 1.5, problem: "p" });
      expect(await batches.any(id)).toMatchObject({ ...counts, submitted: 7, underWay: 3, rate: 1.5, problem: "p" });
      expect(await batches.totals()).toEqual({ open: 1, left: 6, rate: 1.5 });
      writeFileSync(batches.answerPaths(batch).outputs, "answers\n");
      writeFileSync(batches.answerPaths(batch).errors, "");
      await batches.move(held, "finalizing", NOW);
      const { output, errors } = await batches.publish(batch);
      expect([output.bytes, errors.bytes]).toEqual([8, 0]);
      const file = {
        ...output,
        owner: "a",
        purpose: "batch_output",
        filename: "o",
        createdAt: NOW,
        expiresAt: NOW + 9,
      } as const;
      await batches.move(held, "completed", NOW + 1, {
        ...{ counts: { ...counts, completed: 8 }, hasOutput: true, hasErrors: false, files: [file] },
        ...{ outputFileId: output.id, errorFileId: errors.id },
      });
      const ended = (await batches.any(id))!;
      expect(ended).toMatchObject({ status: "completed", completed: 8, hasOutput: true, hasErrors: false, rate: 0 });
      expect(await batches.file("a", ended.outputFileId)).toEqual(file);
      expect(String(await buffer(await batches.readFile(file)))).toBe("answers\n");
      expect(await batches.usage("a")).toEqual({ bytes: 17, files: 2 });
      await batches.leave(ended);
      expect(await batches.look(true)).toEqual([]);
      expect(await batches.removeFile("a", output.id)).toBe("removed");
      expect(await batches.removeFile("a", output.id)).toBe("unknown");
      await batches.tidy(NOW, 1000);
      await expect(batches.readFile(file).then(buffer)).rejects.toThrow();
    });

    it("go when their time is over, but no input of an open batch", async () => {
      const input = await upload(batches, "a", "x");
      const other = await upload(batches, "a", "y");
      const id = await makeBatch(batches, "a", input);
      const held = await hold(id);
      await batches.tidy(NOW + 99, 1000);
      expect(await batches.usage("a")).toEqual({ bytes: 2, files: 2 });
      await batches.tidy(NOW + 100, 50);
      expect([await batches.file("a", other), (await batches.file("a", input))?.id]).toEqual([undefined, input]);
      await batches.move(held, "failed", NOW);
      await batches.tidy(NOW + 60, 50);
      expect((await batches.any(id))?.status).toBe("failed");
      await batches.tidy(NOW + 60 + 1000, 50);
      expect([await batches.any(id), await batches.file("a", input)]).toEqual([undefined, undefined]);
      expect(await batches.list("a", ALL)).toEqual({ entries: [], hasMore: false });
    });

    it("have events, each of them for one attempt at a time", async () => {
      const file = await upload(batches, "a", "x");
      const ids = [await makeBatch(batches, "a", file), await makeBatch(batches, "a", file)];
      for (const [at, id] of ids.entries()) await batches.move(await hold(id), "failed", NOW + at);
      const { events } = batches;
      expect((await events.figures()).waiting).toBe(2);
      expect(await events.due(NOW - 1, 9)).toEqual([]);
      const [first, second] = await events.due(NOW + 1, 9);
      expect(first).toMatchObject({ type: "batch.failed", batchId: ids[0], createdAt: NOW, attempts: 0 });
      expect(await events.begin(first!, NOW + 20)).toBe(true);
      expect((await events.due(NOW + 1, 9)).map(({ id }) => id)).toEqual([second!.id]);
      await events.failed(first!, NOW + 5);
      const [again] = await events
        .due(NOW + 5, 1)
        .then((due) => due.filter(({ id }) => id === first!.id).concat(first!));
      expect(again).toMatchObject({ id: first!.id });
      await events.begin(second!, NOW + 20);
      await events.cutOff(second!, NOW + 2);
      expect((await events.due(NOW + 2, 9)).find(({ id }) => id === second!.id)).toMatchObject({ attempts: 0 });
      await events.end(second!, "delivered", 0);
      await events.end(first!, "givenUp", 1);
      expect(await events.figures()).toEqual({ delivered: 1, givenUp: 1, failedAttempts: 2, waiting: 0 });
      expect(await events.due(NOW + 100, 9)).toEqual([]);
    });

    it("have the state of the gate", async () => {
      const gate = { state: "open", because: "x", budget: 1, baseline: 0.2, running: 3, workers: 4 } as const;
      expect(await batches.gate()).toBeUndefined();
      await batches.keepGate({ ...gate, running: 1 }, 1000);
      await batches.keepGate(gate, 2000);
      expect(await batches.gate()).toEqual(gate);
    });
  });
}
