import { type BatchStatus, isOpen, statusesBefore } from "./batch-status.ts";
import type { BatchDatabase } from "./database.ts";
import { cursor, type Listed, type ListPart, newId } from "./file-table.ts";
import type { BatchCounts, BatchLimits, BatchPace, BatchProblem, NewBatch, StoredBatch } from "./records.ts";
import type { WebhookEvents } from "./webhook-events.ts";

/** Queues among which batches are spread: the batches of one caller share one, and no caller waits for another one's. */
export const LANES = 16;

type Row = Readonly<Record<string, string | number | null>>;

/** Why a batch is not made. */
export type BatchRefusal = "caller-full" | "all-full" | "no-file";

/** What changes with a status. */
export interface StatusChange {
  readonly problems?: readonly BatchProblem[];
  readonly total?: number;
  readonly counts?: BatchCounts;
  readonly hasOutput?: boolean;
  readonly hasErrors?: boolean;
  /** Ids of the files with answers and errors, where they are not those of the batch so far. */
  readonly outputFileId?: string;
  readonly errorFileId?: string;
}

/** The batches of all callers. A caller sees its own alone. */
export class BatchTable {
  readonly #db: BatchDatabase;
  readonly #events: WebhookEvents | undefined;

  /** @param events get the ends of batches; undefined = nobody wants them */
  constructor(db: BatchDatabase, events?: WebhookEvents) {
    this.#db = db;
    this.#events = events;
  }

  /** @param now Unix seconds @throws SluiceError BATCH_STORE */
  add(batch: NewBatch, limits: BatchLimits, now: number): StoredBatch | BatchRefusal {
    const { caller, endpoint, inputFileId, completionWindow, windowSeconds, metadata, outputSeconds } = batch;
    const owner = caller.id;
    return this.#db.write(() => {
      const open = this.#db.all<{ owner: string; lane: number; batches: number }>(
        "SELECT owner, lane, count(*) AS batches FROM batches WHERE open = 1 GROUP BY owner, lane",
      );
      const own = open.filter((each) => each.owner === owner);
      if (sum(own) >= limits.callerBatches) return "caller-full";
      if (sum(open) >= limits.allBatches) return "all-full";
      const file = "SELECT 1 FROM files WHERE id = ? AND owner = ? AND purpose = 'batch'";
      if (this.#db.get(file, inputFileId, owner) === undefined) return "no-file";
      const id = newId("batch_");
      this.#db.run(
        `INSERT INTO batches (id, owner, caller, status, open, endpoint, input, output, errors, window, metadata,
           output_seconds, created, expires, reached, lane)
         VALUES (?, ?, ?, 'validating', 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, '{}', ?)`,
        ...[id, owner, JSON.stringify(caller), endpoint, inputFileId, newId("file-"), newId("file-"), completionWindow],
        metadata === undefined ? null : JSON.stringify(metadata),
        ...[outputSeconds ?? null, now, now + windowSeconds, own[0]?.lane ?? emptiest(open)],
      );
      return this.#find(id)!;
    });
  }

  /** The batch of a caller; undefined also for batches of others. */
  find(owner: string, id: string): StoredBatch | undefined {
    const batch = this.#find(id);
    return batch?.owner === owner ? batch : undefined;
  }

  /** A batch of any caller. */
  any(id: string): StoredBatch | undefined {
    return this.#find(id);
  }

  /** @returns undefined when the caller has no batch `after` */
  list(owner: string, { after, limit, order }: ListPart): Listed<StoredBatch> | undefined {
    const from = cursor(this.#db, "batches", owner, after, order);
    if (from === undefined) return undefined;
    const [sign, way] = order === "asc" ? [">", "ASC"] : ["<", "DESC"];
    const sql = `SELECT * FROM batches WHERE owner = ? AND seq ${sign} ? ORDER BY seq ${way} LIMIT ?`;
    const rows = this.#db.all<Row>(sql, owner, from, limit + 1);
    return { entries: rows.slice(0, limit).map(batchOf), hasMore: rows.length > limit };
  }

  /** The open batches of all callers, the oldest first. */
  open(): readonly Pick<StoredBatch, "id" | "owner" | "status">[] {
    return this.#db.all("SELECT id, owner, status FROM batches WHERE open = 1 ORDER BY seq");
  }

  /** Batches of all callers for a picture: open ones first, then the newest. */
  latest(limit: number): readonly StoredBatch[] {
    return this.#db.all<Row>("SELECT * FROM batches ORDER BY open DESC, seq DESC LIMIT ?", limit).map(batchOf);
  }

  /** Open batches, their lines without an answer, and the lines that get one each second. */
  totals(): { readonly open: number; readonly left: number; readonly rate: number } {
    const sql = `SELECT count(*) AS open, coalesce(sum(max(0, total - completed - failed)), 0) AS "left",
      coalesce(sum(rate), 0) AS rate FROM batches WHERE open = 1`;
    return this.#db.get(sql)!;
  }

  /**
   * Moves a batch to another status, where the table of statuses allows it from the present one.
   * @param work further writes of the same transaction
   * @returns whether the batch moved @throws SluiceError BATCH_STORE
   */
  move(id: string, to: BatchStatus, now: number, change: StatusChange = {}, work: () => void = () => {}): boolean {
    const before = statusesBefore(to);
    return this.#db.write(() => {
      const batch = this.#find(id);
      if (batch === undefined || !before.includes(batch.status)) return false;
      const reached = { ...batch.reached, [to]: now };
      this.#db.run(
        `UPDATE batches SET status = ?, open = ?, reached = ?, problems = ?, total = ?, has_output = ?, has_errors = ?
         WHERE id = ?`,
        ...[to, isOpen(to) ? 1 : 0, JSON.stringify(reached), JSON.stringify(change.problems ?? batch.problems)],
        ...[change.total ?? batch.total, Number(change.hasOutput ?? batch.hasOutput)],
        ...[Number(change.hasErrors ?? batch.hasErrors), id],
      );
      if (change.counts !== undefined) this.#count(id, change.counts, { underWay: 0, rate: 0, problem: "" });
      if (!isOpen(to)) this.#events?.insert(id, to, now);
      work();
      return true;
    });
  }

  /** Begins to end a batch. @param now Unix seconds @returns whether it is cancelled, now or before @throws SluiceError BATCH_STORE */
  cancel(id: string, now: number): boolean {
    return this.move(id, "cancelling", now) || this.#find(id)?.status === "cancelling";
  }

  /** Notes how far a batch is. The note may be lost with the power of the machine. @throws SluiceError BATCH_STORE */
  note(id: string, counts: BatchCounts, pace: BatchPace): void {
    this.#db.write(() => this.#count(id, counts, pace), "later");
  }

  /** Notes on the disk that lines up to this one may soon be in the queue. @throws SluiceError BATCH_STORE */
  advance(id: string, line: number): void {
    this.#db.write(() => this.#db.run("UPDATE batches SET submitted = max(submitted, ?) WHERE id = ?", line, id));
  }

  /** Removes batches that ended before `until`, at most 100. @returns how many */
  forget(until: number): number {
    return this.#db.write(() =>
      this.#db.run(
        `DELETE FROM batches WHERE seq IN (SELECT seq FROM batches WHERE open = 0 AND created < ? AND expires < ? LIMIT 100)`,
        ...[until, until],
      ),
    );
  }

  #find(id: string): StoredBatch | undefined {
    const row = this.#db.get<Row>("SELECT * FROM batches WHERE id = ?", id);
    return row && batchOf(row);
  }

  #count(id: string, counts: BatchCounts, { underWay, rate, problem }: BatchPace): void {
    const { completed, failed, unanswered, inputTokens, cachedTokens, outputTokens, reasoningTokens } = counts;
    this.#db.run(
      `UPDATE batches SET completed = ?, failed = ?, unanswered = ?, input_tokens = ?, cached_tokens = ?,
         output_tokens = ?, reasoning_tokens = ?, under_way = ?, rate = ?, problem = ? WHERE id = ?`,
      ...[completed, failed, unanswered, inputTokens, cachedTokens, outputTokens, reasoningTokens],
      ...[underWay, rate, problem, id],
    );
  }
}

