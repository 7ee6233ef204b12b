import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { queueOf } from "../../../../test/support/brokers/broker.cases.ts";
import { CaseFolder } from "../../../../test/support/brokers/sqlite/fixture.cases.ts";
import { sqliteBroker } from "./broker.ts";
import { sqliteProducer } from "./producer.ts";
import { SqliteInspector } from "./queue-client.ts";
import { isBusy, sqliteError } from "./queue-file.ts";

let folder: CaseFolder;
beforeEach(() => {
  folder = new CaseFolder();
});
afterEach(() => folder.remove());

const broker = (path = folder.path) => sqliteBroker({ ...folder.settings(), path }, folder);
const producer = () => sqliteProducer({ path: folder.path, requestQueueName: "q", resultQueueName: "results" }, folder);

describe("which files are used", () => {
  it("another program's database is refused and left as it was", () => {
    const other = new DatabaseSync(folder.path);
    other.exec("CREATE TABLE treasure (gold TEXT); INSERT INTO treasure VALUES ('mine')");
    other.close();
    const before = readFileSync(folder.path);
    expect(() => broker()).toThrow(expect.objectContaining({ code: "QUEUE_FILE_FOREIGN" }));
    expect(() => producer()).toThrow(folder.path);
    expect(readFileSync(folder.path).equals(before)).toBe(true);
  });

  it("a file that is no database is refused and left as it was", () => {
    writeFileSync(folder.path, "dear diary, ".repeat(1000));
    expect(() => broker()).toThrow(expect.objectContaining({ code: "QUEUE_FILE_FOREIGN" }));
    expect(readFileSync(folder.path, "utf8")).toBe("dear diary, ".repeat(1000));
  });

  it("a file of a newer program is refused and named", async () => {
    await broker().close();
    const raw = new DatabaseSync(folder.path);
    raw.exec("PRAGMA user_version = 99");
    raw.close();
    expect(() => broker()).toThrow(expect.objectContaining({ code: "QUEUE_FILE_NEWER" }));
    expect(() => broker()).toThrow("schema version 99");
  });

  it("a damaged file is an error that says what to do", async () => {
    const submitting = producer();
    const payload = { text: "x".repeat(2000) };
    await submitting.submitRequests(
      Array.from({ length: 400 }, (_, at) => ({ id: `m${at}`, deadline: folder.inSeconds(600), payload })),
    );
    await submitting.close();
    const bytes = readFileSync(folder.path);
    bytes.fill(0xa5, 4096);
    writeFileSync(folder.path, bytes);
    const damaged = (): unknown => broker();
    expect(damaged).toThrow(expect.objectContaining({ code: "QUEUE_FILE_CORRUPT" }));
    expect(damaged).toThrow(".recover");
  });

  it("a folder that is not there yet delays, and nothing more", async () => {
    const path = join(folder.folder, "later", "queue.db");
    const early = broker(path);
    await expect(early.check()).rejects.toMatchObject({ code: "BROKER_UNAVAILABLE" });
    await expect(early.check()).rejects.toThrow("check that its folder exists");
    await expect(early.claim(queueOf("q"), { max: 1, expired: 0 })).rejects.toMatchObject({
      code: "BROKER_UNAVAILABLE",
    });
    mkdirSync(dirname(path));
    await early.check();
    expect((await early.claim(queueOf("q"), { max: 1, expired: 0 })).claims).toEqual([]);
    await early.close();
  });

  it("looking into a file that does not exist makes none", async () => {
    const inspector = new SqliteInspector(folder.path, folder);
    await expect(inspector.peek("q", 1)).rejects.toThrow(`there is no queue file ${folder.path}`);
    expect(() => readFileSync(folder.path)).toThrow("ENOENT");
  });

  it("a file that was moved away while in use is noticed, and the new one used", async () => {
    const following = broker();
    const first = producer();
    await first.submitRequest({ id: "old", deadline: folder.inSeconds(600), payload: {} });
    await first.close();
    const [old] = (await following.claim(queueOf("q"), { max: 1, expired: 0 })).claims;
    for (const end of ["", "-wal", "-shm"]) renameSync(`${folder.path}${end}`, `${folder.path}.moved${end}`);
    await following.check();
    expect(await following.backlog(queueOf("q"))).toMatchObject({ claimed: 0, waiting: 0 });
    expect(await following.renew([old!])).toEqual([]);
    expect(await following.backlog(queueOf("q"))).toMatchObject({ claimed: 1, waiting: 0 });
    await following.close();
  });

  it("a closed broker says that it is closed", async () => {
    const closed = broker();
    await closed.close();
    await expect(closed.check()).rejects.toMatchObject({ code: "BROKER_UNAVAILABLE" });
    await expect(closed.check()).rejects.toThrow("was closed");
  });

  it("a request that was accepted is on disk, not only in a log of this process", async () => {
    const submitting = producer();
    await submitting.submitRequest({ id: "a", deadline: folder.inSeconds(600), payload: {} });
    // What a machine finds that lost its power now: the files as they are, the shared memory gone.
    const copy = join(folder.folder, "copy.db");
    for (const end of ["", "-wal"]) writeFileSync(`${copy}${end}`, readFileSync(`${folder.path}${end}`));
    const found = broker(copy);
    expect((await found.claim(queueOf("q"), { max: 1, expired: 0 })).claims).toHaveLength(1);
    await found.close();
    await submitting.close();
    rmSync(copy);
  });
});

describe("what errors of SQLite mean", () => {
  const provoke = (work: (db: DatabaseSync) => void, readOnly = false): unknown => {
    const db = new DatabaseSync(folder.path, { readOnly, timeout: 0 });
    try {
      work(db);
    } catch (error) {
      return error;
    } finally {
      db.close();
    }
    return undefined;
  };
  const meaning = (error: unknown) => sqliteError("/q.db", error);

  beforeEach(async () => broker().close());

  it("a full disk may have room again", () => {
    const error = provoke((db) => {
      db.exec("PRAGMA max_page_count = 1; CREATE TABLE more (x); INSERT INTO more VALUES (zeroblob(100000))");
    });
    expect(meaning(error)).toMatchObject({ code: "BROKER_UNAVAILABLE" });
    expect(meaning(error).message).toContain("/q.db: the disk is full");
  });

  it("a read-only file may be made writable", () => {
    const error = provoke((db) => db.exec("INSERT INTO results (queue, body) VALUES ('q', 'x')"), true);
    expect(meaning(error)).toMatchObject({ code: "BROKER_UNAVAILABLE" });
    expect(meaning(error).message).toContain("read-only");
  });

  it("a lock ends some day", () => {
    const error = provoke((db) => {
      db.exec("BEGIN IMMEDIATE");
      const other = new DatabaseSync(folder.path, { timeout: 0 });
      try {
        other.exec("BEGIN IMMEDIATE");
      } finally {
        other.close();
      }
    });
    expect(isBusy(error)).toBe(true);
    expect(isBusy(meaning(error))).toBe(true);
    expect(meaning(error)).toMatchObject({ code: "BROKER_UNAVAILABLE" });
  });

  it("a statement that can never be carried out is told apart", () => {
    const error = provoke((db) => db.exec("INSERT INTO results (queue, body) VALUES (NULL, NULL)"));
    expect(meaning(error)).toMatchObject({ code: "QUEUE_FILE_ERROR" });
    expect(isBusy(error)).toBe(false);
    expect(meaning(new Error("else"))).toMatchObject({ code: "QUEUE_FILE_ERROR", message: "queue file /q.db: else" });
  });
});