function sum(rows: readonly { readonly batches: number }[]): number {
  return rows.reduce((all, { batches }) => all + batches, 0);
}

/** The lane with the fewest open batches. */
function emptiest(open: readonly { readonly lane: number; readonly batches: number }[]): number {
  const counts = new Array<number>(LANES).fill(0);
  for (const { lane, batches } of open) if (lane < LANES) counts[lane]! += batches;
  return counts.indexOf(Math.min(...counts));
}

function batchOf(row: Row): StoredBatch {
  const text = (name: string): string => String(row[name]);
  const number = (name: string): number => Number(row[name]);
  return {
    ...{ id: text("id"), owner: text("owner"), status: text("status") as BatchStatus, endpoint: text("endpoint") },
    caller: JSON.parse(text("caller")) as StoredBatch["caller"],
    ...{ inputFileId: text("input"), outputFileId: text("output"), errorFileId: text("errors") },
    ...{ hasOutput: row["has_output"] === 1, hasErrors: row["has_errors"] === 1 },
    completionWindow: text("window"),
    metadata: row["metadata"] === null ? undefined : (JSON.parse(text("metadata")) as Record<string, string>),
    outputSeconds: row["output_seconds"] === null ? undefined : number("output_seconds"),
    ...{ createdAt: number("created"), expiresAt: number("expires") },
    reached: JSON.parse(text("reached")) as StoredBatch["reached"],
    problems: JSON.parse(text("problems")) as StoredBatch["problems"],
    ...{ total: number("total"), submitted: number("submitted"), lane: number("lane") },
    ...{ completed: number("completed"), failed: number("failed"), unanswered: number("unanswered") },
    ...{ inputTokens: number("input_tokens"), cachedTokens: number("cached_tokens") },
    ...{ outputTokens: number("output_tokens"), reasoningTokens: number("reasoning_tokens") },
    ...{ underWay: number("under_way"), rate: number("rate"), problem: text("problem") },
  };
}
